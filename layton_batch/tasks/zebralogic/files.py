"""Predictions made elsewhere: agi-evals' run report, and ZeroEval's columns and ways with several outputs.

Predictions have ``id`` and ``output`` (text, a list of texts, or null). Without items they carry the gold: ``solution``
and, if they like, ``size``. Where ids repeat, ``set`` on both sides tells them apart. Optional columns:
``finish_reason`` ("length": the output limit cut it off) and, where there is no output, ``error`` (the name of an
exception).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import polars as pl

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Grade, Item, JsonValue, Prediction
from layton_batch.states import PredictionKind
from layton_batch.tasks.offline import Columns, Document, FileRow, GradingOptions, OfflineForm, response
from layton_batch.tasks.zebralogic.protocols import (
    BEST_OF_N,
    INFRASTRUCTURE,
    MODES,
    GridGrade,
    Tag,
    gold_from,
    grade_samples,
    infrastructure_tag,
)
from layton_batch.tasks.zebralogic.task import GROUPS, CellGrade, ZebraLogicTask, gold_of

_MODES = f"; its modes are {', '.join(MODES)}"


class ZebraForm(OfflineForm):
    """The form of ZebraLogic's outputs."""

    options: ClassVar[Mapping[str, str]] = {"--samples": _MODES}
    id_columns = ("id",)
    text_column = "output"
    gold_columns = ("solution",)
    columns: ClassVar[Columns] = {
        "size": pl.String,
        "cells": pl.Int64,
        "cells_correct": pl.Int64,
        "cells_total": pl.Int64,
        "wrong_cells": pl.List(pl.String),
        "reasoning_chars": pl.Int64,
        "note": pl.String,
    }

    task: ZebraLogicTask

    def __init__(self, task: ZebraLogicTask, options: GradingOptions) -> None:
        super().__init__(task, options)
        if options.samples is not None:
            if self.protocol != "zeroeval":
                raise ManifestError(f"grade: --samples is for --protocol zeroeval{_MODES}")
            if options.samples not in MODES:
                raise ManifestError(f"samples {options.samples!r}: there are {', '.join(MODES)}")

    # ---- files to frames -------------------------------------------------------------------------------------------

    def items(self, rows: Iterable[FileRow]) -> Sequence[Item]:
        items_by_key: dict[tuple[str, str | None], Item] = {}
        for number, row in enumerate(rows, 1):
            name = self._id(row, f"item {number}")
            where = f"item {number} ({name!r})"
            if (name, _set(row)) in items_by_key:
                raise DataError(f"{where}: there is another item of this id and set")
            items_by_key[name, _set(row)] = self._item(row, where)
        return list(items_by_key.values())

    def _item(self, row: FileRow, where: str) -> Item:
        """Make an item with what grading needs. ``category``: the size that the row states, else the grid's own."""
        gold, size = gold_from(row.get("solution"), where), row.get("size")
        shown = size if isinstance(size, str) and size else gold.size
        return Item(self._id(row, where), "", shown, "", payload={"set": _set(row), "solution": row["solution"]})

    def _chosen(self, items: Sequence[Item], row: FileRow, where: str) -> Item:
        by_set = {_set(item.payload): item for item in items}
        if _set(row) in by_set:
            return by_set[_set(row)]
        if len(by_set) == 1 and (None in by_set or _set(row) is None):
            return items[0]
        sets = ", ".join(sorted(map(repr, by_set)))
        raise DataError(f"{where}: its column 'set' is {_set(row)!r}, but the items of this id are of the sets {sets}")

    def _grade(self, item: Item, row: FileRow, where: str) -> tuple[Prediction, Grade]:
        outputs = _outputs(row, where)
        if len(outputs) == 1:
            return self._judged(item, response(outputs[0], row))
        if not outputs and self.protocol == "zeroeval":  # knows only answers and none
            return self._judged(item, response("", {}))
        if not outputs:
            error = row.get("error")
            why = error if isinstance(error, str) and error.strip() else None
            grid = GridGrade(infrastructure_tag(why) if why else Tag.ADAPTER_ERROR, note=why or "no output")
            missing = Prediction(item.id, "", PredictionKind.MISSING, note=grid.note)
            return missing, self.task.cell_grade(missing, grid)
        if self.protocol != "zeroeval":
            raise DataError(f"{where}: {len(outputs)} outputs; only protocol zeroeval makes one answer of several")
        last = self.task.parse(item, "", response(outputs[-1], row))
        grid = grade_samples(outputs, gold_of(item), self.asked.samples or BEST_OF_N)
        return last, self.task.cell_grade(last, grid)

    def _record(self, row: FileRow, item: Item, prediction: Prediction, grade: Grade) -> dict[str, object]:
        if not isinstance(grade, CellGrade):
            raise TypeError(f"item {item.id!r}: not a grade of this benchmark")
        grid = grade.grid
        record = {
            **super()._record(row, item, prediction, grade),
            "size": item.category,
            "cells": len(gold_of(item).cells),
            "cells_correct": grid.cells_correct,
            "cells_total": grid.cells_total,
            "wrong_cells": list(grid.wrong_cells),
            "reasoning_chars": grid.reasoning_chars,
            "note": grid.note,
        }
        if grid.tag in INFRASTRUCTURE:  # outside the score
            return {**record, "kind": str(PredictionKind.MISSING), **dict.fromkeys(self.task.metrics)}
        return record

    # ---- frames to documents ---------------------------------------------------------------------------------------

    def report(self, frame: pl.DataFrame, *, with_rows: bool = True) -> Document:
        """Report as agi-evals does, with ZeroEval's ``summary``; ``score`` leaves out infrastructure errors."""
        marks = frame["puzzle_accuracy"].drop_nulls().to_list()
        accuracy = pl.when(pl.col("cells_total").is_not_null()).then(pl.col("cell_accuracy").fill_null(0.0))
        rows = frame.select(
            "item_id",
            pl.col("tag").fill_null(str(Tag.NONE)),
            pl.col("puzzle_accuracy").fill_null(0.0).alias("score"),
            "cells_correct",
            "cells_total",
            accuracy.alias("cell_accuracy"),
            "wrong_cells",
            "note",
        )
        return {
            "protocol": self.protocol,
            "score": sum(marks) / len(marks) if marks else 0.0,
            "n_cases": frame.height,
            "n_scored": len(marks),
            "n_errored": frame.height - len(marks),
            "failure_counts": dict(Counter(rows["tag"])),
            "summary": _summary(frame),
            "rows": [*rows.to_dicts()] if with_rows else [],
            **({} if self.asked.samples is None else {"samples": self.asked.samples}),
        }


def _summary(frame: pl.DataFrame) -> dict[str, JsonValue]:
    """Return ZeroEval's columns: percentages with two decimals as text, over all puzzles; null for no puzzles."""
    puzzles, solved = Counter(frame["size"]), Counter(frame.filter(puzzle_accuracy=1.0)["size"])
    is_unread = pl.col("reasoning_chars").is_null() & (pl.col("tag") != str(Tag.MALFORMED_OUTPUT))
    lengths = frame["reasoning_chars"].drop_nulls().to_list()
    groups = {
        name: _percent(sum(solved[size] for size in sizes), sum(puzzles[size] for size in sizes))
        for name, sizes in GROUPS.items()
    }
    return {
        "Puzzle Acc": _percent(solved.total(), frame.height),
        "Cell Acc": _percent(sum(frame["cells_correct"].drop_nulls()), sum(frame["cells"])),
        "No answer": _percent(frame.filter(is_unread).height, frame.height),
        "Easy": groups.pop("Easy"),
        "Hard": groups.pop("Hard"),
        "Total": frame.height,
        "Reason Lens": f"{sum(lengths) / len(lengths):.2f}" if lengths else None,
        **groups,
    }


def _percent(part: int, whole: int) -> str | None:
    return f"{part / whole * 100:.2f}" if whole else None


# ---- rows ----------------------------------------------------------------------------------------------------------


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
