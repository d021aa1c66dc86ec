"""grade: bring your own predictions."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import polars as pl
import typer

from layton_batch.columns import text_table
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import CommandLineForm, Runs, environment, names_of, runs_folder
from layton_batch.errors import DataError, ManifestError
from layton_batch.files import atomic
from layton_batch.grading.forms import DEFAULT_SPLIT, check_option, chosen_metric, form_of, graded_by_rule
from layton_batch.grading.graded_models import GradedModel
from layton_batch.grading.ranking import Ranking, items_of, ranked, to_json
from layton_batch.grading.ranking import grade as grade_submission
from layton_batch.grading.submissions import SearchSettings, submissions
from layton_batch.manifest.asked import BUNDLED
from layton_batch.manifest.money_checks import FIRST_IS_NEVER_RIGHT, first_is_never_right
from layton_batch.records import JsonValue
from layton_batch.reports.document import Document
from layton_batch.reports.leaderboard_tables import Leaderboard, print_board
from layton_batch.reports.table import console, print_table
from layton_batch.settings import Settings
from layton_batch.tasks import grade_help, load_task
from layton_batch.tasks.offline import Document as Report
from layton_batch.tasks.offline import GradingOptions, OfflineForm, RowsFile, json_text
from layton_batch.tasks.protocol import TaskOptions, mark_span
from layton_batch.text import NONE, first_of, one_line, percent, plural, range_text

if TYPE_CHECKING:
    import altair as alt


PICTURES, STDOUT, JSON = (".svg", ".png"), "-", "json"


@dataclass(frozen=True, slots=True)
class GradeDocument(Document):
    """Reports of models by a benchmark's rules. ``board``: None for one file. ``alone``: the board of the one file.
    ``table``: the benchmark's own table as Markdown, if it was asked for."""

    arguments: GradeArguments
    form: OfflineForm
    metric: str
    models: Sequence[GradedModel]
    ensembles: Mapping[str, Report]
    board: Ranking | None
    alone: pl.DataFrame | None = None

    @property
    def reports(self) -> Mapping[str, Report]:
        """Return the reports of models and ensembles by name, in the order given."""
        reports = {model.name: model.document for model in self.models if model.document is not None}
        return {**reports, **self.ensembles}

    @property
    def leaderboard(self) -> Leaderboard:
        """Return the board of several files, or of the one file. Raises DataError for a file that has none."""
        board = self.alone if self.board is None else self.board.board
        if board is None:
            raise DataError("grade: these items cannot be on a leaderboard: some have several predictions, or none")
        return Leaderboard(board)

    @property
    def table(self) -> str | None:
        return None if self.arguments.table is None else self.form.table(self.reports)

    def as_json(self) -> object:
        return _printable(_document(self))

    def show(self) -> None:
        _print(self)


GradeFile: TypeAlias = str | Path | None


def grade(
    task: Annotated[
        str | None, CommandLineForm(str | None, None), typer.Argument(metavar="TASK", help=grade_help.TASK)
    ],
    predictions: Annotated[
        str | Path | Sequence[str | Path],
        CommandLineForm(list[str] | None, None),
        typer.Option("--predictions", metavar="[NAME=]FILE|FOLDER|RUN", help="Repeat it to rank several models."),
    ],
    *,
    items: Annotated[
        GradeFile,
        CommandLineForm(Path | None),
        typer.Option("--items", help="The gold, or `bundled`; may be left out if rows carry it."),
    ] = None,
    protocol: Annotated[str | None, typer.Option("--protocol", help=grade_help.PROTOCOL)] = None,
    metric: Annotated[str | None, typer.Option("--metric", help=grade_help.METRIC)] = None,
    samples: Annotated[str | None, typer.Option("--samples", metavar="MODE", help=grade_help.SAMPLES)] = None,
    updated: Annotated[
        GradeFile, CommandLineForm(Path | None), typer.Option("--updated", help=grade_help.UPDATED)
    ] = None,
    table: Annotated[
        GradeFile, CommandLineForm(str | None), typer.Option("--table", metavar="FILE.md", help=grade_help.TABLE)
    ] = None,
    chart: Annotated[
        GradeFile, CommandLineForm(Path | None), typer.Option("--chart", metavar="FILE.svg|png", help=grade_help.CHART)
    ] = None,
    ensemble: Annotated[
        str | Sequence[str] | None,
        CommandLineForm(list[str] | None),
        typer.Option("--ensemble", metavar="NAME=MODEL,MODEL,…", help=grade_help.ENSEMBLE),
    ] = None,
    benchmark: Annotated[str | None, typer.Option("--benchmark", help=grade_help.BENCHMARK)] = None,
    every_run: Annotated[bool, typer.Option("--every-run", help=grade_help.EVERY_RUN)] = False,
    runs: Runs = None,
    shown_as: str = JSON,
) -> GradeDocument:
    sources, rows = names_of(predictions, "predictions"), shown_as == JSON
    arguments = GradeArguments(
        check_task(task, sources), sources, _path(items), protocol, metric, samples, _path(updated),
        None if table is None else str(table), _path(chart), names_of(ensemble, "ensemble"), every_run,
        benchmark, runs_folder(runs, environment()), rows,
    )  # fmt: skip
    if table == STDOUT and rows:
        raise ManifestError("grade: --table - and --json both write on stdout; give --table a file")
    form = form_for(arguments)
    arguments = _with_bundled_items(arguments)
    if not rows:
        arguments = _with_own_output(arguments, form)
    with updating(arguments.updated) as updated_rows:
        result = _graded(arguments, form, updated_rows)
        files = list(_files(result))
    for path, content in files:
        atomic.write_bytes(path, content)
    return result


grade.__doc__ = f"""Grade predictions by a benchmark's rules.

One file gives its report. Several, a folder of files or a run give a leaderboard with rank boxes. {grade_help.FORMS}
A benchmark that an entry point adds takes --items in its own form, and predictions with item_id and response.
\f
All files are made before the first is written: what cannot be drawn leaves nothing behind. ``shown_as``: ``json`` gives
reports a row a prediction; ``table`` also writes the file that the benchmark's own program writes. Raises
ManifestError, DataError, FileError.
"""


def _path(name: str | Path | None) -> Path | None:
    return None if name is None else Path(name)


def _graded(arguments: GradeArguments, form: OfflineForm, updated: RowsFile | None) -> GradeDocument:
    settings = Settings.from_process()
    search = SearchSettings(arguments.task, form, arguments.runs, settings)
    entries = submissions(arguments.predictions, search)
    if arguments.updated is not None and len(entries) != 1:
        raise ManifestError(f"grade: --updated is for the predictions of one model; here are {len(entries)}")
    items = None if arguments.items is None else items_of(form, form.rows(arguments.items, settings))
    metric, is_one = chosen_metric(arguments.task, form, arguments.metric), len(entries) == 1 and entries[0].is_file
    has_board = not is_one and not arguments.every_run  # dates may have other questions
    models = [grade_submission(entry, items, metric, updated, with_rows=arguments.rows) for entry in entries]
    _say_unanswered(models)
    if items and first_is_never_right(items):
        warn((f"{arguments.items}: {FIRST_IS_NEVER_RIGHT}",))
    span = mark_span(form.task, metric)
    board = ranked(models, metric, span) if has_board else None
    alone = None if has_board or arguments.every_run else _alone(models[0], metric, span)
    groups = _groups(arguments.named_ensembles)
    ensembles = {name: _ensemble(form, name, names, models) for name, names in groups.items()}
    return GradeDocument(arguments, form, metric, models, ensembles, board, alone)


def _ensemble(form: OfflineForm, name: str, names: Sequence[str], models: Sequence[GradedModel]) -> Report:
    """Report models as one. Raises ManifestError for an unknown name and for models without a common item."""
    frames = {model.name: model.frame for model in models if model.frame is not None}
    if unknown := [model for model in names if model not in frames]:
        raise ManifestError(
            f"grade: --ensemble {name}: there are no replies of {', '.join(unknown)}, only of {', '.join(frames)}"
        )
    try:
        return form.ensemble([frames[model] for model in names])
    except DataError as error:
        raise ManifestError(f"grade: --ensemble {name}: {error}") from error


def _say_unanswered(graded: Iterable[GradedModel]) -> None:
    """Say of each model which items have no prediction: they are in none of its figures."""
    for model in graded:
        sentences = list(model.notes)
        if model.twice is not None:
            sentences.insert(0, f"item {model.twice!r} has several predictions, and each counts in the figures")
        if model.unanswered:
            items = plural(len(model.unanswered), "item has", "items have")
            ids = first_of(model.unanswered, 5)
            sentences.insert(0, f"{items} no prediction ({ids}); the figures are of the others")
        warn(one_line(f"{model.name}: {sentence}") for sentence in sentences)


def _alone(model: GradedModel, metric: str, span: tuple[float, float]) -> pl.DataFrame | None:
    """Return the board of this file only; None if its items cannot be on a board."""
    if model.twice is not None or not model.marks["mark"].count():
        return None
    return ranked([model], metric, span).board


# ---- documents -----------------------------------------------------------------------------------------------------


def _document(result: GradeDocument) -> Report:
    """Return the report of one file; for several files the models in the order given, with their rows on the board."""
    form, board = result.form, result.board
    rows: list[JsonValue] = [{"name": name, **document} for name, document in result.ensembles.items()]
    ensembles: Report = {"ensembles": rows} if rows else {}
    if board is None and not result.arguments.every_run:
        return {**(result.models[0].document or {}), **ensembles}
    samples = form.asked.samples
    ranks: Report = {}
    if board is not None:
        ranks = {
            "metric": result.metric,
            **({} if samples is None else {"samples": samples}),
            "n_items": board.n_items,
            "notes": list(board.notes),
        }
    models: list[JsonValue] = [
        {
            "name": model.name,
            "source": model.where,
            **({} if board is None else to_json(board, model)),
            "report": model.document,
        }
        for model in result.models
    ]
    return {"task": result.arguments.task, "protocol": form.protocol, **ranks, "models": models, **ensembles}


def _printable(value: JsonValue) -> JsonValue:
    """Replace lone surrogates, which JSON in UTF-8 cannot contain."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {str(_printable(name)): _printable(element) for name, element in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(element) for element in value]
    return value


# ---- files ---------------------------------------------------------------------------------------------------------


def _files(result: GradeDocument) -> Iterator[tuple[Path, bytes]]:
    """Yield path and content of each file to write. Raises DataError for a picture without data."""
    arguments, form = result.arguments, result.form
    if arguments.output is not None:
        yield arguments.output, json_text(_printable(_document(result))).encode("utf-8", "replace")
    if arguments.table not in (None, STDOUT):
        yield Path(arguments.table or ""), (result.table or "").encode("utf-8", "replace")
    if arguments.chart is not None:
        title = one_line(arguments.benchmark or "")
        yield arguments.chart, picture(arguments.chart, form.chart(result.reports, title))


# ---- for people ----------------------------------------------------------------------------------------------------


def _print(result: GradeDocument) -> None:
    arguments = result.arguments
    if arguments.table == STDOUT:
        sys.stdout.write(result.table or "")
    elif arguments.every_run:
        _print_reports("every run", result.reports)
    elif arguments.output is not None:
        sys.stdout.write(f"{json_text(_printable(_document(result)))}\n")
    elif result.board is None:
        lines = [*_lines(_document(result)), *_interval(result)]
        print_table(text_table(arguments.task, ["metric", "value"], lines), first=True)
    else:
        _print_board(result, result.board)


def _lines(document: Report) -> Iterator[tuple[str, str]]:
    """Yield the totals of a report as name and text; lists of rows are left out."""
    for name, value in document.items():
        match value:
            case Mapping() if "mean" not in value:
                group = "" if name in ("metrics", "summary") else f"{name}: "
                yield from ((f"{group}{part}", text) for part, text in _lines(value))
            case [int() | float() as total, int() as count, *_]:
                yield name, f"{total} of {count}"
            case list():
                continue
            case _:
                yield name, _shown(value, " %")


def _shown(value: JsonValue, sign: str = "") -> str:
    """Return a value of a report as text; a mean and its standard error in percent."""
    match value:
        case {"mean": int() | float() as mean, **rest}:
            error = rest.get("se")
            return f"{100 * mean:.2f}{sign}" + (f" ± {100 * error:.2f}" if isinstance(error, int | float) else "")
        case None:
            return NONE
        case float():
            return f"{value:.4g}"
    return str(value)


def _interval(result: GradeDocument) -> Iterator[tuple[str, str]]:
    """Yield the interval that the file would have on a board with others, as name and text."""
    ends = () if result.alone is None else result.alone.select("level", "lower", "upper").drop_nulls().iter_rows()
    for level, lower, upper in ends:
        name = result.metric.replace("_", " ")
        yield f"{name}: {percent(level)} CI (new items)", f"{range_text(lower, upper)} %"


def _print_board(result: GradeDocument, board: Ranking) -> None:
    """Print the board as for runs, with the kinds of failure, then the models' reports."""
    if board.board.height:
        print_board(board.board)
    for note in board.notes:
        console().print(one_line(note), style="yellow", markup=False)
    _print_reports("reports", result.reports)


def _print_reports(title: str, documents: Mapping[str, Report]) -> None:
    """Print the figures of reports in columns: a report's summary, else its metrics."""
    reports = {name: document.get("summary") or document.get("metrics") for name, document in documents.items()}
    figures = {name: report for name, report in reports.items() if isinstance(report, Mapping)}
    columns = list(dict.fromkeys(chain.from_iterable(figures.values())))
    if columns:
        heads = ["model", *(column.replace(" ", "\n") for column in columns)]
        lines = [[name, *(_shown(report.get(column)) for column in columns)] for name, report in figures.items()]
        print_table(text_table(title, heads, lines))


@dataclass(frozen=True, slots=True)
class GradeArguments:
    """Arguments of `grade`. ``rows``: reports have a row a prediction."""

    task: str
    predictions: tuple[str, ...]
    items: Path | None
    protocol: str | None
    metric: str | None
    samples: str | None
    updated: Path | None
    table: str | None
    chart: Path | None
    named_ensembles: tuple[str, ...]
    every_run: bool
    benchmark: str | None
    runs: Path
    rows: bool
    output: Path | None = None
    """The file that the form's own program writes beside the predictions."""


def _with_bundled_items(arguments: GradeArguments) -> GradeArguments:
    """Return the arguments with the file of the package's items where ``items`` is ``bundled``."""
    if str(arguments.items) != BUNDLED:
        return arguments
    return replace(arguments, items=load_task(arguments.task, TaskOptions(DEFAULT_SPLIT)).bundled(DEFAULT_SPLIT))


def _with_own_output(arguments: GradeArguments, form: OfflineForm) -> GradeArguments:
    """Return the arguments with the file that the form's own program writes. Raises ManifestError as ``form_for``."""
    name, path = form.default_output, Path(arguments.predictions[0])
    if name is None or len(arguments.predictions) > 1 or not path.is_file():
        return arguments
    with_output = replace(arguments, output=path.with_name(name), rows=True)
    for written in _written(with_output):
        _check_writable(written)
    return with_output


def check_task(task: str | None, predictions: Sequence[str]) -> str:
    """Return the task. Raises ManifestError where it or the predictions are missing."""
    if task is None or not predictions:
        tasks = ", ".join(graded_by_rule())
        raise ManifestError(f"grade: give TASK and --predictions FILE; tasks that rules grade: {tasks}")
    return task


def form_for(arguments: GradeArguments) -> OfflineForm:
    """Return the benchmark's form. Raises ManifestError for conflicting options, before any file is read."""
    options = GradingOptions(
        samples=arguments.samples,
        benchmark=arguments.benchmark,
        every_run=arguments.every_run,
    )
    _groups(arguments.named_ensembles)
    form = form_of(arguments.task, arguments.protocol, options)
    chosen_metric(arguments.task, form, arguments.metric)
    for option, given in (
        ("--samples", arguments.samples),
        ("--updated", arguments.updated),
        ("--every-run", arguments.every_run),
        ("--chart", arguments.chart),
        ("--table", arguments.table),
        ("--ensemble", arguments.named_ensembles),
        ("--benchmark", arguments.benchmark),
    ):
        if given:
            check_option(form, option)
    if arguments.chart is not None and arguments.chart.suffix.lower() not in PICTURES:
        raise ManifestError(f"grade: --chart {arguments.chart}: a picture's name ends in {' or '.join(PICTURES)}")
    for written in _written(arguments):
        _check_writable(written)
    return form


def _groups(texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the models of each named ensemble. Raises ManifestError for what is no NAME=MODEL,MODEL."""
    groups: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        models = tuple(dict.fromkeys(model.strip() for model in listed.split(",") if model.strip()))
        if not name.strip() or len(models) < 2 or name.strip() in groups:
            raise ManifestError(f"grade: --ensemble {text!r}: a new NAME=MODEL,MODEL with two models or more")
        groups[name.strip()] = models
    return groups


def _check_writable(path: Path) -> None:
    """Check before the work that a file can be written. Raises ManifestError."""
    if path.is_dir():
        raise ManifestError(f"grade: {path} is a folder; name a file to write")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ManifestError(f"grade: {path} cannot be written: {folder} is no folder that we may write in")


def _written(arguments: GradeArguments) -> Iterator[Path]:
    """Yield the files to write. Raises ManifestError for a file that is named twice, or that is also read."""
    table = Path(arguments.table) if arguments.table and arguments.table != STDOUT else None
    named_paths = (arguments.output, arguments.updated, arguments.chart, table)
    paths = [path for path in named_paths if path is not None]
    read = {Path(text).absolute() for text in arguments.predictions} | (
        {arguments.items.absolute()} if arguments.items else set()
    )
    for path in paths:
        if [other.absolute() for other in paths].count(path.absolute()) > 1:
            raise ManifestError(f"grade: {path} is to be written twice")
        if path.absolute() in read:
            raise ManifestError(f"grade: {path} is read; write into another file")
        yield path


def picture(path: Path, chart: alt.LayerChart) -> bytes:
    """Return the chart in the format that the name's ending says."""
    from layton_batch.drawing import rendered  # loads the renderer

    return rendered(chart, path.suffix)


@contextmanager
def updating(path: Path | None) -> Iterator[RowsFile | None]:
    """Yield a file for graded rows, written row by row. The file appears when the block ends without an error."""
    if path is None:
        yield None
        return
    with atomic.writing(path) as handle:
        text = io.TextIOWrapper(handle, encoding="utf-8", errors="replace", newline="\n")
        rows = RowsFile(text)
        try:
            yield rows
            rows.close()
        finally:
            text.detach()  # flushes; the file itself is closed by who opened it
