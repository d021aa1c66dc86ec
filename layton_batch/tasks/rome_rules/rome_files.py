"""Predictions made elsewhere: ROME's files in, ``scores.json`` and ``updated_predictions.json`` out, and rounds.

Files of annotations and predictions are a JSON list, a JSON object by question id, one prediction as an object, JSONL,
or Parquet. Predictions have ``question_id`` and ``answer``, annotations ``question_id``, ``evaluator`` and
``evaluator_kwargs``; without annotations the predictions carry their fields. A prediction may have ``finish_reason``,
which the corrected protocol minds: no answer is found in a refusal, nor in a reply cut off before its answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, ClassVar, cast

from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.records import Grade, Item, JsonValue, Prediction
from layton_batch.settings import Settings
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
    json_text,
    no_response,
    response,
)
from layton_batch.tasks.rome import ENDINGS, RomeTask, RuleGrade, rule_of
from layton_batch.tasks.rome_rules.grades import ORIGINAL, RomeGrade, RomeTally, Rounds, over_rounds
from layton_batch.text import Table, text_table


@dataclass(slots=True)
class ScoresReport:
    """The totals of one model. ``updated`` takes every graded row in the published form."""

    protocol: str
    updated: RowsFile | None = None
    tally: RomeTally = field(default_factory=RomeTally)

    def add(self, reply: GradedReply) -> None:
        mark, row = mark_of(reply), updated_row(reply, self.protocol)
        self.tally.add(row, mark.score)
        if self.updated is not None:
            self.updated.add(row)

    def document(self) -> dict[str, JsonValue]:
        """The published ``scores.json``. Raises DataError where nothing was graded."""
        if not self.tally.count:
            raise DataError("there are no predictions to grade")
        return self.tally.to_json(self.protocol)


class RomeForm(OfflineForm):
    """ROME's form."""

    options: ClassVar[Mapping[str, str]] = dict.fromkeys(("--updated", "--rounds"), "")
    id_columns = ("question_id",)
    text_column = "answer"
    gold_columns = ("evaluator_kwargs",)
    no_reply = ""

    def __init__(self, task: RomeTask, options: GradingOptions) -> None:
        super().__init__(task, options)
        self.protocol: str = task.protocol

    # ---- rows ------------------------------------------------------------------------------------------------------

    def predictions(self, path: Path, settings: Settings) -> Iterable[FileRow]:
        return read_predictions(path)

    def item_rows(self, path: Path, settings: Settings) -> Sequence[FileRow]:
        return list(read_annotations(path))

    def items(self, rows: Sequence[FileRow]) -> Sequence[Item]:
        items_by_id: dict[str, Item] = {}
        for number, row in enumerate(rows, 1):
            item = _item(row, f"annotation {number}")
            if item.id in items_by_id and self.protocol != ORIGINAL:  # as published, the last one counts
                raise DataError(f"annotation {number}: question_id {item.id!r} is there already")
            items_by_id[item.id] = item
        return list(items_by_id.values())

    def item(self, row: FileRow, where: str) -> Item:
        return _item(row, where)

    def named(self, row: FileRow, number: int) -> tuple[str, str]:
        return _id(row, f"prediction {number}"), f"prediction {number}"

    def grade(self, item: Item, row: FileRow, where: str, model: str) -> tuple[Prediction, Grade]:
        answer = row.get("answer")
        if isinstance(answer, str):
            gone = row.get("is_missing") is True and not answer
            return self.judged(item, no_response("no reply") if gone else response(answer, row), model)
        prediction = Prediction(item.id, model, PredictionKind.UNPARSED, note="no answer")
        grade = self._task.grade(item, prediction)
        if rule_of(item) is not None:
            marks, mark = grade.marks, RomeGrade(0, "", "KeyError: the prediction must include 'answer', a text")
            grade = RuleGrade(item.id, model, marks, grade.tag, grade.note, mark=mark)
        return prediction, grade

    # ---- reports ---------------------------------------------------------------------------------------------------

    def report(self, items: Sequence[Item] | None, updated: RowsFile | None = None) -> ScoresReport:
        return ScoresReport(self.protocol, updated)

    @property
    def default_output(self) -> str | None:
        return "scores.json" if self.protocol == ORIGINAL else None

    def report_text(self, document: JsonValue) -> str:
        return json_text(document)

    def outcome(self, reply: GradedReply, metric: str) -> ItemOutcome:
        """Count like the published files: locations with their fractional score, errors apart from answers."""
        mark = mark_of(reply)
        kind, failure = PredictionKind.ANSWERED, "wrong_answer"
        if mark.score > 0:
            return ItemOutcome(float(mark.score), str(kind), "coarse_location" if mark.score < 1 else None)
        if reply.prediction.kind is PredictionKind.MISSING:
            kind, failure = PredictionKind.MISSING, str(PredictionKind.MISSING)
        elif mark.error is not None:
            kind, failure = PredictionKind.UNPARSED, "ungradable"
        elif not mark.read.strip():
            kind, failure = PredictionKind.UNPARSED, ENDINGS.get(reply.prediction.ending, "no_answer")
        return ItemOutcome(float(mark.score), str(kind), failure)

    def lines(self, document: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
        for name, value in document.items():
            yield name, f"{value[0]} of {value[1]}" if isinstance(value, list) else f"{value} %"

    def rounds(self, rounds: Sequence[GradedModel]) -> Mapping[str, JsonValue]:
        fields: dict[str, JsonValue] = {
            name: {"mean": accuracy.mean, "std": accuracy.std, "values": list(accuracy.values)}
            for name, accuracy in _over(rounds).items()
        }
        return {"reports": [model.document for model in rounds], "rounds": fields}

    def rounds_tables(self, graded: GradedSet) -> Iterator[Table]:
        """Yield mean and sample standard deviation over the rounds by field of the questions, in percent."""
        lines = [
            (name if place == 0 else "", field, accuracy.shown(), str(len(accuracy.values)))
            for name, rounds in graded.rounds.items()
            for place, (field, accuracy) in enumerate(_over(rounds).items())
        ]
        title = "rounds: mean ± sample standard deviation, %"
        yield text_table(title, ["model", "field", "accuracy", "rounds"], lines, text=2)


def _over(rounds: Sequence[GradedModel]) -> dict[str, Rounds]:
    return over_rounds([round_.document for round_ in rounds if round_.document is not None])


# ---- rows ----------------------------------------------------------------------------------------------------------


def mark_of(reply: GradedReply) -> RomeGrade:
    """Return the evaluator's mark of a reply."""
    if not isinstance(reply.grade, RuleGrade):
        raise TypeError(f"item {reply.item.id!r}: not a grade of this benchmark")
    return reply.grade.mark


def updated_row(reply: GradedReply, protocol: str) -> dict[str, JsonValue]:
    """The prediction with ``raw_answer``, ``answer`` as read, the question's fields (which win) and ``correct``."""
    row, mark, question = dict(reply.row), mark_of(reply), _question(reply.item)
    if "answer" in reply.row:
        row["raw_answer"] = reply.row["answer"]
        row["answer"] = mark.read
    if question is not reply.row:
        row |= question
    if "answer" in reply.row and protocol != ORIGINAL:
        row["answer"] = mark.read
    row["correct"] = mark.score
    row["judgement_response"] = None
    if mark.error is not None:
        row["error"] = mark.error
    return row


def _question(item: Item) -> FileRow:
    """An item as a row of annotations."""
    if "question_id" in item.payload:
        return item.payload
    return {"question_id": item.id, "question": item.question, "task": item.category, **item.payload}


def _item(row: FileRow, where: str) -> Item:
    """An item of which no more is known than its row; what it lacks costs a prediction its mark."""
    return Item(_id(row, where), "", "", "", payload=row)


def _id(row: FileRow, where: str) -> str:
    value = row.get("question_id")
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise DataError(f"{where}: question_id must be a text or a number")
    return str(value)


# ---- files ---------------------------------------------------------------------------------------------------------


_PARQUET = b"PAR1"
_ROWS_AT_ONCE = 2_000


def read_annotations(path: Path) -> Iterator[FileRow]:
    """The questions. Raises DataError with file and reason: not there, not UTF-8, not JSON, not in one of the forms."""
    for number, row in enumerate(read_predictions(path), 1):
        yield _with_text(row, "question_id", f"{path}, annotation {number}")


def read_predictions(path: Path) -> Iterator[FileRow]:
    """The predictions, in order; a JSONL file is read line by line. Raises DataError as for annotations."""
    limits.check_is_file(path, str(path))
    try:
        if _is_parquet(path):
            limits.check_parquet(path, str(path))
            yield from _table(path)
            return
        with path.open("rb") as handle:
            first = next((line for _, line in limits.lines(handle, str(path)) if line.strip()), b"")
            handle.seek(0)
            if _is_one_of_many(first.decode("utf-8-sig")):
                yield from _lines(path, handle)
                return
            limits.check_document(path, str(path))
            whole = handle.read().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start})") from error
    if whole.strip():
        yield from _shaped(_loads(whole, str(path)), path)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as handle:
        return handle.read(len(_PARQUET)) == _PARQUET


def _table(path: Path) -> Iterator[FileRow]:
    import polars as pl

    try:
        for part in pl.scan_parquet(path, glob=False).collect_batches(chunk_size=_ROWS_AT_ONCE):
            yield from part.iter_rows(named=True)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: not a Parquet file that can be read ({error})") from error


def _is_one_of_many(first: str) -> bool:
    """Return whether a first line is a whole object and no id-to-row mapping: then the file is JSONL."""
    if not first.lstrip().startswith("{"):
        return False
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and not _is_mapping(value)


def _is_mapping(value: Mapping[str, JsonValue]) -> bool:
    return bool(value) and all(isinstance(row, dict) for row in value.values())


def _lines(path: Path, handle: IO[bytes]) -> Iterator[FileRow]:
    for number, line in limits.lines(handle, str(path)):
        if line.strip():
            where = f"{path}, line {number}"
            yield _object(_loads(line.decode("utf-8-sig" if number == 1 else "utf-8"), where), where)


def _shaped(value: JsonValue, path: Path) -> Iterator[FileRow]:
    if isinstance(value, list):
        for number, row in enumerate(value, 1):
            yield _object(row, f"{path}, row {number}")
    elif isinstance(value, dict) and _is_mapping(value):
        for name, row in value.items():
            yield {"question_id": name, **cast("dict[str, JsonValue]", row)}
    elif isinstance(value, dict):
        yield value
    else:
        raise DataError(f"{path}: neither a list of rows nor an object of rows by question id")


def _object(value: JsonValue, where: str) -> FileRow:
    if not isinstance(value, dict):
        raise DataError(f"{where}: not an object")
    return value


def _with_text(row: FileRow, column: str, where: str) -> FileRow:
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DataError(f"{where}: {column} must be a text or a whole number")
    return row


def _loads(text: str, where: str) -> JsonValue:
    try:
        return cast("JsonValue", json.loads(text))
    except RecursionError as error:
        raise DataError(f"{where}: nested too deep") from error
    except ValueError as error:
        raise DataError(f"{where}: not JSON ({error}); ROME's files are JSON, JSONL or Parquet") from error
