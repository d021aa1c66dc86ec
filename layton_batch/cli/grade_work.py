"""The work of `grade`, from its arguments to what is printed and written."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from layton_batch.cli.terminal import print_json, say
from layton_batch.errors import DataError, ManifestError
from layton_batch.files import atomic
from layton_batch.grading.forms import chosen_metric
from layton_batch.grading.graded_models import GradedModel
from layton_batch.grading.ranking import Ranking, grade, items_of, ranked, to_json
from layton_batch.grading.submissions import SearchSettings, submissions
from layton_batch.manifest.money_checks import FIRST_IS_NEVER_RIGHT, first_is_never_right
from layton_batch.records import JsonValue
from layton_batch.reports.leaderboard_tables import print_board
from layton_batch.reports.table import console, print_table
from layton_batch.settings import Settings
from layton_batch.tasks.offline import Document, GradingOptions, OfflineForm, RowsFile, json_text
from layton_batch.tasks.protocol import mark_span
from layton_batch.text import NONE, first_of, one_line, percent, plural, range_text, text_table

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True)
class Result:
    """Results of one call of `grade`. ``board``: None for one file. ``alone``: the board of the one file."""

    arguments: GradeArguments
    form: OfflineForm
    metric: str
    models: Sequence[GradedModel]
    ensembles: Mapping[str, Document]
    board: Ranking | None
    alone: pl.DataFrame | None = None

    @property
    def documents(self) -> Mapping[str, Document]:
        """Return the reports of models and ensembles by name, in the order given."""
        reports = {model.name: model.document for model in self.models if model.document is not None}
        return {**reports, **self.ensembles}


def run_grade(arguments: GradeArguments) -> None:
    """Grade, write what is to be written, and print the rest. Raises ManifestError, DataError, FileError.

    All files are made before the first is written: what cannot be drawn leaves nothing behind.
    """
    form = form_for(arguments)
    arguments = _with_default_output(_with_bundled_items(arguments), form)
    with updating(arguments.updated) as rows:
        result = _graded(arguments, form, rows)
        document = _document(result)
        table = None if arguments.table is None else form.table(result.documents)
        files = list(_files(result, document, table))
    for path, content in files:
        atomic.write_bytes(path, content)
    _print(result, document, table)


def _graded(arguments: GradeArguments, form: OfflineForm, updated: RowsFile | None) -> Result:
    settings = Settings.from_process()
    search = SearchSettings(arguments.task, form, arguments.runs, settings)
    entries = submissions(arguments.predictions, search)
    if arguments.updated is not None and len(entries) != 1:
        raise ManifestError(f"grade: --updated is for the predictions of one model; here are {len(entries)}")
    items = None if arguments.items is None else items_of(form, form.rows(arguments.items, settings))
    metric, is_one = chosen_metric(arguments.task, form, arguments.metric), len(entries) == 1 and entries[0].is_file
    has_board = not is_one and not arguments.every_run  # dates may have other questions
    ranked_by, with_rows = metric if has_board or not arguments.as_json else None, arguments.writes_rows
    models = [grade(entry, items, ranked_by, updated, with_rows=with_rows) for entry in entries]
    _say_unanswered(models)
    if items and first_is_never_right(items):
        say(f"{arguments.items}: {FIRST_IS_NEVER_RIGHT}")
    span = mark_span(form.task, metric)
    board = ranked(models, metric, span) if has_board else None
    alone = None if has_board or arguments.every_run else _alone(models[0], metric, span)
    groups = _groups(arguments.named_ensembles)
    ensembles = {name: _ensemble(form, name, names, models) for name, names in groups.items()}
    return Result(arguments, form, metric, models, ensembles, board, alone)


def _ensemble(form: OfflineForm, name: str, names: Sequence[str], models: Sequence[GradedModel]) -> Document:
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
        if model.unanswered:
            ids = first_of(model.unanswered, 5)
            items = plural(len(model.unanswered), "item has", "items have")
            say(one_line(f"{model.name}: {items} no prediction ({ids}); the figures are of the others"))
        if model.twice is not None:
            say(one_line(f"{model.name}: item {model.twice!r} has several predictions, and each counts in the figures"))
        for note in model.notes:
            say(one_line(f"{model.name}: {note}"))


def _alone(model: GradedModel, metric: str, span: tuple[float, float]) -> pl.DataFrame | None:
    """Return the board of this file only; None if its items cannot be on a board."""
    if model.twice is not None or not model.outcomes:
        return None
    marked = any(outcome.mark is not None for outcome in model.outcomes.values())
    return ranked([model], metric, span).board if marked else None


# ---- documents -----------------------------------------------------------------------------------------------------


def _document(result: Result) -> Document:
    """Return the report of one file; for several files the models in the order given, with their rows on the board."""
    form, board = result.form, result.board
    rows: list[JsonValue] = [{"name": name, **document} for name, document in result.ensembles.items()]
    ensembles: Document = {"ensembles": rows} if rows else {}
    if board is None and not result.arguments.every_run:
        return {**(result.models[0].document or {}), **ensembles}
    samples = form.asked.samples
    ranks: Document = {}
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


def _files(result: Result, document: Mapping[str, JsonValue], table: str | None) -> Iterator[tuple[Path, bytes]]:
    """Yield path and content of each file to write. Raises DataError for a picture without data."""
    arguments, form = result.arguments, result.form
    if arguments.output is not None:
        yield arguments.output, json_text(_printable(document)).encode("utf-8", "replace")
    if table is not None and arguments.table != "-":
        yield Path(arguments.table or ""), table.encode("utf-8", "replace")
    if arguments.chart is not None:
        title = one_line(arguments.benchmark or "")
        yield arguments.chart, picture(arguments.chart, form.chart(result.documents, title))


# ---- for people ----------------------------------------------------------------------------------------------------


def _print(result: Result, document: Mapping[str, JsonValue], table: str | None) -> None:
    arguments = result.arguments
    if arguments.as_json:
        print_json(_printable(document))
    elif table is not None and arguments.table == "-":
        sys.stdout.write(table)
    elif arguments.every_run:
        _print_reports("every run", result.documents)
    elif arguments.output is not None:
        sys.stdout.write(f"{json_text(_printable(document))}\n")
    elif result.board is None:
        lines = [*_lines(document), *_interval(result)]
        print_table(text_table(arguments.task, ["metric", "value"], lines), first=True)
    else:
        _print_board(result, result.board)


def _lines(document: Document) -> Iterator[tuple[str, str]]:
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


def _interval(result: Result) -> Iterator[tuple[str, str]]:
    """Yield the interval that the file would have on a board with others, as name and text."""
    ends = () if result.alone is None else result.alone.select("level", "lower", "upper").drop_nulls().iter_rows()
    for level, lower, upper in ends:
        name = result.metric.replace("_", " ")
        yield f"{name}: {percent(level)} CI (new items)", f"{range_text(lower, upper)} %"


def _print_board(result: Result, board: Ranking) -> None:
    """Print the board as for runs, with the kinds of failure, then the models' reports."""
    if board.board.height:
        print_board(board.board)
    for note in board.notes:
        console().print(one_line(note), style="yellow", markup=False)
    _print_reports("reports", result.documents)


def _print_reports(title: str, documents: Mapping[str, Document]) -> None:
    """Print the figures of reports in columns: a report's summary, else its metrics."""
    reports = {name: document.get("summary") or document.get("metrics") for name, document in documents.items()}
    figures = {name: report for name, report in reports.items() if isinstance(report, Mapping)}
    columns = list(dict.fromkeys(chain.from_iterable(figures.values())))
    if columns:
        heads = ["model", *(column.replace(" ", "\n") for column in columns)]
        lines = [[name, *(_shown(report.get(column)) for column in columns)] for name, report in figures.items()]
        print_table(text_table(title, heads, lines))


PICTURES = (".svg", ".png")


@dataclass(frozen=True, slots=True)
class GradeArguments:
    """Arguments of the command line of `grade`, as ``grade_commands.grade`` takes them."""

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
    as_json: bool
    output: Path | None = None
    """The file that the form's own program writes beside the predictions."""

    @property
    def writes_rows(self) -> bool:
        """Return whether reports go somewhere with a row a prediction."""
        return self.as_json or self.output is not None


def _with_bundled_items(arguments: GradeArguments) -> GradeArguments:
    """Return the arguments with the file of the package's items where ``items`` is ``bundled``."""
    from layton_batch.grading.forms import DEFAULT_SPLIT
    from layton_batch.manifest.asked import BUNDLED
    from layton_batch.tasks import load_task
    from layton_batch.tasks.protocol import TaskOptions

    if str(arguments.items) != BUNDLED:
        return arguments
    return replace(arguments, items=load_task(arguments.task, TaskOptions(DEFAULT_SPLIT)).bundled(DEFAULT_SPLIT))


def _with_default_output(arguments: GradeArguments, form: OfflineForm) -> GradeArguments:
    """Return the arguments with the file that the form's own program writes. Raises ManifestError as ``form_for``."""
    name, path = form.default_output, Path(arguments.predictions[0])
    is_plain = not arguments.as_json
    if name is None or not is_plain or len(arguments.predictions) > 1 or not path.is_file():
        return arguments
    output = replace(arguments, output=path.with_name(name))
    for written in _written(output):
        _check_writable(written)
    return output


def check_task(task: str | None, predictions: Sequence[str]) -> str:
    """Return the task. Raises ManifestError where it or the predictions are missing."""
    from layton_batch.grading.forms import graded_by_rule

    if task is None or not predictions:
        tasks = ", ".join(graded_by_rule())
        raise ManifestError(f"grade: give TASK and --predictions FILE; tasks that rules grade: {tasks}")
    return task


def form_for(arguments: GradeArguments) -> OfflineForm:
    """Return the benchmark's form. Raises ManifestError for conflicting options, before any file is read."""
    from layton_batch.grading.forms import check_option, chosen_metric, form_of

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
    if arguments.table == "-" and arguments.as_json:
        raise ManifestError("grade: --table - and --json both write on stdout; give --table a file")
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
    table = Path(arguments.table) if arguments.table and arguments.table != "-" else None
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
    from layton_batch.drawing import rendered

    return rendered(chart, path.suffix)


@contextmanager
def updating(path: Path | None) -> Iterator[RowsFile | None]:
    """Yield a file for graded rows, written row by row. The file appears when the block ends without an error."""
    if path is None:
        yield None
        return
    from layton_batch.files import atomic

    with atomic.writing(path) as handle:
        text = io.TextIOWrapper(handle, encoding="utf-8", errors="replace", newline="\n")
        rows = RowsFile(text)
        try:
            yield rows
            rows.close()
        finally:
            text.detach()  # flushes; the file itself is closed by who opened it
