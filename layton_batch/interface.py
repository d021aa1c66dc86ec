"""What a notebook or a program calls: ``import layton_batch as lb``. Frames are polars' in and out.

Everything here is what the commands do, by the same machinery; docs/python.md has examples that are tested. Errors are
``LaytonBatchError``, with a message that says what to do. ``run`` and ``judge`` pay providers; nothing is paid twice.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import cast

import polars as pl

from layton_batch.clock import Clock, SystemClock
from layton_batch.consent import (
    AgreementQuestion,
    is_new_revision,
    open_to_pay,
    plan_to_send,
    question_before_judging,
    question_before_paying,
)
from layton_batch.errors import DataError, ManifestError, NotAgreedError, OverBudgetError, UnfinishedRunError
from layton_batch.files import limits, tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.grading.board_sources import BoardOptions, Sources, board_of, read_sources
from layton_batch.imports.entering import enter
from layton_batch.imports.reading import IMPORTED, ImportedModel, answers, has_json_replies
from layton_batch.loop import STOPPING, deadline, drive
from layton_batch.manifest.form import FROZEN, PanelFile
from layton_batch.manifest.manifest import Manifest, with_budget
from layton_batch.records import JsonValue, ModelSpec
from layton_batch.reports.plan import plan_json
from layton_batch.reports.status import next_steps
from layton_batch.runs.begun_runs import load_where_it_goes_on, where_it_goes_on
from layton_batch.runs.context import Run
from layton_batch.runs.environment_notes import address_notes, file_notes, hub_notes
from layton_batch.runs.folders import DEFAULT_RUNS, named_runs
from layton_batch.runs.model_questions import refuse_dead_models
from layton_batch.runs.status import RunState, Status
from layton_batch.scoring.compare import compare_marks, compare_votes
from layton_batch.scoring.evidence import Entrant, ItemScores
from layton_batch.scoring.leaderboard import THIS_SET, on_this_set, stored
from layton_batch.scoring.rules import ScoringRules
from layton_batch.scoring.samples import mean_sheets
from layton_batch.settings import Settings
from layton_batch.stages.preview import preview
from layton_batch.states import PredictionKind, Role
from layton_batch.tasks import FIRST
from layton_batch.text import plural

Source = str | Path | pl.DataFrame
"""A run's folder or name, a file that ``layton-batch leaderboard`` takes, or a frame of either."""
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
    def leaderboard(self) -> pl.DataFrame:
        return self.table("leaderboard")

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
        """Read any table of the run; no rows if the table does not exist yet."""
        return tables.read(self.folder / "tables", name)


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

    ``runs``: the folder of runs, or its address in object storage; None: LAYTON_BATCH_RUNS, else where the run was
    begun, else ``runs``. ``once``: what needs no waiting. ``until``: return at this local time, ``"07:00"``.
    ``max_usd``: a budget in the place of the manifest's. ``yes``: send also without a budget, and what is paid for
    again. It may be interrupted at any moment; the same call goes on. Raises NotAgreedError where the command would
    ask, and AnotherDriverError where another process drives the run.
    """
    settings, clock = _settings(), clock or SystemClock()
    loaded, folder = _loaded(manifest, settings, runs)
    loaded = with_budget(loaded, None if max_usd is None else str(max_usd))
    stop_at = deadline(until, clock)
    with _begun(loaded, folder, settings, clock, poll_seconds) as (opened, is_gone):
        if not yes and is_new_revision(opened):
            planned = plan_to_send(opened, settings, _note)
            _refuse(question_before_paying(opened, settings, planned, is_gone=is_gone))
        status = _driven(opened, progress, once=once, stop_at=stop_at)
        return _result(opened.folder, status)


def _loaded(manifest: str | Path, settings: Settings, runs: str | Path | None) -> tuple[Manifest, Path]:
    """Return the manifest and the folder of runs in which its run begins or goes on."""
    path, named = settings.cwd / Path(manifest).expanduser(), named_runs(runs, settings)
    return load_where_it_goes_on(path, named or DEFAULT_RUNS, settings, is_named=named is not None, note=_note)


def _refuse(question: AgreementQuestion | None) -> None:
    """Raise NotAgreedError where a person has to agree."""
    if question is not None:
        raise NotAgreedError(question.refusal)


def _begun(
    manifest: Manifest, runs: Path, settings: Settings, clock: Clock, poll_seconds: float | None
) -> AbstractContextManager[tuple[Run, bool]]:
    """Open a run to pay for. Before its start, check with the providers that its models are available, as the command
    does. Yield the run with whether its earlier folder is gone.
    """

    _warn(address_notes(manifest, settings))

    def ask() -> None:
        refuse_dead_models(manifest, settings, clock)

    return open_to_pay(manifest, runs, settings, clock, poll_seconds=poll_seconds, before_it_begins=ask)


def _driven(opened: Run, progress: Progress | None, *, once: bool = False, stop_at: float | None = None) -> Status:
    """Drive the run; a person who stops it is told that calls in progress are waited for."""
    try:
        return drive(opened, once=once, stop_at=stop_at, progress=progress)
    except KeyboardInterrupt:
        sys.stderr.write(f"{STOPPING}\n")
        raise


def _result(folder: RunFolder, status: Status) -> RunResult:
    return RunResult(status.run, folder.root, str(status.state), status.reason, status.spent_usd, status.unanswered)


# ---- statistics ----------------------------------------------------------------------------------------------------


def leaderboard(
    source: Source | Sequence[Source],
    *,
    metric: str | None = None,
    method: str | None = None,
    level: float | None = None,
    seed: int | None = None,
    max_score: float | None = None,
    labels: Sequence[str | Path] = (),
    this_set: bool = False,
    runs: str | Path | None = None,
) -> pl.DataFrame:
    """Rank models: a row each, best first, scores and intervals in percent, with the range of ranks that holds for all
    of them at once; all for new items of this kind or, with ``this_set``, for exactly these. Columns ``new_*`` and
    ``set_*`` always hold both.

    ``source``: runs, files or frames, one or several. A frame is either per-item scores (``model``, ``item_id``,
    ``score`` from 0 to 1; if you like ``provider``, ``n_hints``, ``sample``, ``kind``, and ``flag``, what was wrong) or
    in layton-eval-ppi's form. ``labels``: files in that form of which only people's labels count.
    """
    options = BoardOptions(method, metric, seed, level, max_score, tuple(map(str, labels)))
    evidence = _read(source, options, _folder(runs, Settings.from_process()))
    board = board_of(evidence)
    return stored(on_this_set(board) if this_set else board)


def compare(
    source: Source | Sequence[Source],
    first: str,
    second: str,
    *,
    metric: str | None = None,
    level: float | None = None,
    seed: int | None = None,
    max_score: float | None = None,
    runs: str | Path | None = None,
) -> pl.DataFrame:
    """Compare two models: a row for new items of the kind and one for this set (where a jury judged).

    ``difference``, ``lower``, ``upper``: first minus second in points; ``better``: probability that the first is;
    ``items``: how many items of this kind should separate them, ``labels``: how many more human labels on these.
    """
    evidence = _read(source, BoardOptions(None, metric, seed, level, max_score), _folder(runs, Settings.from_process()))
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
            "items": comparison.items,
            "labels": comparison.labels.count
            if comparison.labels is not None and standing.target == THIS_SET
            else None,
        }
        for standing in comparison.standings
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _given(source: Source | Sequence[Source]) -> list[Source]:
    return [source] if isinstance(source, str | Path | pl.DataFrame) else list(source)


def _read(source: Source | Sequence[Source], options: BoardOptions, runs: Path) -> Sources:
    given = _given(source)
    marks = [frame for frame in given if isinstance(frame, pl.DataFrame) and "score" in frame.columns]
    if marks:
        if len(marks) < len(given):
            raise DataError("frames of per-item scores are ranked by themselves, not with runs, files or labels")
        options.check()
        rules = options.rules(ScoringRules(metric=options.metric or "score"))
        sampled = [sheet for frame in marks for sheet in _sheets(frame)]
        return Sources(rules, sheets=mean_sheets(sampled), sampled=sampled)
    with _as_files(given) as names:
        return read_sources(names, runs, _environment(), options)


@contextmanager
def _as_files(given: Sequence[Source]) -> Iterator[list[str]]:
    """Write frames in layton-eval-ppi's form to temporary files and yield the names of all sources."""
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for number, entry in enumerate(given):
            if isinstance(entry, pl.DataFrame):
                path = Path(folder) / f"frame {number}.jsonl"
                entry.write_ndjson(path)
                names.append(str(path))
            else:
                names.append(str(entry))
        yield names


def _sheets(frame: pl.DataFrame) -> Iterator[ItemScores]:
    """Per-item scores by who is ranked. Raises DataError for columns that are not there or of another kind."""
    lacking = [name for name in ("model", "item_id") if name not in frame.columns]
    if lacking:
        raise DataError(f"the frame has no column {lacking[0]!r}: per-item scores have model, item_id and score")
    defaults = {"provider": pl.lit(""), "n_hints": pl.lit(0), "kind": pl.lit(str(PredictionKind.ANSWERED)),
                "sample": pl.lit(1), "flag": pl.lit(None)}  # fmt: skip
    whole = frame.with_columns(**{name: value for name, value in defaults.items() if name not in frame.columns})
    try:
        rows = whole.select(
            pl.col("model", "provider", "item_id", "kind", "flag").cast(pl.String),
            pl.col("n_hints", "sample").cast(pl.Int64),
            pl.col("score").cast(pl.Float64),
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(f"the frame's scores cannot be read ({str(error)[:200]})") from error
    for (model, provider, hints, _), part in rows.sort("sample", maintain_order=True).group_by(
        "model", "provider", "n_hints", "sample", maintain_order=True
    ):
        yield ItemScores(
            Entrant(str(model), str(provider), int(hints)),
            part["item_id"].to_list(),
            part["score"].fill_null(float("nan")).to_list(),
            part["kind"].to_list(),
            part["flag"].to_list() if "flag" in frame.columns else (),
        )


# ---- judging -------------------------------------------------------------------------------------------------------


def judge(
    frame: pl.DataFrame,
    panel: str | Path | Sequence[Mapping[str, JsonValue]],
    *,
    items: str | Path,
    name: str = "judged",
    seats: int = 3,
    task: str = FIRST,
    split: str = "llm",
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
    a manifest gives them. ``items``: the items' file in the task's form, with the reference answers. The run is kept
    under ``runs`` (as in :func:`run`); the same call with more models pays for these only. ``yes``: send also without
    ``max_usd``. Raises NotAgreedError without both, OverBudgetError where ``max_usd`` does not allow all of it, or
    a judge has no known price, and UnfinishedRunError where a person has to decide, or cancelled the run. Verdicts that
    a judge did not give are missing, with a warning.
    """
    settings, clock = _settings(), clock or SystemClock()
    manifest = _jury_manifest(name, task, split, str(settings.cwd / items), panel, seats, settings.cwd)
    manifest = with_budget(manifest, None if max_usd is None else str(max_usd))
    named = named_runs(runs, settings)
    folder = where_it_goes_on(manifest, named or DEFAULT_RUNS, settings, is_named=named is not None, note=_note)
    with _begun(manifest, folder, settings, clock, poll_seconds) as (opened, is_gone):
        if not opened.task.uses_jury:
            raise ManifestError(f"judge: task {task!r} is graded by rule; there is no jury")
        asked_items = opened.load_items()
        item_ids, is_json = frozenset(item.id for item in asked_items), has_json_replies(opened.task, asked_items)
        entered = enter(opened, list(_answered(frame, item_ids, json_replies=is_json)))
        if not yes:
            to_ask = sum(model.to_ask for model in entered)
            _refuse(question_before_judging(opened, settings, to_ask, is_gone=is_gone))
        status = _driven(opened, progress)
        _check_all_judged(opened, status)
        wanted = frame["model"].unique().implode()
        return tables.read(opened.folder.tables, "verdicts").filter(pl.col("model").is_in(wanted))


def _check_all_judged(opened: Run, status: Status) -> None:
    """Raise OverBudgetError or UnfinishedRunError unless the run is done; warn of requests without an answer."""
    if status.state is RunState.OVER_BUDGET:
        raise OverBudgetError(f"judge: {status.reason}")
    if status.state is not RunState.DONE:
        details = [*([status.reason] if status.reason else next_steps(status)), *opened.trouble.values()]
        raise UnfinishedRunError(f"judge: not all verdicts of run {status.run} are here: {' '.join(details)}")
    if unanswered := sum(job.unanswered for job in status.jobs if job.role != str(Role.PREDICT)):
        requests = plural(unanswered, "request")
        _note(f"judge: {requests} of run {status.run} without a verdict; `layton-batch retry {status.run}` asks again")


def _answered(frame: pl.DataFrame, items: frozenset[str], *, json_replies: bool) -> Iterator[ImportedModel]:
    if "model" not in frame.columns:
        raise DataError("the frame has no column 'model'")
    for number, row in enumerate(frame.iter_rows(named=True), 1):
        if not isinstance(row["model"], str) or not row["model"]:
            raise DataError(f"row {number} of the frame: 'model' must be text")
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
    import tomllib

    from pydantic import ValidationError

    try:
        if isinstance(panel, str | Path):
            tables_of_judges = tomllib.loads((folder / panel).read_text(encoding="utf-8"))
        else:
            tables_of_judges = {"judges": [dict(judge) for judge in panel]}
        judges = PanelFile.model_validate(tables_of_judges).judges
        document = {"name": name, "task": task, "items": {"source": items, "split": split}, "models": ()}
        manifest = Manifest.model_validate({**document, "jury": {"seats": seats}}, context=FROZEN)
    except (OSError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise ManifestError(f"judge: {error}") from error
    manifest.attach(folder, judges, {})
    return manifest
