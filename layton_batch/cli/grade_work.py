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
from typing import TYPE_CHECKING, NoReturn

import orjson
import polars as pl

from layton_batch.cli.terminal import print_json, say
from layton_batch.errors import DataError, ManifestError
from layton_batch.files import atomic
from layton_batch.files.item_ids import shift_advice
from layton_batch.files.sources import portions
from layton_batch.grading.forms import chosen_metric
from layton_batch.grading.ranking import Ranking, averaged, by_model, grade, items_of, ranked, to_json
from layton_batch.grading.submissions import SearchSettings, submissions
from layton_batch.manifest.item_notes import FIRST_IS_NEVER_RIGHT, first_is_never_right
from layton_batch.records import JsonValue
from layton_batch.reports.leaderboard_tables import print_board
from layton_batch.reports.table import console, print_table
from layton_batch.settings import Settings
from layton_batch.tasks.offline import GradedModel, GradedSet, GradingOptions, OfflineForm, RowsFile
from layton_batch.text import Table, first_of, one_line, percent, plural, range_text, text_table

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True)
class Result:
    """Results of one call of `grade`. ``board``: None for one file. ``alone``: the board of the one file."""

    arguments: GradeArguments
    form: OfflineForm
    metric: str
    graded: GradedSet
    board: Ranking | None
    alone: pl.DataFrame | None = None


def run_grade(arguments: GradeArguments) -> None:
    """Grade, write what is to be written, and print the rest. Raises ManifestError, DataError, FileError.

    All files are made before the first is written: what cannot be drawn leaves nothing behind.
    """
    form = form_for(arguments)
    arguments = _with_default_output(_with_bundled_items(arguments), form)
    with updating(arguments.updated) as rows:
        result = _graded(arguments, form, rows)
        document = _document(result)
        table = None if arguments.table is None else form.published_table(result.graded)
        files = list(_files(result, document, table))
    for path, content in files:
        atomic.write_bytes(path, content)
    _print(result, document, table)


def _graded(arguments: GradeArguments, form: OfflineForm, rows: RowsFile | None) -> Result:
    settings = Settings.from_process()
    search = SearchSettings(arguments.task, form, arguments.runs, settings, arguments.rounds)
    entries = submissions(arguments.predictions, search)
    if arguments.updated is not None and len(entries) != 1:
        raise ManifestError(f"grade: --updated is for the predictions of one model; here are {len(entries)}")
    items = None if arguments.items is None else items_of(form, form.item_rows(arguments.items, settings))
    metric, is_one = chosen_metric(arguments.task, form, arguments.metric), len(entries) == 1 and entries[0].is_file
    has_board = (not is_one or arguments.rounds) and not arguments.every_run  # dates may have other questions
    graded = [grade(entry, items, metric if has_board or not arguments.as_json else None, rows) for entry in entries]
    _say_unanswered(graded)
    for note in form.notes:
        say(one_line(note))
    if items and first_is_never_right(items):
        say(f"{arguments.items}: {FIRST_IS_NEVER_RIGHT}")
    rounds = by_model(graded)
    models = [averaged(mine) for mine in rounds.values()] if arguments.rounds else graded
    board = ranked(models, metric, form.span(metric)) if has_board else None
    names = board.board["model"].to_list() if board else []
    alone = None if has_board or arguments.every_run else _alone(models[0], metric, form.span(metric))
    return Result(arguments, form, metric, GradedSet(models, rounds, names), board, alone)


def _say_unanswered(graded: Iterable[GradedModel]) -> None:
    """Say of each model which items have no prediction: they are in none of its figures."""
    for model in graded:
        if model.unanswered:
            ids = first_of(model.unanswered, 5)
            items = plural(len(model.unanswered), "item has", "items have")
            advice = shift_advice(model.unanswered, model.n_rows)
            say(one_line(f"{model.name}: {items} no prediction ({ids}); the figures are of the others{advice}"))
        if model.twice is not None:
            say(one_line(f"{model.name}: item {model.twice!r} has several predictions, and each counts in the figures"))


def _alone(model: GradedModel, metric: str, span: tuple[float, float]) -> pl.DataFrame | None:
    """Return the board of this file only; None if its items cannot be on a board."""
    if model.twice is not None or not model.outcomes:
        return None
    marked = any(outcome.mark is not None for outcome in model.outcomes.values())
    return ranked([model], metric, span).board if marked else None


# ---- documents -----------------------------------------------------------------------------------------------------


def _document(result: Result) -> Mapping[str, JsonValue]:
    """Return the report of one file; for several files the models in the order given, with their rows on the board."""
    form, graded, board = result.form, result.graded, result.board
    if result.arguments.every_run:
        listed: list[JsonValue] = [
            {"name": model.name, "source": model.where, "report": model.document} for model in graded.models
        ]
        return {"task": result.arguments.task, "protocol": form.protocol, "models": listed, **form.extras(graded)}
    if board is None:
        return {**(graded.models[0].document or {}), **form.extras(graded)}
    samples = form.asked.samples
    return {
        "task": result.arguments.task,
        "protocol": form.protocol,
        "metric": result.metric,
        **({} if samples is None else {"samples": samples}),
        "n_items": board.n_items,
        "notes": list(board.notes),
        "models": [
            {"name": model.name, "source": model.where, **to_json(board, model), **_reports(result, model)}
            for model in graded.models
        ],
        **form.extras(graded),
    }


def _reports(result: Result, model: GradedModel) -> Mapping[str, JsonValue]:
    return (
        result.form.rounds(result.graded.rounds[model.name]) if result.arguments.rounds else {"report": model.document}
    )


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
        shown = _printable(document)
        text = form.report_text(shown) if result.board is None else _indented(shown)
        yield arguments.output, text.encode("utf-8", "replace")
    if table is not None and arguments.table != "-":
        yield Path(arguments.table or ""), table.encode("utf-8", "replace")
    if arguments.chart is not None:
        yield arguments.chart, picture(arguments.chart, form.chart(result.graded))


def _indented(document: JsonValue) -> str:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


# ---- for people ----------------------------------------------------------------------------------------------------


def _print(result: Result, document: Mapping[str, JsonValue], table: str | None) -> None:
    arguments = result.arguments
    if arguments.as_json:
        print_json(_printable(document))
    elif table is not None and arguments.table == "-":
        sys.stdout.write(table)
    elif arguments.output is not None and arguments.updated is not None:
        return
    elif arguments.every_run:
        _print_tables(result.form.unranked(result.graded))
    elif arguments.prints_report:
        sys.stdout.write(f"{result.form.report_text(_printable(document))}\n")
    elif result.board is None:
        lines = [*result.form.lines(document), *_interval(result)]
        print_table(text_table(arguments.task, ["metric", "value"], lines), first=True)
        _print_tables(result.form.tables_of_one(result.graded.models[0]))
    else:
        _print_board(result, result.board)


def _interval(result: Result) -> Iterator[tuple[str, str]]:
    """Yield the interval that the file would have on a board with others, as name and text."""
    ends = () if result.alone is None else result.alone.select("level", "lower", "upper").drop_nulls().iter_rows()
    for level, lower, upper in ends:
        name = result.metric.replace("_", " ")
        yield f"{name}: {percent(level)} CI (new items)", f"{range_text(lower, upper)} %"


def _print_board(result: Result, board: Ranking) -> None:
    """Print the board as for runs, with the kinds of failure, then the tables of this benchmark only."""
    if board.board.height:
        print_board(board.board)
    _print_tables(result.form.tables(result.graded))
    for note in board.notes:
        console().print(one_line(note), style="yellow", markup=False)
    if result.arguments.rounds:
        _print_tables(result.form.rounds_tables(result.graded))


def _print_tables(tables: Iterable[Table]) -> None:
    for table in tables:
        print_table(table)


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
    output: Path | None
    updated: Path | None
    table: str | None
    chart: Path | None
    named_ensembles: tuple[str, ...]
    rounds: bool
    every_run: bool
    benchmark: str | None
    runs: Path
    as_json: bool
    prints_report: bool = False
    """Print the report as it is written: nobody named a file for it, and its form has one."""


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
    is_plain = arguments.output is None and not (arguments.as_json or arguments.rounds)
    if name is None or not is_plain or len(arguments.predictions) > 1 or not path.is_file():
        return arguments
    output = replace(arguments, output=path.with_name(name), prints_report=True)
    for written in _written(output):
        _check_writable(written)
    return output


def check_task(task: str | None, predictions: Sequence[str]) -> str:
    """Return the task. Raises ManifestError where it or the predictions are missing, with the command to give."""
    from layton_batch.grading.forms import graded_by_rule
    from layton_batch.tasks import task_names

    names = ", ".join(graded_by_rule())
    if task is None or (task not in task_names() and os.path.isfile(task)):
        file = task or next(iter(predictions), None)
        if file is None:
            raise ManifestError(
                f"grade: name a task and a file of predictions: `layton-batch grade TASK FILE`; tasks: {names}"
            )
        raise ManifestError(f"grade: name the task before {file}: {_command_for(file, names)}")
    if not predictions and task in task_names():
        raise ManifestError(f"grade: name the file of predictions: `layton-batch grade {task} FILE`")
    return task


def _command_for(file: str, names: str) -> str:
    """Return the command that a file of predictions is for, by its columns."""
    from layton_batch.grading.forms import tasks_of_predictions

    plain = f"`layton-batch grade TASK {file}`; tasks: {names}"
    settings = Settings.from_process()
    try:
        columns = next(iter(chain.from_iterable(portions(file, settings.cwd, settings))))[1].keys()
    except (DataError, StopIteration):
        return plain
    if tasks := tasks_of_predictions(columns):
        commands = " or ".join(f"`layton-batch grade {task} {file}`" for task in tasks)
        return f"its columns are those of {' and '.join(tasks)}: {commands}"
    return (
        f"{plain}. Its columns ({', '.join(columns)}) are those of none of them: `layton-batch judge {file}` puts "
        f"answers before a jury, and `layton-batch run {file} --model PROVIDER:ID` asks models"
    )


def form_for(arguments: GradeArguments) -> OfflineForm:
    """Return the benchmark's form. Raises ManifestError for conflicting options, before any file is read."""
    from layton_batch.grading.forms import check_option, chosen_metric, form_of

    options = GradingOptions(
        samples=arguments.samples,
        named_ensembles=_groups(arguments.named_ensembles),
        benchmark=arguments.benchmark,
        every_run=arguments.every_run,
        keep_rows=arguments.as_json or any((arguments.output, arguments.named_ensembles)),
        title=one_line(arguments.benchmark or ""),
    )
    form = form_of(arguments.task, arguments.protocol, options)
    chosen_metric(arguments.task, form, arguments.metric)
    for option, given in (
        ("--samples", arguments.samples),
        ("--updated", arguments.updated),
        ("--rounds", arguments.rounds),
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


def refuse_llm_evaluator(task: str, predictions: str, items: Path | None) -> NoReturn:
    """Raise ManifestError with the command that puts these predictions before a judge."""
    from layton_batch.cli.own_answers import JUDGED
    from layton_batch.tasks import setting_names

    if JUDGED not in setting_names(task):
        raise ManifestError(f"grade: --use-llm-evaluator: the rules of {task} need no judge")
    command = f"layton-batch judge {predictions} --items {items or 'ANNOTATIONS'} --task {task} --protocol original"
    raise ManifestError(
        f"grade: --use-llm-evaluator: a judge is paid, and `grade` pays nobody. `{command} --seats 1 --panel FILE "
        f"--max-usd AMOUNT` does it, in a batch; manifests/panel-{task}.toml is the published judge"
    )


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
