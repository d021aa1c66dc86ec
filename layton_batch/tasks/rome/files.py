"""Predictions made elsewhere: ROME's files in, ``scores.json`` and ``updated_predictions.json`` out.

Files of annotations and predictions are a JSON list, a JSON object by question id, one prediction as an object, JSONL,
or Parquet. Predictions have ``question_id`` and ``answer``, annotations ``question_id``, ``evaluator`` and
``evaluator_kwargs``; without annotations the predictions carry their fields. A prediction may have ``finish_reason``,
which the corrected protocol minds: no answer is found in a refusal, nor in a reply cut off before its answer.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, ClassVar

import orjson
import polars as pl

from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.files.sources import stream_rows
from layton_batch.records import Grade, Item, JsonValue, Prediction
from layton_batch.settings import Settings
from layton_batch.states import PredictionKind
from layton_batch.tasks.offline import Columns, Document, FileRow, GradingOptions, OfflineForm
from layton_batch.tasks.protocol import RuleTask
from layton_batch.tasks.rome.published import ORIGINAL, RomeGrade
from layton_batch.tasks.rome.task import RuleGrade, rule_of


class RomeForm(OfflineForm):
    """ROME's form."""

    options: ClassVar[Mapping[str, str]] = {"--updated": ""}
    id_columns = ("question_id",)
    text_column = "answer"
    gold_columns = ("evaluator_kwargs",)
    columns: ClassVar[Columns] = {"task": pl.String, "is_whole": pl.Boolean}

    def __init__(self, task: RuleTask, options: GradingOptions) -> None:
        super().__init__(task, options)
        self.default_output = "scores.json" if self.protocol == ORIGINAL else None

    # ---- files to frames -------------------------------------------------------------------------------------------

    def rows(self, path: Path, settings: Settings) -> Iterable[FileRow]:
        return read_predictions(settings.cwd / path)

    def items(self, rows: Iterable[FileRow]) -> Sequence[Item]:
        items_by_id: dict[str, Item] = {}
        for number, row in enumerate(rows, 1):
            item = self._item(row, f"annotation {number}")
            if item.id in items_by_id and self.protocol != ORIGINAL:  # as published, the last one counts
                raise DataError(f"annotation {number}: question_id {item.id!r} is there already")
            items_by_id[item.id] = item
        return list(items_by_id.values())

    def _item(self, row: FileRow, where: str) -> Item:
        """Make an item of a row as it is; a field that it lacks costs a prediction its mark."""
        return Item(self._id(row, where), "", "", "", payload=row)

    def _grade(self, item: Item, row: FileRow, where: str) -> tuple[Prediction, Grade]:
        if isinstance(row.get("answer"), str) or row.get("is_missing") is True:
            return super()._grade(item, row, where)
        prediction = Prediction(item.id, "", PredictionKind.UNPARSED, note="no answer")
        grade = self.task.grade(item, prediction)
        if rule_of(item) is not None:
            mark = RomeGrade(0, "", "KeyError: the prediction must include 'answer', a text")
            grade = RuleGrade(item.id, "", grade.marks, grade.tag, grade.note, mark=mark)
        return prediction, grade

    def _record(self, row: FileRow, item: Item, prediction: Prediction, grade: Grade) -> dict[str, object]:
        mark, task = _mark(grade), (_question(item) if "task" in _question(item) else row).get("task")
        name = task if isinstance(task, str) else json.dumps(task, ensure_ascii=False)
        return {
            **super()._record(row, item, prediction, grade),
            "accuracy": float(mark.score),
            "task": name if task else "all",  # nothing, "" and 0 go to the bucket of all
            "is_whole": isinstance(mark.score, int),
        }

    def _updated(self, row: FileRow, item: Item, grade: Grade) -> FileRow:
        """Return the prediction with ``raw_answer``, ``answer`` as read, the question's fields (which win) and
        ``correct``."""
        updated, mark, question = dict(row), _mark(grade), _question(item)
        if "answer" in row:
            updated |= {"raw_answer": row["answer"], "answer": mark.read}
        if question is not row:
            updated |= question
        if "answer" in row and self.protocol != ORIGINAL:
            updated["answer"] = mark.read
        error = {} if mark.error is None else {"error": mark.error}
        return {**updated, "correct": mark.score, "judgement_response": None, **error}

    # ---- frames to documents ---------------------------------------------------------------------------------------

    def report(self, frame: pl.DataFrame, *, with_rows: bool = True) -> Document:
        """Return the published ``scores.json``: each bucket has one part, itself. A bucket called like a total replaces
        the total in the original, and gets a suffix otherwise. Whole sums stay whole."""
        buckets: dict[str, tuple[float, int]] = {}
        for task, score, is_whole in frame.select("task", "accuracy", "is_whole").iter_rows():
            total, count = buckets.get(task, (0, 0))
            buckets[task] = total + (int(score) if is_whole else score), count + 1
        # added bucket by bucket from the left, as published: the last digit of a float depends on it
        final = reduce(add, (total for total, _ in buckets.values()), 0)
        scores: dict[str, JsonValue] = {
            "final_score": [final, frame.height],
            "accuracy": round(final / frame.height * 100, 3) if frame.height else 0.0,
        }
        for task, (total, count) in buckets.items():
            shown = f"{task} (task)" if task in ("final_score", "accuracy") and self.protocol != ORIGINAL else task
            row: list[JsonValue] = [total, count, round(total / count, 3)]
            scores[shown] = [*row, {task: row}]
        return scores


def _mark(grade: Grade) -> RomeGrade:
    if not isinstance(grade, RuleGrade):
        raise TypeError(f"item {grade.item_id!r}: not a grade of this benchmark")
    return grade.mark


def _question(item: Item) -> FileRow:
    """Return an item as a row of annotations."""
    if "question_id" in item.payload:
        return item.payload
    return {"question_id": item.id, "question": item.question, "task": item.category, **item.payload}


# ---- files ---------------------------------------------------------------------------------------------------------


def read_predictions(path: Path) -> Iterator[FileRow]:
    """Yield the rows of a file of predictions or annotations, in order; JSONL and Parquet are read row by row.

    Raises DataError with file and reason: not there, not UTF-8, not JSON, not in one of the forms.
    """
    document = _document(path)
    if document is None:
        yield from stream_rows(path)
    elif document and all(isinstance(row, dict) for row in document.values()):
        yield from ({"question_id": name, **row} for name, row in document.items())
    else:
        yield document


def _document(path: Path) -> dict[str, Any] | None:
    """Return the content of a file that is one JSON object; None for a file of another form."""
    if path.suffix != ".json" or not path.is_file():
        return None
    limits.check_document(path, str(path))
    try:
        value = orjson.loads(path.read_bytes().removeprefix(codecs.BOM_UTF8))
    except (OSError, orjson.JSONDecodeError):
        return None  # rows line by line, or nothing that can be read: reading the rows says what is wrong
    return value if isinstance(value, dict) else None
