"""`grade` from what was asked to what is printed and written."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import polars as pl

from layton_batch.cli.terminal import print_json
from layton_batch.errors import ManifestError
from layton_batch.files import atomic
from layton_batch.grading.forms import chosen_metric
from layton_batch.grading.ranking import Ranking, averaged, by_model, grade, items_of, ranked, to_json
from layton_batch.grading.submissions import SearchSettings, submissions
from layton_batch.records import JsonValue
from layton_batch.reports.leaderboard import print_board
from layton_batch.reports.table import console, print_table
from layton_batch.settings import Settings
from layton_batch.tasks.offline import GradedModel, GradedSet, GradingOptions, OfflineForm, RowsFile
from layton_batch.text import Table, one_line, percent, range_text, text_table

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that was graded. ``board``: None for one file; ``alone``: where the one file would stand on one."""

    asked: Asked
    form: OfflineForm
    metric: str
    graded: GradedSet
    board: Ranking | None
    alone: pl.DataFrame | None = None


def run_grade(asked: Asked) -> None:
    """Grade, write what is to be written, and print the rest. Raises ManifestError, DataError, FileError.

    All files are made before the first is written: what cannot be drawn leaves nothing behind.
    """
    form = form_for(asked)
    with updating(asked.updated) as rows:
        result = _graded(asked, form, rows)
        document = _document(result)
        table = "" if asked.table is None else form.text_file("--table", result.graded)
        files = list(_files(result, document, table))
    for path, content in files:
        atomic.write_bytes(path, content)
    _print(result, document, table)


def _graded(asked: Asked, form: OfflineForm, rows: RowsFile | None) -> Result:
    settings = Settings.from_process()
    found = submissions(asked.predictions, SearchSettings(asked.task, form, asked.runs, settings, asked.rounds))
    if asked.updated is not None and len(found) != 1:
        raise ManifestError(f"grade: --updated is for the predictions of one model; here are {len(found)}")
    items = None if asked.items is None else items_of(form, form.item_rows(asked.items, settings))
    metric, is_one = chosen_metric(asked.task, form, asked.metric), len(found) == 1 and found[0].is_file
    has_board = not is_one or asked.rounds
    graded = [grade(one, items, metric if has_board or not asked.as_json else None, rows) for one in found]
    rounds = by_model(graded)
    models = [averaged(mine) for mine in rounds.values()] if asked.rounds else graded
    board = ranked(models, metric, form.span(metric)) if has_board else None
    names = board.board["model"].to_list() if board else []
    alone = None if has_board else _alone(models[0], metric, form.span(metric))
    return Result(asked, form, metric, GradedSet(models, rounds, names), board, alone)


def _alone(model: GradedModel, metric: str, span: tuple[float, float]) -> pl.DataFrame | None:
    """The board of this file only; None where its items cannot be on one."""
    if model.twice is not None or not model.outcomes:
        return None
    marked = any(outcome.mark is not None for outcome in model.outcomes.values())
    return ranked([model], metric, span).board if marked else None


# ---- documents -----------------------------------------------------------------------------------------------------


def _document(result: Result) -> Mapping[str, JsonValue]:
    """One file: its report as it always was. Several: the models in the order given, and what the board says."""
    form, graded, board = result.form, result.graded, result.board
    if board is None:
        return {**(graded.models[0].document or {}), **form.extras(graded)}
    samples = form.asked.samples
    return {
        "task": result.asked.task,
        "protocol": form.protocol,
        "metric": result.metric,
        **({} if samples is None else {"samples": samples}),
        "n_items": board.n_items,
        "notes": list(board.notes),
        "models": [
            {"name": one.name, "source": one.where, **to_json(board, one), **_reports(result, one)}
            for one in graded.models
        ],
        **form.extras(graded),
    }


def _reports(result: Result, one: GradedModel) -> Mapping[str, JsonValue]:
    return result.form.rounds(result.graded.rounds[one.name]) if result.asked.rounds else {"report": one.document}


def _printable(value: JsonValue) -> JsonValue:
    """The same with lone surrogates, which JSON in UTF-8 has no way to write, replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {str(_printable(name)): _printable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(one) for one in value]
    return value


# ---- files ---------------------------------------------------------------------------------------------------------


def _files(result: Result, document: Mapping[str, JsonValue], table: str) -> Iterator[tuple[Path, bytes]]:
    """What is to be written where. Raises DataError for a picture there is nothing to draw in."""
    asked, form = result.asked, result.form
    if asked.output is not None:
        shown = _printable(document)
        text = form.report_text(shown) if result.board is None else _indented(shown)
        yield asked.output, text.encode("utf-8", "replace")
    if asked.table not in (None, "-"):
        yield Path(asked.table or ""), table.encode("utf-8", "replace")
    for option, path in (("--chart", asked.chart), ("--risk-chart", asked.risk_chart)):
        if path is not None:
            yield path, picture(path, form.picture(option, result.graded))


def _indented(document: JsonValue) -> str:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


# ---- for people ----------------------------------------------------------------------------------------------------


def _print(result: Result, document: Mapping[str, JsonValue], table: str) -> None:
    asked = result.asked
    if asked.as_json:
        print_json(_printable(document))
    elif asked.table == "-":
        sys.stdout.write(table)
    elif asked.output is not None and asked.updated is not None:
        return
    elif result.board is None:
        lines = [*result.form.lines(document), *_interval(result)]
        print_table(text_table(asked.task, ["metric", "value"], lines), first=True)
        _print_tables(result.form.tables_of_one(result.graded.models[0]))
    else:
        _print_board(result, result.board)


def _interval(result: Result) -> Iterator[tuple[str, str]]:
    """The interval that the file would have on a board beside others."""
    ends = () if result.alone is None else result.alone.select("level", "lower", "upper").drop_nulls().iter_rows()
    for level, lower, upper in ends:
        name = result.metric.replace("_", " ")
        yield f"{name}: {percent(level)} CI (new items)", f"{range_text(lower, upper)} %"


def _print_board(result: Result, board: Ranking) -> None:
    """The board as runs have it, with the kinds of failure, then what only this benchmark has."""
    if board.board.height:
        print_board(board.board)
    _print_tables(result.form.tables(result.graded))
    for note in board.notes:
        console().print(one_line(note), style="yellow", markup=False)
    if result.asked.rounds:
        _print_tables(result.form.rounds_tables(result.graded))


def _print_tables(tables: Iterable[Table]) -> None:
    for table in tables:
        print_table(table)


PICTURES = (".svg", ".png")


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line of `grade`, as ``grade_commands.grade`` takes it."""

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
    risk_chart: Path | None
    ensembles: bool
    rounds: bool
    benchmark: str | None
    runs: Path
    as_json: bool


def form_for(asked: Asked) -> OfflineForm:
    """The benchmark's form. Raises ManifestError for what does not go together, before anything is read or written."""
    from layton_batch.grading.forms import check_option, chosen_metric, form_of

    options = GradingOptions(
        samples=asked.samples,
        ensembles=asked.ensembles,
        benchmark=asked.benchmark,
        keep_rows=asked.as_json or asked.output is not None or asked.ensembles,
        title=one_line(asked.benchmark or ""),
    )
    form = form_of(asked.task, asked.protocol, options)
    chosen_metric(asked.task, form, asked.metric)
    for option, given in (
        ("--samples", asked.samples),
        ("--updated", asked.updated),
        ("--rounds", asked.rounds),
        ("--chart", asked.chart),
        ("--table", asked.table),
        ("--risk-chart", asked.risk_chart),
        ("--ensembles", asked.ensembles),
        ("--benchmark", asked.benchmark),
    ):
        if given:
            check_option(form, option)
    for option, path in (("--chart", asked.chart), ("--risk-chart", asked.risk_chart)):
        _check_picture(option, path)
    if asked.table == "-" and asked.as_json:
        raise ManifestError("grade: --table - and --json both write on stdout; give --table a file")
    for written in _written(asked):
        _check_writable(written)
    return form


def _check_writable(path: Path) -> None:
    """What can be known before the work is done."""
    if path.is_dir():
        raise ManifestError(f"grade: {path} is a folder; name a file to write")
    folder = next(one for one in path.absolute().parents if one.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ManifestError(f"grade: {path} cannot be written: {folder} is no folder that we may write in")


def _written(asked: Asked) -> Iterator[Path]:
    """The files that will be there. Raises ManifestError for one that is meant twice, or that is read."""
    table = Path(asked.table) if asked.table not in (None, "-") and asked.table else None
    paths = [path for path in (asked.output, asked.updated, asked.chart, asked.risk_chart, table) if path is not None]
    read = {Path(text).absolute() for text in asked.predictions} | ({asked.items.absolute()} if asked.items else set())
    for path in paths:
        if [one.absolute() for one in paths].count(path.absolute()) > 1:
            raise ManifestError(f"grade: {path} is to be written twice")
        if path.absolute() in read:
            raise ManifestError(f"grade: {path} is read; write into another file")
        yield path


def _check_picture(option: str, path: Path | None) -> None:
    if path is None:
        return
    if path.suffix.lower() not in PICTURES:
        raise ManifestError(f"grade: {option} {path}: a picture's name ends in {' or '.join(PICTURES)}")


def picture(path: Path, chart: alt.LayerChart) -> bytes:
    """The chart as the name's ending says."""
    from layton_batch.drawing import rendered

    return rendered(chart, path.suffix)


@contextmanager
def updating(path: Path | None) -> Iterator[RowsFile | None]:
    """A place for graded rows, written row by row. The file is there when the block ends well."""
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
