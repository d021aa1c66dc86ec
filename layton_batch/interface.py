"""Functions for a notebook: ``import layton_batch as lb``. Any library's tables go in, polars frames come out.

Everything here is what the commands do, by the same machinery; docs/python.md has examples that are tested. Errors are
``LaytonBatchError``, with a message that says what to do. ``run`` and ``judge`` pay providers; nothing is paid twice.
Nothing is printed, and no call ends the process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import polars as pl

from layton_batch.clock import LONGEST_PAUSE, SHORTEST_PAUSE, Clock, SystemClock, utc
from layton_batch.consent import (
    AgreementQuestion,
    is_new_revision,
    open_to_pay,
    paid_again,
    question_before_judging,
    question_before_paying,
)
from layton_batch.costs.report import UNKNOWN, CostQuery, line_json
from layton_batch.errors import DataError, ManifestError, NotAgreedError, OverBudgetError, UnfinishedRunError
from layton_batch.files import limits, tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.sources import read_rows
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.frames import Frame, as_files, as_frame, check_scores, read_frame
from layton_batch.grading.board_sources import BoardOptions, Sources, board_of, read_jury_sources, read_sources
from layton_batch.interchange.entering import check_answers, enter
from layton_batch.interchange.into_run import ImportedFiles, import_answers, open_for_import
from layton_batch.interchange.label_sheets import import_labels
from layton_batch.interchange.prediction_files import (
    IMPORTED,
    TEXT,
    ImportedModel,
    answers,
    check_replies,
    has_json_replies,
)
from layton_batch.interchange.writing import ExportArguments, check_form, check_out, write_form
from layton_batch.loop import STOPPING, deadline, drive
from layton_batch.manifest.asked import load_items, manifest_task
from layton_batch.manifest.checks import load_manifest, manifest_of_tables
from layton_batch.manifest.item_check import guess_split, guess_task
from layton_batch.manifest.manifest import Manifest, with_budget
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.records import JsonValue, ModelSpec
from layton_batch.reports.leaderboard_tables import board_html
from layton_batch.reports.plan_tables import plan_json, plan_table
from layton_batch.reports.status_tables import next_steps
from layton_batch.reports.table import as_html
from layton_batch.runs.context import Run
from layton_batch.runs.environment_notes import address_notes, file_notes, hub_notes
from layton_batch.runs.folders import DEFAULT_RUNS, find_each_run, find_run, home_of, named_runs
from layton_batch.runs.model_questions import refuse_dead_models
from layton_batch.runs.open import read_run, refuse_to_mix
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.runs.stores import open_store
from layton_batch.scoring.compare import compare_marks, compare_votes, find_entrant
from layton_batch.scoring.evidence import entrants_of
from layton_batch.scoring.judge_quality import JudgeReport, diagnose
from layton_batch.scoring.label_plan import LabelRequest, LabelTarget, plan_next
from layton_batch.scoring.leaderboard import on_this_set, stored
from layton_batch.settings import Settings
from layton_batch.sites import update_boards, write_sites
from layton_batch.stages.preview import Preview, plan_to_send, preview
from layton_batch.stages.publish import queried_costs
from layton_batch.states import Role
from layton_batch.text import Table, did_you_mean, one_line, plural
from layton_batch.verification.verify import Verification, verify_run

if TYPE_CHECKING:
    import altair as alt

Progress = Callable[[Status], None]
"""Function called with the run's status after every step."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """Current state of a run. ``state``: running, done, needs_person, over_budget or cancelled.

    ``reason``: why the run cannot continue. The frames are the run's tables.
    """

    name: str
    folder: Path
    state: str
    reason: str | None
    spent_usd: Decimal
    unanswered: int

    @property
    def leaderboard(self) -> Leaderboard:
        return Leaderboard(self.table("leaderboard"))

    @property
    def predictions(self) -> pl.DataFrame:
        return self.table("predictions")

    @property
    def verdicts(self) -> pl.DataFrame:
        return self.table("verdicts")

    @property
    def cost(self) -> pl.DataFrame:
        return self.table("cost")

    def table(self, name: str) -> pl.DataFrame:
        """Read any table of the run; no rows if the table does not exist yet. Raises DataError for another name."""
        if name not in SCHEMAS:
            raise DataError(
                f"there is no table {name!r}{did_you_mean(str(name), SCHEMAS)} (tables: {', '.join(SCHEMAS)})"
            )
        return tables.read(self.folder / "tables", name)

    def _repr_html_(self) -> str:
        spent = f"{self.name}: {self.state}, ${self.spent_usd:f} spent"
        reason = "" if self.reason is None else f": {self.reason}"
        return as_html(Table((), (), spent + reason)) + self.leaderboard._repr_html_()


RunSource: TypeAlias = str | Path | RunResult
"""A run: its name, its folder, its manifest's file, or the result of :func:`run`."""
Source: TypeAlias = "RunSource | Frame"
"""A run, a file that ``layton-batch leaderboard`` takes, or a table of either."""


class Leaderboard(pl.DataFrame):
    """A leaderboard: a polars frame that a notebook shows as the command prints it, and that can be drawn."""

    def _repr_html_(self, *, _from_series: bool = False) -> str:
        return board_html(self)

    @property
    def plot(self) -> _LeaderboardPlot:  # type: ignore[override]  # it has what polars' has, and can be called
        """Draw the board: ``board.plot()``. Its members are those of every polars frame, such as ``plot.bar``."""
        return _LeaderboardPlot(self)


@dataclass(frozen=True, slots=True)
class _LeaderboardPlot:
    _board: Leaderboard

    def __call__(self) -> alt.LayerChart:
        """Return an Altair chart of each model's score and interval, the best on top."""
        from layton_batch.reports.charts import board_chart

        return board_chart(self._board)

    def __getattr__(self, name: str) -> object:
        return getattr(pl.DataFrame(self._board).plot, name)


@dataclass(frozen=True, slots=True)
class Plan:
    """Requests and costs of a run before it starts. ``jobs``: a row a job; amounts are None if a price is unknown.

    ``refused``: reasons for which ``run`` would not start; ``caveats``: warnings about the run.
    """

    name: str
    items: int
    requests: int
    expected_usd: Decimal | None
    max_usd: Decimal | None
    caveats: tuple[str, ...]
    refused: tuple[str, ...]
    jobs: pl.DataFrame

    def _repr_html_(self) -> str:
        return as_html(plan_table(self.name, self.jobs.to_dicts(), (*self.refused, *self.caveats)))

    def plot(self) -> alt.LayerChart:
        """Return an Altair chart of what each model is expected to cost, and of the most that it can cost."""
        from layton_batch.reports.charts import plan_chart

        return plan_chart(self.name, self.jobs.to_dicts())


# ---- runs ----------------------------------------------------------------------------------------------------------


def _environment() -> Settings:
    """Read the environment, and the limits of files in it."""
    settings = Settings.from_process()
    limits.LIMITS.take(settings)
    return settings


def _settings() -> Settings:
    """Read the environment, and log what a ``.env`` gives before anything is fetched."""
    settings = _environment()
    _warn((*file_notes(settings), *hub_notes(settings)))
    return settings


def _warn(notes: Iterable[str]) -> None:
    for note in notes:
        logging.getLogger("layton_batch").warning("%s", note)


def _note(line: str) -> None:
    _warn((line,))


def _folder(runs: str | Path | None, settings: Settings) -> Path:
    """Return the folder of runs: the one that is named, else LAYTON_BATCH_RUNS, else ``runs``."""
    return named_runs(runs, settings) or DEFAULT_RUNS


def plan(manifest: str | Path, *, runs: str | Path | None = None) -> Plan:
    """Check a manifest and estimate its cost. Pays nothing and calls no provider."""
    settings, clock = _settings(), SystemClock()
    loaded, folder = _loaded(manifest, settings, runs)
    refuse_to_mix(loaded, home_of(loaded, folder), settings)
    planned = preview(loaded, settings, clock, None, folder)
    jobs = cast("list[dict[str, object]]", plan_json(planned)["jobs"])
    return Plan(
        name=planned.run_id,
        items=planned.items,
        requests=sum(job.requests for job in planned.jobs),
        expected_usd=planned.expected_usd,
        max_usd=planned.max_usd,
        caveats=planned.every_caveat,
        refused=planned.refused,
        jobs=pl.DataFrame(jobs, infer_schema_length=None),
    )


def run(
    manifest: str | Path,
    *,
    runs: str | Path | None = None,
    once: bool = False,
    until: str | None = None,
    max_usd: str | float | Decimal | None = None,
    yes: bool = False,
    poll_seconds: float | None = None,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> RunResult:
    """Start a manifest's run, or go on with it, until it is over. Pays providers, never twice for a question.

    ``runs``: the folder of runs; None: LAYTON_BATCH_RUNS, else ``runs``. ``once``: what needs no waiting. ``until``:
    return at this local time, ``"07:00"``. ``max_usd``: a budget in the place of the manifest's. ``yes``: send also
    without a budget, and what is paid for again. It may be interrupted at any moment; the same call goes on. Raises
    NotAgreedError where the command would ask, and AnotherDriverError where another process drives the run.
    """
    settings, clock = _settings(), clock or SystemClock()
    loaded, folder = _loaded(manifest, settings, runs)
    loaded = with_budget(loaded, None if max_usd is None else str(max_usd))
    stop_at = deadline(until, clock)
    with _begun(loaded, folder, settings, clock, poll_seconds) as (opened, is_gone):
        if is_new_revision(opened):
            planned = plan_to_send(opened, settings)
            if not yes:
                _refuse(question_before_paying(opened, settings, planned, is_gone=is_gone))
            _agree(opened, planned, is_gone=is_gone)
        status = _driven(opened, progress, once=once, stop_at=stop_at)
        return _result(opened.folder, status)


def _loaded(manifest: str | Path, settings: Settings, runs: str | Path | None) -> tuple[Manifest, Path]:
    """Return the manifest and the folder of runs in which its run begins or goes on."""
    if "\n" in str(manifest):
        raise ManifestError("manifest: is a text of several lines; write it into a file, and give the file's path")
    folder = _folder(runs, settings)
    return load_manifest(settings.cwd / Path(manifest).expanduser(), PromptFiles(settings, folder)), folder


def _refuse(question: AgreementQuestion | None) -> None:
    """Raise NotAgreedError where a person has to agree."""
    if question is not None:
        raise NotAgreedError(question.refusal)


def _agree(opened: Run, planned: Preview, *, is_gone: bool, adds_answers: bool = False) -> None:
    """Have the plan be sent, and log which juries are short, and what is paid for again, as the command says it."""
    _warn(planned.before_sending)
    again = paid_again(opened, planned, is_gone=is_gone, adds_answers=adds_answers)
    if again is not None:
        _note(again)
    opened.store.set_agreed(is_agreed=True)


def _begun(
    manifest: Manifest,
    runs: Path,
    settings: Settings,
    clock: Clock,
    poll_seconds: float | None,
    *,
    has_answers: bool = False,
) -> AbstractContextManager[tuple[Run, bool]]:
    """Open a run to pay for. Before its start, check with the providers that its models are available, as the command
    does. Yield the run with whether its earlier folder is gone. ``has_answers``: see :func:`open_to_pay`.
    """

    if poll_seconds is not None and not SHORTEST_PAUSE <= poll_seconds <= LONGEST_PAUSE:
        raise ManifestError(f"poll_seconds {poll_seconds}: give {SHORTEST_PAUSE:g} to {LONGEST_PAUSE:g} seconds")
    _warn(address_notes(manifest, settings))

    def ask() -> None:
        refuse_dead_models(manifest, settings, clock)

    return open_to_pay(
        manifest, runs, settings, clock, poll_seconds=poll_seconds, before_it_begins=ask, has_answers=has_answers
    )


def _driven(opened: Run, progress: Progress | None, *, once: bool = False, stop_at: float | None = None) -> Status:
    """Drive the run; a person who stops it finds in the log that calls in progress are waited for."""
    try:
        return drive(opened, once=once, stop_at=stop_at, progress=progress)
    except KeyboardInterrupt:
        _warn((STOPPING,))
        raise


def _result(folder: RunFolder, status: Status) -> RunResult:
    return RunResult(status.run, folder.root, str(status.state), status.reason, status.spent_usd, status.unanswered)


# ---- statistics ----------------------------------------------------------------------------------------------------


def leaderboard(
    source: Source | Sequence[Source] | None = None,
    *,
    metric: str | None = None,
    method: str | None = None,
    level: float | None = None,
    seed: int | None = None,
    min_score: float = 0.0,
    max_score: float | None = None,
    labels: Sequence[str | Path] = (),
    this_set: bool = False,
    runs: str | Path | None = None,
) -> Leaderboard:
    """Rank models: a row each, best first, scores and intervals in percent, with the range of ranks that holds for all
    of them at once; all for new items of this kind or, with ``this_set``, for exactly these. Columns ``new_*`` and
    ``set_*`` always hold both.

    ``source``: runs, files or tables, one or several; None: the only run. A table is either per-item scores
    (``model``, ``item_id``, ``score`` from 0 to 1, or ``min_score`` to ``max_score``; if you like ``provider``,
    ``n_hints``, ``sample``, ``kind``, and ``flag``, what was wrong) or in layton-eval-ppi's form. ``labels``: files in
    that form of which only people's labels count. Models of tables and files are ranked on the items that all of them
    have; a warning says where a model has more. Raises DataError, with the number of the row, for a score outside
    these bounds.
    """
    options = BoardOptions(method, metric, seed, level, max_score, _names(labels, "labels"), min_score)
    evidence = _read(source, options, runs)
    board = board_of(evidence)
    return Leaderboard(stored(on_this_set(board) if this_set else board))


def compare(
    source: Source | Sequence[Source] | None,
    first: str,
    second: str,
    *,
    metric: str | None = None,
    level: float | None = None,
    seed: int | None = None,
    min_score: float = 0.0,
    max_score: float | None = None,
    runs: str | Path | None = None,
) -> pl.DataFrame:
    """Compare two models: a row for new items of the kind and one for this set (where a jury judged).

    ``difference``, ``lower``, ``upper``: first minus second in points; ``better``: probability that the first is.
    """
    options = BoardOptions(None, metric, seed, level, max_score, min_score=min_score)
    evidence = _read(source, options, runs)
    names = (first, second)
    comparison = (
        compare_marks(evidence.sheets, names, evidence.rules)
        if evidence.sheets
        else compare_votes(evidence.votes, evidence.labels, names, evidence.rules)
    )
    rows = [
        {
            "first": comparison.first.model,
            "second": comparison.second.model,
            "metric": comparison.metric,
            "method": comparison.method,
            **asdict(standing),
            "level": comparison.level,
            "n_items": comparison.n_items,
        }
        for standing in comparison.standings
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def judges(
    source: Source | Sequence[Source] | None = None,
    *,
    metric: str | None = None,
    level: float | None = None,
    seed: int | None = None,
    runs: str | Path | None = None,
) -> pl.DataFrame:
    """Measure the judges against people: a row a judge, fractions, null where no label tells.

    ``accuracy`` with its interval, ``kappa`` (agreement beyond chance), ``leniency`` (verdict minus human label).
    Raises DataError where no jury judged.
    """
    settings = _environment()
    options = BoardOptions(None, metric, seed, level)
    with as_files(_given(source)) as names:
        evidence = read_jury_sources(names, _folder(runs, settings), settings, options, verdicts=True)
    diagnosis = diagnose(evidence.judged, evidence.votes, evidence.labels, evidence.rules, evidence.drift)
    rows = [{"judge": finding.judge} | asdict(finding.report) for finding in diagnosis.judges]
    return pl.DataFrame(rows, schema={"judge": pl.String(), **_schema(JudgeReport)})


def label_plan(
    source: Source | Sequence[Source] | None = None,
    *,
    half_width: float | None = None,
    labels: int | None = None,
    this_set: bool = False,
    models: Sequence[str] = (),
    metric: str | None = None,
    level: float | None = None,
    seed: int | None = None,
    runs: str | Path | None = None,
) -> pl.DataFrame:
    """Choose the answers that people should label next: a row each, the most useful first.

    Either until every interval has ``half_width`` (points), or to make the best of so many ``labels``. ``models``:
    only these. Raises ManifestError and DataError.
    """
    settings = _environment()
    target = LabelTarget(None if half_width is None else half_width / 100, labels, this_set)
    target.check()
    with as_files(_given(source)) as names:
        options = BoardOptions(None, metric, seed, level)
        evidence = read_jury_sources(names, _folder(runs, settings), settings, options)
    only = [find_entrant(entrants_of(evidence.votes), name) for name in _names(models, "models")]
    planned = plan_next(evidence.votes, evidence.labels, target, evidence.rules, only)
    return pl.DataFrame([asdict(row) for row in planned.rows], schema=_schema(LabelRequest))


def _schema(record: type[LabelRequest | JudgeReport]) -> dict[str, pl.DataType]:
    """Return the columns of a frame with a row a record."""
    return {field.name: _TYPES[str(field.type)] for field in fields(record)}


_TYPES = {"str": pl.String(), "int": pl.Int64(), "float": pl.Float64(), "float | None": pl.Float64()}


def _given(source: Source | Sequence[Source] | None, argument: str = "source") -> dict[str, object]:
    """Return the sources by what messages call them: a frame, or the text that names a run or a file; none for None,
    which is the only run.
    """
    if source is None:
        return {}
    frame = as_frame(source, argument)
    if frame is None and isinstance(source, list | tuple):
        if not source:
            raise DataError(f"{argument}: is empty; give a run, a file or a table")
        return {f"{argument}[{n}]": _name_or_frame(entry, f"{argument}[{n}]") for n, entry in enumerate(source)}
    return {argument: _name_or_frame(source if frame is None else frame, argument)}


def _names(given: object, argument: str) -> tuple[str, ...]:
    """Return names of files or models: one as a tuple of one. Raises ManifestError for anything else."""
    if isinstance(given, str | Path):
        return (str(given),)
    if not isinstance(given, list | tuple) or not all(isinstance(name, str | Path) for name in given):
        raise ManifestError(f"{argument}: a {type(given).__name__} was given; give text, a path, or a list of them")
    return tuple(map(str, given))


def _name_or_frame(source: object, argument: str) -> object:
    if isinstance(source, Leaderboard):
        raise DataError(
            f"{argument}: is a leaderboard, which has one row a model; give the run, the file or the table of scores "
            "that it was made from"
        )
    return _run_name(source) if isinstance(source, str | Path | RunResult) else read_frame(source, argument)


def _read(source: Source | Sequence[Source] | None, options: BoardOptions, runs: str | Path | None) -> Sources:
    """Read sources as the command does, and log the notes that the command prints."""
    settings, given = _environment(), _given(source)
    options.check()
    for argument, entry in given.items():
        if isinstance(entry, pl.DataFrame):
            check_scores(entry, argument, options.min_score, options.max_score or 1.0)
    with as_files(given) as names:
        evidence = read_sources(names, _folder(runs, settings), settings, options)
    _warn(map(one_line, evidence.notes))
    return evidence


def _run_name(source: object) -> str:
    if not isinstance(source, str | Path | RunResult):
        kind = type(source).__name__
        raise DataError(f"run: a {kind} is no run: give its name, folder or manifest, or the result of run")
    return str(source.folder) if isinstance(source, RunResult) else str(source)


# ---- bills, pages, files -------------------------------------------------------------------------------------------


def cost(
    run: RunSource | Sequence[RunSource] | None = None,
    *,
    by: str | Sequence[str] | None = None,
    since: str | None = None,
    until: str | None = None,
    runs: str | Path | None = None,
) -> pl.DataFrame:
    """Return the bill of runs: a row for each provider, model and stage, or for each group of ``by``.

    ``run``: one or several; None: the only one. ``by``: any of run, provider, model, stage, day, week and month (UTC).
    ``since``, ``until``: dates, ``today``, ``yesterday`` or ``7d``, by the ends of batches. Amounts are decimals in
    USD: batched (``cost_usd``), the same tokens unbatched, saved; null: unknown. Raises ManifestError.
    """
    settings = _environment()
    groups = by if by is None or isinstance(by, str) else ",".join(by)
    query = CostQuery.parse(groups, since, until, utc(SystemClock().now()).date())
    report = queried_costs(_run_folders(run, runs, settings), query, settings)
    frame = pl.DataFrame([line_json(line, report.by) for line in report.lines], infer_schema_length=None)
    return frame.with_columns(_amounts(frame[name]) for name in frame.columns if name.endswith("_usd"))


def _amounts(column: pl.Series) -> pl.Series:
    """Return amounts of exact decimal text as decimals with as many digits as they need; null where not known."""
    values = [None if text == UNKNOWN else Decimal(text) for text in column]
    digits = max((-int(value.as_tuple().exponent) for value in values if value is not None), default=0)
    return pl.Series(column.name, values, pl.Decimal(38, max(digits, 2)))


def site(
    run: RunSource | Sequence[RunSource] | None,
    out: str | Path,
    *,
    with_data: bool = False,
    runs: str | Path | None = None,
) -> Path:
    """Write static pages of a run, or one site of several, into the folder ``out``. Return the path of its first page.

    ``run``: None: the only one. ``with_data``: add what ``layton-batch verify`` computes the site again from.
    """
    settings = _environment()
    folders = _run_folders(run, runs, settings)
    _warn(update_boards(folders, settings))
    pages = list(write_sites(folders, Path(out).expanduser(), settings, with_data=with_data))
    return pages[-1][1]


def export(
    run: RunSource | None,
    to: str,
    out: str | Path,
    *,
    organization: str = "not stated",
    dataset: str | None = None,
    task_id: str | None = None,
    runs: str | Path | None = None,
) -> Path:
    """Write a run in a form that others read, and return ``out``: a file, or a folder of csv, parquet, eee and hf.

    ``to``: ppi, annotations, results, items, votes, csv, parquet, eee or hf, as the command's help describes them.
    ``run``: None: the only one. Raises ManifestError for another form.
    """
    settings, path = _environment(), Path(out).expanduser()
    check_out(check_form(to), path)
    if isinstance(run, list | tuple):
        raise DataError("run: a list was given; give one run")
    with read_run(_run_folders(run, runs, settings)[0], settings) as opened:
        write_form(opened, to, path, ExportArguments(organization, dataset, task_id))
    return path


def import_(
    run: RunSource | None,
    *,
    model: str | None = None,
    predictions: str | Path | Frame | None = None,
    verdicts: Sequence[str | Path] = (),
    eee: Sequence[str | Path] = (),
    family: str | None = None,
    provider: str | None = None,
    runs: str | Path | None = None,
) -> pl.DataFrame:
    """Take answers and verdicts made elsewhere into a run; twice changes nothing. Pays nothing.

    ``predictions`` of one ``model``: a file or a table with the columns that the command's help names. ``verdicts``:
    layton-eval's judge files; ``eee``: Every Eval Ever lines. ``run``: None: the only one; answers begin the run of a
    manifest that has none yet. Returns a row for each model. Raises DataError, with file and row, and ManifestError.
    """
    settings = _environment()
    replies = {} if predictions is None else _given(predictions, "predictions")
    with as_files(replies) as given:
        files = ImportedFiles(
            model, Path(given[0]) if given else None, tuple(map(Path, _names(verdicts, "verdicts"))),
            tuple(map(Path, _names(eee, "eee"))), family, provider,
        )  # fmt: skip
        files.check()
        with open_for_import(None if run is None else _run_name(run), _folder(runs, settings), settings) as opened:
            entered = import_answers(opened, files, settings)
    return pl.DataFrame([asdict(entry) for entry in entered], infer_schema_length=None)


def label_import(
    run: RunSource | None, labels: str | Path | Frame | Sequence[str | Path], *, runs: str | Path | None = None
) -> pl.DataFrame:
    """Take labels that people gave elsewhere into a run; twice changes nothing. Return one row that counts them.

    ``labels``: files or a table with the columns that the command's help names, or the filled-in file of `label plan`.
    ``run``: None: the only one. Raises DataError, with file and row.
    """
    settings = _environment()
    with as_files(_given(labels, "labels")) as files:
        folder = find_run(None if run is None else _run_name(run), _folder(runs, settings))
        with read_run(folder, settings) as opened:
            taken, _ = import_labels(opened, [Path(file) for file in files], settings)
    return pl.DataFrame([asdict(taken)])


def status(run: RunSource | None = None, *, runs: str | Path | None = None) -> RunResult:
    """Return where a run stands, with its tables: answers, verdicts, leaderboard, bill. ``run``: None: the only one."""
    settings = _environment()
    (folder,) = _run_folders(run, runs, settings)
    with open_store(folder, settings) as store:
        return _result(folder, read_status(store))


def verify(run: RunSource | None = None, *, runs: str | Path | None = None) -> Verification:
    """Compute a run again from its raw replies, and name what differs. ``run``: None: the only one."""
    settings = _environment()
    (folder,) = _run_folders(run, runs, settings)
    return verify_run(folder, settings)


def _run_folders(
    run: RunSource | Sequence[RunSource] | None, runs: str | Path | None, settings: Settings
) -> list[RunFolder]:
    """Return the folders of runs; None: the only run. Raises StoreError."""
    given = [] if run is None else list(run) if isinstance(run, list | tuple) else [run]
    if run is not None and not given:
        raise DataError("run: is empty; give a run, or None for the only one")
    return find_each_run([_run_name(entry) for entry in given], _folder(runs, settings))


# ---- judging -------------------------------------------------------------------------------------------------------


def judge(
    frame: Frame,
    panel: str | Path | Sequence[Mapping[str, JsonValue]],
    *,
    items: str | Path,
    name: str = "judged",
    seats: int = 3,
    task: str | None = None,
    split: str | None = None,
    runs: str | Path | None = None,
    max_usd: str | float | Decimal | None = None,
    yes: bool = False,
    poll_seconds: float | None = None,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> pl.DataFrame:
    """Put answers before a jury and return its verdicts, a row an answer and judge. Pays the judges, once each.

    ``frame``: ``item_id``, ``model``, and ``answer`` with ``justification`` (or the whole reply as ``response``); with
    ``family`` (who made the model) no judge of that family sits. ``panel``: a panel file, or judges with the keys that
    a manifest gives them. ``items``: the items' file in the task's form, with the reference answers. ``task``,
    ``split``: None: those that the items' columns fit, as for ``layton-batch run FILE``: a file with ``question`` has
    questions of one's own. The run is kept under ``runs`` (as in :func:`run`); the same call with more models pays for
    these only. ``yes``: send also without ``max_usd``. Raises NotAgreedError without both, OverBudgetError where
    ``max_usd`` does not allow all of it, or a judge has no known price, and UnfinishedRunError where a person has to
    decide, or cancelled the run. Verdicts that a judge did not give are missing, with a warning.
    """
    settings, clock = _settings(), clock or SystemClock()
    table = read_frame(frame, "frame")
    path = str(settings.cwd / Path(items).expanduser())
    if task is None or split is None:
        rows = read_rows(path, settings.cwd, settings)
        task = task or guess_task(rows)
        split = split or guess_split(rows, task)
    manifest = _jury_manifest(name, task, split, path, panel, seats, settings.cwd)
    manifest = with_budget(manifest, None if max_usd is None else str(max_usd))
    folder = _folder(runs, settings)
    judged = manifest_task(manifest)
    asked_items = load_items(manifest, judged, settings, clock)
    item_ids, is_json = frozenset(item.id for item in asked_items), has_json_replies(judged, asked_items)
    answered = list(_answered(table, item_ids, json_replies=is_json))
    if unread := check_replies(judged, asked_items, answered, "the frame"):
        _note(unread)
    check_answers(manifest, folder, settings, answered)
    with _begun(manifest, folder, settings, clock, poll_seconds, has_answers=True) as (opened, is_gone):
        planned = plan_to_send(opened, settings, partial(enter, files_models=answered))
        if not yes:
            _refuse(question_before_judging(opened, settings, planned.to_send, is_gone=is_gone))
        _agree(opened, planned, is_gone=is_gone, adds_answers=True)
        status = _driven(opened, progress)
        _check_all_judged(opened, status)
        wanted = table["model"].unique().implode()
        return tables.read(opened.folder.tables, "verdicts").filter(pl.col("model").is_in(wanted))


def _check_all_judged(opened: Run, status: Status) -> None:
    """Raise OverBudgetError or UnfinishedRunError unless the run is done; warn of requests without an answer."""
    if status.state is RunState.OVER_BUDGET:
        steps = next_steps(status, reserves_expected=opened.manifest.budget.bound is not None)
        raise OverBudgetError(f"judge: {status.reason}. {' '.join(steps)}")
    if status.state is not RunState.DONE:
        details = [*([status.reason] if status.reason else next_steps(status)), *opened.trouble.values()]
        raise UnfinishedRunError(f"judge: not all verdicts of run {status.run} are here: {' '.join(details)}")
    if unanswered := sum(job.unanswered for job in status.jobs if job.role != str(Role.PREDICT)):
        requests = plural(unanswered, "request")
        _note(f"judge: {requests} of run {status.run} without a verdict; `layton-batch retry {status.run}` asks again")


def _answered(frame: pl.DataFrame, items: frozenset[str], *, json_replies: bool) -> Iterator[ImportedModel]:
    if "model" not in frame.columns:
        raise DataError(
            "the frame has no column 'model', which names whose answer a row holds; its columns are "
            f"{', '.join(frame.columns)}"
        )
    for number, row in enumerate(frame.iter_rows(named=True), 1):
        if not isinstance(row["model"], str) or not row["model"]:
            raise DataError(f"row {number} of the frame: 'model' must be text")
        column = next((name for name in (*TEXT, "answer") if name in row), None)
        if column is not None and row[column] is None and row.get("kind") is None:
            raise DataError(
                f"row {number} of the frame: {column!r} is null, so judges have nothing to read: give the answer. "
                "Without the row the item counts as missing for this model, also in later calls"
            )
    numbered = frame.with_row_index("row_of_frame", offset=1)
    for (model,), part in numbered.group_by("model", maintain_order=True):
        rows = list(part.iter_rows(named=True))
        family = next((row["family"] for row in rows if isinstance(row.get("family"), str)), str(model))
        placed = ((f"row {row['row_of_frame']} of the frame", row) for row in rows)
        yield ImportedModel(
            ModelSpec(str(model), IMPORTED, str(model), family),
            answers(placed, items, json_replies=json_replies),
            "the frame",
        )


_ARGUMENTS: Mapping[tuple[str | int, ...], str] = {
    ("jury", "judges"): "panel",
    ("jury", "panel"): "panel",
    ("jury", "seats"): "seats",
    ("jury",): "task",
    ("items", "source"): "items",
    ("items", "split"): "split",
}
"""The arguments of ``judge`` by the keys of a manifest; the others are called as their keys."""


def _jury_manifest(
    name: str,
    task: str,
    split: str,
    items: str,
    panel: str | Path | Sequence[Mapping[str, JsonValue]],
    seats: int,
    folder: Path,
) -> Manifest:
    """Make the manifest of a run with judges only."""
    jury: dict[str, object] = {"seats": seats}
    if isinstance(panel, str | Path):
        path = Path(panel).expanduser()
        if not (folder / path).is_file():
            raise ManifestError(f"judge: panel: no panel file {folder / path}: {_PANEL_FORM}")
        jury["panel"] = str(path)
    else:
        jury["judges"] = _judge_tables(panel)
    tables_ = {"name": name, "task": task, "items": {"source": items, "split": split}, "jury": jury}
    return manifest_of_tables(tables_, folder, "judge", _ARGUMENTS)


def _judge_tables(panel: object) -> list[dict[str, JsonValue]]:
    """Return the judges as tables. Raises ManifestError for what is no list of dicts."""
    if not isinstance(panel, list | tuple):
        raise ManifestError(f"judge: panel: a {type(panel).__name__} is no panel: {_PANEL_FORM}")
    for number, judge in enumerate(panel):
        if not isinstance(judge, Mapping):
            raise ManifestError(f"judge: panel[{number}]: a {type(judge).__name__} is no judge: {_PANEL_FORM}")
    return [dict(judge) for judge in panel]


_PANEL_FORM = 'give a panel file, or a list of dicts with "name", "provider" and "model"'
