"""`grade` from what was asked to what is printed and written."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from layton_batch.cli.grade_files import Asked, form_for, picture, updating
from layton_batch.cli.terminal import print_json
from layton_batch.errors import ManifestError
from layton_batch.files import atomic
from layton_batch.grading.board import Board, averaged, by_model, grade, items_of, ranked, to_json
from layton_batch.grading.forms import chosen_metric
from layton_batch.grading.submissions import Desk, submissions
from layton_batch.records import JsonValue
from layton_batch.reports.board import print_board
from layton_batch.reports.table import console, print_table
from layton_batch.settings import Settings
from layton_batch.tasks.offline import GradedModel, GradedSet, OfflineForm, ReportTable, RowsFile
from layton_batch.text import one_line


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that was graded. ``board``: None for one file."""

    asked: Asked
    form: OfflineForm
    metric: str
    graded: GradedSet
    board: Board | None


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
    found = submissions(asked.predictions, Desk(asked.task, form, asked.runs, settings, asked.rounds))
    if asked.updated is not None and len(found) != 1:
        raise ManifestError(f"grade: --updated is for the predictions of one model; here are {len(found)}")
    items = None if asked.items is None else items_of(form, form.item_rows(asked.items, settings))
    metric, is_one = chosen_metric(asked.task, form, asked.metric), len(found) == 1 and found[0].is_file
    has_board = not is_one or asked.rounds
    graded = [grade(one, items, metric if has_board else None, rows) for one in found]
    rounds = by_model(graded)
    models = [averaged(mine) for mine in rounds.values()] if asked.rounds else graded
    board = ranked(models, metric) if has_board else None
    names = [row.model for row in board.rows] if board else []
    return Result(asked, form, metric, GradedSet(models, rounds, names), board)


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
        lines = list(result.form.lines(document))
        print_table(asked.task, ["metric", "value"], lines, first=True)
        _print_tables(result.form.tables_of_one(result.graded.models[0]))
    else:
        _print_board(result, result.board)


def _print_board(result: Result, board: Board) -> None:
    """The board as runs have it, with the kinds of failure, then what only this benchmark has."""
    if board.rows:
        print_board(board.rows)
    _print_tables(result.form.tables(result.graded))
    for note in board.notes:
        console().print(one_line(note), style="yellow", markup=False)
    if result.asked.rounds:
        _print_tables(result.form.rounds_tables(result.graded))


def _print_tables(tables: Iterable[ReportTable]) -> None:
    for table in tables:
        print_table(table.title, table.header, table.lines, left=table.left)
