"""What `grade` prints for people, and the form of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import orjson

from layton_batch.grading.board import Board
from layton_batch.grading.graded import Graded
from layton_batch.records import JsonValue
from layton_batch.reports.board import print_board
from layton_batch.reports.table import console, print_table
from layton_batch.tasks.mcq_idk_rules.abstention import Bounds, Selective
from layton_batch.tasks.mcq_idk_rules.metrics import METRICS
from layton_batch.tasks.mcq_idk_rules.table import BoardRow, cell
from layton_batch.tasks.rome_rules.rounds import Rounds
from layton_batch.text import NONE, one_line

Document = Mapping[str, JsonValue]
_PAPER = ("Puzzle Acc", "Cell Acc", "No answer", "Easy", "Hard", "Small", "Medium", "Large", "XL", "Reason Lens")
"""The columns of ZebraLogic's tables; ``Total`` stands above them."""


def report_text(form: str, document: JsonValue) -> str:
    """The report as a file: rome's in the published bytes, the others as indented JSON."""
    if form == "rome":
        from layton_batch.tasks.rome_rules.files import json_text

        return json_text(document)
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


# ---- one model -----------------------------------------------------------------------------------------------------


def print_one(task: str, model: Graded, document: Document, ensembles: Sequence[BoardRow] = ()) -> None:
    """The totals, a line each; the rows are in ``--json`` and ``--output``."""
    lines = {"zebralogic": _zebra, "rome": _rome}.get(task, _metrics)(document)
    print_table(task, ["metric", "value"], list(lines), first=True)
    if model.mcq is not None:
        from layton_batch.tasks.mcq_idk_rules.abstention import selective

        view = selective(model.mcq.tally)
        print_table("abstention", ["figure", "value", "95 % interval"], list(_abstention(view)))
    _print_ensembles(ensembles)


def _metrics(document: Document) -> Iterator[tuple[str, str]]:
    metrics = document["metrics"]
    if isinstance(metrics, Mapping):
        for name, one in metrics.items():
            if isinstance(one, Mapping):
                yield name, f"{_percent(one['mean'])}{_error(one['se'])}"
    yield "n", NONE if document["n"] is None else str(document["n"])


def _abstention(view: Selective) -> Iterator[tuple[str, str, str]]:
    bounds = view.bounds()
    for name, figure in (
        ("coverage", view.coverage),
        ("accuracy_answered", view.accuracy),
        ("risk", view.risk),
    ):
        yield name, _percent(figure), _range(bounds[name], 100)
    yield "break_even_penalty", _penalty(view), _range(bounds["break_even_penalty"], 1)


def _zebra(document: Document) -> Iterator[tuple[str, str]]:
    yield "score", _percent(document["score"])
    for name in ("n_cases", "n_scored"):
        yield name, str(document[name])
    counts = document["failure_counts"]
    if isinstance(counts, Mapping):
        for name, count in counts.items():
            yield f"failures: {name}", str(count)
    summary = document.get("summary")
    if isinstance(summary, Mapping):
        for name, value in summary.items():
            yield name, NONE if value is None else str(value)


def _rome(document: Document) -> Iterator[tuple[str, str]]:
    for name, value in document.items():
        if isinstance(value, list):
            yield name, f"{value[0]} of {value[1]}"
        else:
            yield name, f"{value} %"


# ---- several -------------------------------------------------------------------------------------------------------


def print_board_of(
    task: str, protocol: str | None, board: Board, models: Sequence[Graded], ensembles: Sequence[BoardRow]
) -> None:
    """The board as runs have it, with the kinds of failure, then what only this benchmark has."""
    if board.rows:
        print_board(board.rows)
    if task == "mcq_idk":
        _print_published(models)
        _print_views(models, board)
    if protocol == "zeroeval":
        _print_paper(models, board)
    _print_ensembles(ensembles)
    for note in board.notes:
        console().print(one_line(note), style="yellow", markup=False)


def print_rounds(over: Mapping[str, Mapping[str, Rounds]]) -> None:
    """By field of the questions: mean and sample standard deviation over the rounds, in percent."""
    lines = [
        (name if place == 0 else "", field, found.shown(), str(len(found.values)))
        for name, fields in over.items()
        for place, (field, found) in enumerate(fields.items())
    ]
    print_table("rounds: mean ± sample standard deviation, %", ["model", "field", "accuracy", "rounds"], lines, left=2)


def _print_published(models: Sequence[Graded]) -> None:
    """Models that came as published totals, which no board can rank."""
    rows = [BoardRow(one.name, one.totals) for one in models if one.totals is not None]
    _print_estimates("as published", rows)


def _print_ensembles(rows: Sequence[BoardRow]) -> None:
    _print_estimates("ensembles", rows)


def _print_estimates(title: str, rows: Sequence[BoardRow]) -> None:
    if rows:
        lines = [[row.name, *(cell(row.estimates.get(metric)) for metric in METRICS)] for row in rows]
        print_table(title, ["model", *METRICS], lines)


def _print_views(models: Sequence[Graded], board: Board) -> None:
    """Coverage, accuracy, risk and penalty, best first, with exact intervals."""
    from layton_batch.grading.mcq_views import views

    seen = views(models)
    lines = [[row.model, *_view_cells(seen[row.model])] for row in board.rows if row.model in seen]
    if lines:
        header = ["model", "coverage", "accuracy\nwhen answering", "risk", "break-even\npenalty"]
        print_table("abstention (95 % intervals)", header, lines)


def _view_cells(view: Selective) -> Iterator[str]:
    bounds = view.bounds()
    for name, figure in (("coverage", view.coverage), ("accuracy_answered", view.accuracy)):
        yield NONE if figure is None else f"{100 * figure:.1f} {_range(bounds[name], 100)}"
    yield NONE if view.risk is None else f"{100 * view.risk:.1f}"
    found = bounds["break_even_penalty"]
    yield _penalty(view) if found is None else f"{_penalty(view)} {_range(found, 1)}"


def _print_paper(models: Sequence[Graded], board: Board) -> None:
    order = {row.model: place for place, row in enumerate(board.rows)}
    lines, totals = [], set()
    for one in sorted(models, key=lambda model: order.get(model.name, len(order))):
        summary = (one.document or {}).get("summary")
        if isinstance(summary, Mapping):
            totals.add(summary.get("Total"))
            lines.append([one.name, *(NONE if summary[name] is None else str(summary[name]) for name in _PAPER)])
    total = f"{totals.pop()} puzzles" if len(totals) == 1 else "of each model's own puzzles"
    print_table(f"ZeroEval's columns, {total}", ["model", *(name.replace(" ", "\n") for name in _PAPER)], lines)


# ---- cells ---------------------------------------------------------------------------------------------------------


def _range(bounds: Bounds | None, scale: float) -> str:
    if bounds is None:
        return NONE
    lower, upper = bounds
    digits = 1 if scale > 1 else 2
    return f"{scale * lower:.{digits}f}–{'∞' if upper is None else f'{scale * upper:.{digits}f}'}"


def _penalty(view: Selective) -> str:
    if view.break_even_penalty is None:
        return "∞" if view.correct else NONE
    return f"{view.break_even_penalty:.2f}"


def _percent(value: JsonValue) -> str:
    return f"{100 * float(value):.2f} %" if isinstance(value, int | float) else NONE


def _error(value: JsonValue) -> str:
    return f" ± {100 * float(value):.2f}" if isinstance(value, int | float) else ""
