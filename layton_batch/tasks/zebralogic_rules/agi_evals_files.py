"""Predictions made elsewhere: agi-evals' run report, and ZeroEval's columns and ways with several outputs.

Predictions have ``id`` and ``output`` (text, a list of texts, or null). Without items they carry the gold: ``solution``
and, if they like, ``size``. Where ids repeat, ``set`` on both sides tells them apart. Optional columns:
``finish_reason`` ("length": the output limit cut it off) and, where there is no output, ``error`` (the name of an
exception).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Grade, Item, JsonValue, Prediction
from layton_batch.states import PredictionKind
from layton_batch.tasks.offline import (
    FileRow,
    GradedModel,
    GradedReply,
    GradedSet,
    GradingOptions,
    ItemOutcome,
    OfflineForm,
    RowsFile,
    percent,
    response,
)
from layton_batch.tasks.zebralogic import CellGrade, PuzzleItem, ZebraLogicTask, gold_of
from layton_batch.tasks.zebralogic_rules.grading import INFRASTRUCTURE, GridGrade, Tag, infrastructure_tag
from layton_batch.tasks.zebralogic_rules.right_grids import GROUPS, GoldGrid, gold_from
from layton_batch.tasks.zebralogic_rules.zeroeval import BEST_OF_N, MODES, check_mode, grade_samples
from layton_batch.text import NONE, Table, text_table

_MODES = f"; its modes are {', '.join(MODES)}"
_PAPER = ("Puzzle Acc", "Cell Acc", "No answer", "Easy", "Hard", "Small", "Medium", "Large", "XL", "Reason Lens")
"""The columns of ZebraLogic's tables; ``Total`` stands above them."""


class GridTally:
    """Grades of one model added up: agi-evals' run report, and the row of ZeroEval's table."""

    def __init__(self) -> None:
        self._tags: Counter[Tag] = Counter()
        self._puzzles: Counter[str] = Counter()  # by size
        self._solved: Counter[str] = Counter()
        self._cells = self._cells_correct = 0
        self._unanswered = 0
        self._reasoning_chars = self._reasonings = 0

    def add(self, gold: GoldGrid, size: str, grade: GridGrade) -> None:
        self._tags[grade.tag] += 1
        self._puzzles[size] += 1
        self._solved[size] += grade.tag is Tag.NONE
        self._cells += len(gold.cells)
        self._cells_correct += grade.cells_correct or 0
        if grade.reasoning_chars is None:
            self._unanswered += grade.tag is not Tag.MALFORMED_OUTPUT
        else:
            self._reasonings += 1
            self._reasoning_chars += grade.reasoning_chars

    @property
    def cases(self) -> int:
        return self._tags.total()

    @property
    def scored(self) -> int:
        """Cases whose outcome is the model's, not the infrastructure's."""
        return sum(count for tag, count in self._tags.items() if tag not in INFRASTRUCTURE)

    @property
    def score(self) -> float:
        """The share of passes among the scored; 0 where nothing was scored."""
        return self._tags[Tag.NONE] / self.scored if self.scored else 0.0

    def failure_counts(self) -> dict[str, int]:
        """Count replies by tag, in order of first occurrence. Passes count as "none"."""
        return {tag.value: count for tag, count in self._tags.items()}

    def summary(self) -> dict[str, JsonValue]:
        """ZeroEval's fields: percentages with two decimals as text, over all puzzles; null where there are none."""
        groups = {
            name: _percent(sum(self._solved[size] for size in sizes), sum(self._puzzles[size] for size in sizes))
            for name, sizes in GROUPS.items()
        }
        return {
            "Puzzle Acc": _percent(self._solved.total(), self.cases),
            "Cell Acc": _percent(self._cells_correct, self._cells),
            "No answer": _percent(self._unanswered, self.cases),
            "Easy": groups.pop("Easy"),
            "Hard": groups.pop("Hard"),
            "Total": self.cases,
            "Reason Lens": f"{self._reasoning_chars / self._reasonings:.2f}" if self._reasonings else None,
            **groups,
        }


def _percent(part: int, whole: int) -> str | None:
    return f"{part / whole * 100:.2f}" if whole else None


@dataclass(slots=True)
class GridReport:
    """The totals of one model. ``rows``: ids and grades in the predictions' order, where they are kept. ``n_items``:
    how many items there are, where predictions do not carry their own."""

    protocol: str
    samples: str | None = None
    n_items: int | None = None
    keep_rows: bool = True
    tally: GridTally = field(default_factory=GridTally)
    rows: list[tuple[str, GridGrade]] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def add(self, reply: GradedReply) -> None:
        if not isinstance(reply.grade, CellGrade) or reply.grade.gold is None:
            raise TypeError(f"item {reply.item.id!r}: not a grade of this benchmark")
        self.tally.add(reply.grade.gold, reply.item.category, reply.grade.grid)
        if self.keep_rows:
            self.rows.append((reply.item.id, reply.grade.grid))
        if self.n_items is not None:
            self._seen.add(id(reply.item))

    def document(self) -> dict[str, JsonValue]:
        """``score`` and accuracies as fractions; ``score`` leaves out infrastructure errors, ``summary`` does not."""
        return {
            "protocol": self.protocol,
            "score": self.tally.score,
            "n_cases": self.tally.cases,
            "n_scored": self.tally.scored,
            "n_errored": self.tally.cases - self.tally.scored,
            "items_without_prediction": (self.n_items or 0) - len(self._seen),
            "failure_counts": dict(self.tally.failure_counts()),
            "summary": self.tally.summary(),
            "rows": [_row(item_id, grade) for item_id, grade in self.rows],
            **({} if self.samples is None else {"samples": self.samples}),
        }


class ZebraForm(OfflineForm):
    """The form of ZebraLogic's outputs."""

    options: ClassVar[Mapping[str, str]] = {"--samples": _MODES}
    id_columns = ("id",)
    text_column = "output"
    gold_columns = ("solution",)

    def __init__(self, task: ZebraLogicTask, options: GradingOptions) -> None:
        super().__init__(task, options)
        self.task, self.protocol = task, task.rules.name
        if options.samples is not None:
            if self.protocol != "zeroeval":
                raise ManifestError(f"grade: --samples is for --protocol zeroeval{_MODES}")
            check_mode(options.samples)

    # ---- rows ------------------------------------------------------------------------------------------------------

    def items(self, rows: Sequence[FileRow]) -> Sequence[Item]:
        items_by_key: dict[tuple[str, str | None], Item] = {}
        for number, row in enumerate(rows, 1):
            name = _id(row, f"item {number}")
            where = f"item {number} ({name!r})"
            if (name, _set(row)) in items_by_key:
                raise DataError(f"{where}: there is another item of this id and set")
            items_by_key[name, _set(row)] = _item(name, row, where)
        return list(items_by_key.values())

    def item(self, row: FileRow, where: str) -> Item:
        return _item(_id(row, where), row, where)

    def named(self, row: FileRow, number: int) -> tuple[str, str]:
        name = _id(row, f"prediction {number}")
        return name, f"prediction {number} ({name!r})"

    def found(self, items: Sequence[Item], row: FileRow, where: str) -> Item:
        by_set = {_set(item.payload): item for item in items}
        if _set(row) in by_set:
            return by_set[_set(row)]
        if len(by_set) == 1 and (None in by_set or _set(row) is None):
            return items[0]
        sets = ", ".join(sorted(map(repr, by_set)))
        raise DataError(f"{where}: its column 'set' is {_set(row)!r}, but the items of this id are of the sets {sets}")

    def grade(self, item: Item, row: FileRow, where: str, model: str) -> tuple[Prediction, Grade]:
        outputs = _outputs(row, where)
        if len(outputs) == 1:
            return self.judged(item, response(outputs[0], row), model)
        if not outputs and self.protocol == "zeroeval":  # knows only answers and none
            return self.judged(item, response("", {}), model)
        if not outputs:
            return self._never_came(item, row, model)
        if self.protocol != "zeroeval":
            raise DataError(f"{where}: {len(outputs)} outputs; only protocol zeroeval makes one answer of several")
        mode, gold = self.asked.samples or BEST_OF_N, gold_of(item)
        last = self._task.parse(item, model, response(outputs[-1], row))
        return last, self.task.cell_grade(last, grade_samples(outputs, gold, mode), gold)

    def _never_came(self, item: Item, row: FileRow, model: str) -> tuple[Prediction, Grade]:
        error = row.get("error")
        why = error if isinstance(error, str) and error.strip() else None
        grid = GridGrade(infrastructure_tag(why) if why else Tag.ADAPTER_ERROR, note=why or "no output")
        prediction = Prediction(item.id, model, PredictionKind.MISSING, note=grid.note)
        return prediction, self.task.cell_grade(prediction, grid, gold_of(item))

    # ---- reports ---------------------------------------------------------------------------------------------------

    def report(self, items: Sequence[Item] | None, updated: RowsFile | None = None) -> GridReport:
        count = None if items is None else len(items)
        return GridReport(self.task.rules.name, self.asked.samples, count, self.asked.keep_rows)

    def outcome(self, reply: GradedReply, metric: str) -> ItemOutcome:
        """Infrastructure errors are outside the score."""
        outcome = super().outcome(reply, metric)
        if outcome.failure in INFRASTRUCTURE:
            return replace(outcome, mark=None, kind=PredictionKind.MISSING.value)
        read = outcome.failure in {None, Tag.WRONG_ANSWER}
        return replace(outcome, kind=str(PredictionKind.ANSWERED if read else PredictionKind.UNPARSED))

    def lines(self, document: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
        yield "score", percent(document["score"])
        for name in ("n_cases", "n_scored"):
            yield name, str(document[name])
        counts, summary = document["failure_counts"], document.get("summary")
        for name, count in counts.items() if isinstance(counts, Mapping) else ():
            yield f"failures: {name}", str(count)
        for name, value in summary.items() if isinstance(summary, Mapping) else ():
            yield name, NONE if value is None else str(value)

    def tables(self, graded: GradedSet) -> Iterator[Table]:
        """ZeroEval's columns, by its protocol, in the order of the board."""
        if self.protocol != "zeroeval":
            return
        order = {name: place for place, name in enumerate(graded.ranked)}
        models = sorted(graded.models, key=lambda model: order.get(model.name, len(order)))
        summaries = [(model.name, _summary(model)) for model in models]
        totals = {summary["Total"] for _, summary in summaries}
        total = f"{totals.pop()} puzzles" if len(totals) == 1 else "of each model's own puzzles"
        lines = [
            [name, *(NONE if summary[column] is None else str(summary[column]) for column in _PAPER)]
            for name, summary in summaries
        ]
        header = ["model", *(name.replace(" ", "\n") for name in _PAPER)]
        yield text_table(f"ZeroEval's columns, {total}", header, lines)


def _summary(model: GradedModel) -> Mapping[str, JsonValue]:
    return (model.report if isinstance(model.report, GridReport) else GridReport("")).tally.summary()


# ---- rows ----------------------------------------------------------------------------------------------------------


def _item(name: str, row: FileRow, where: str) -> PuzzleItem:
    """An item of which no more is known than what grading needs. ``category``: the size the row states, else the
    grid's own."""
    if row.get("solution") is None:
        raise DataError(f"{where}: column 'solution' is {'null' if 'solution' in row else 'missing'}")
    gold, size = gold_from(row["solution"], where), row.get("size")
    shown = size if isinstance(size, str) and size else gold.size
    return PuzzleItem(name, "", shown, "", payload={"set": _set(row)}, gold=gold)


def _outputs(row: FileRow, where: str) -> Sequence[str]:
    if "output" not in row and "error" not in row:
        raise DataError(f"{where}: column 'output' is missing")
    output = row.get("output")
    outputs = output if isinstance(output, list) else [output]
    texts = [text for text in outputs if isinstance(text, str)]
    if any(text is not None and not isinstance(text, str) for text in outputs):
        raise DataError(f"{where}: column 'output' must be text, an array of texts or null")
    return texts


def _set(row: FileRow) -> str | None:
    value = row.get("set")
    return value if isinstance(value, str) and value else None


def _id(row: FileRow, where: str) -> str:
    value = row.get("id")
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DataError(f"{where}: column 'id' must be a text or a whole number")
    return str(value)


def _row(item_id: str, grade: GridGrade) -> dict[str, JsonValue]:
    return {
        "item_id": item_id,
        "tag": grade.tag.value,
        "score": grade.score,
        "cells_correct": grade.cells_correct,
        "cells_total": grade.cells_total,
        "cell_accuracy": grade.cell_accuracy,
        "wrong_cells": list(grade.wrong_cells),
        "note": grade.note,
    }
