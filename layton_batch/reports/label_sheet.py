"""Answers to label in a spreadsheet: `label plan --out` writes them with all that a person needs to judge them, and
`label import` takes the file back.

A row is known by ``label_id`` alone. What a spreadsheet does to the other columns (dates made of ids, lost line
breaks) changes no label, and neither does the apostrophe before a text that it would run as a formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import polars as pl

from layton_batch.columns import text_table
from layton_batch.errors import DataError
from layton_batch.files import tables
from layton_batch.files.items import shown_digest
from layton_batch.files.sources import Row, RowLocation, Rows, parse_each
from layton_batch.records import Item, JsonValue
from layton_batch.reports.table import as_csv
from layton_batch.runs.context import Run
from layton_batch.runs.shown_items import references
from layton_batch.scoring.annotations import WORDS, Annotation, AnswerKey, parse_annotation
from layton_batch.states import PredictionKind
from layton_batch.text import without_guard

LABEL_ID = "label_id"
LABELS = ("answer_correct", "justification_correct")
"""Columns that a person fills in."""
NOTE = "note"
"""Column in which a person may say why."""
_SHEET_COLUMNS = {"item_id", "question", "reference", "answer", LABELS[0], NOTE, "annotator", "model"}
"""Columns of every label sheet beside its ``label_id``."""
_LONGEST_NOTE = 4_000
_ANSWERS = ("item_id", "provider", "model", "n_hints", "sample", "kind", "answer", "justification")


@dataclass(frozen=True, slots=True)
class LabelTableAnswer:
    """An answer of a run, by whom and to what. ``justification``: None where there is none."""

    key: AnswerKey
    answer: str
    justification: str | None

    @property
    def label_id(self) -> str:
        """Return the answer's name. It begins with a letter, so that no spreadsheet takes it for a number or a date."""
        parts = (*map(str, self.key), self.answer, self.justification or "")
        return "L" + sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def sheet_answers(run: Run) -> list[LabelTableAnswer]:
    """Return the answers of a run that people can label: the first sample of each model."""
    nothing = tables.frame("predictions", []).select(_ANSWERS)
    frame = pl.concat([nothing, *tables.read_each(run.folder.tables, "predictions", _ANSWERS)])
    answered = frame.filter(
        (pl.col("kind") == str(PredictionKind.ANSWERED)) & (pl.col("sample").fill_null(1) == 1)
    ).select(*AnswerKey._fields, pl.col("answer").fill_null(""), "justification")
    return [LabelTableAnswer(AnswerKey(*row[:-2]), *row[-2:]) for row in answered.iter_rows()]


def reference_text(item: Item) -> str:
    """Return the reference texts of an item as one text, each with its name if there are several."""
    texts = [*references(item)]
    return "\n\n".join(text if len(texts) == 1 else f"{name}: {text}" for name, text in texts)


SheetTexts = tuple[LabelTableAnswer, Item, bool]
"""An answer, its item, and whether its justification is judged too."""


def sheet_texts(run: Run) -> dict[AnswerKey, SheetTexts]:
    """Return the answers of a run that people can label, with their items."""
    items = {item.id: item for item in run.items}
    is_justified = LABELS[1] in run.task.metrics
    answers = (answer for answer in sheet_answers(run) if answer.key.item_id in items)
    return {answer.key: (answer, items[answer.key.item_id], is_justified) for answer in answers}


def sheet_csv(rows: Sequence[Mapping[str, JsonValue]]) -> bytes:
    """Return the rows as CSV for spreadsheets: with the mark by which they know UTF-8, and no cell that they run."""
    names = dict.fromkeys(name for row in rows for name in row)
    cells = [tuple(row.get(name) for name in names) for row in rows]
    return as_csv(text_table("", names, cells), keep="\n\t").encode("utf-8-sig", "replace")


def sheet_row(key: AnswerKey, texts: SheetTexts | None) -> dict[str, JsonValue]:
    """Return the row of an answer that is to be labelled, its labels empty; without texts, its names alone. What tells
    the model comes last, to be hidden from who labels."""
    if texts is None:
        return key._asdict()
    answer, item, is_justified = texts
    justification = {"justification": answer.justification} if is_justified else {}
    return {
        LABEL_ID: f"{answer.label_id}-{shown_digest(item)}",
        "item_id": key.item_id,
        "question": item.question,
        "reference": reference_text(item),
        "answer": answer.answer,
        **justification,
        **dict.fromkeys(LABELS if is_justified else LABELS[:1]),
        NOTE: None,
        "annotator": None,
        "n_hints": key.n_hints,
        "provider": key.provider,
        "model": key.model,
    }


def count_filled_rows(rows: Iterable[Row]) -> int:
    """Count the rows in which a person wrote a label or a note."""
    return sum(any(_text(row, name).strip() for name in (*LABELS, NOTE)) for row in rows)


def is_row_to_label(row: Row) -> bool:
    """Return whether `label plan` wrote a row: of an answer with its texts, or with nothing but its names."""
    return LABEL_ID in row or row.keys() == set(AnswerKey._fields)


def is_sheet(rows: Rows) -> bool:
    """Return whether the rows are those of a label sheet."""
    return any(LABEL_ID in row for row in rows)


def check_has_label_ids(rows: Rows, source: str) -> None:
    """Raise DataError for a label sheet without the column ``label_id``. Without it no row is surely of an answer."""
    if rows and rows[0].keys() >= _SHEET_COLUMNS:
        raise DataError(
            f"{source}: the column {LABEL_ID!r} is gone, by which the rows of `label plan` are known: undo its "
            "deletion, or fill in a new plan"
        )


def labels_of_sheet(rows: Rows, answers: Iterable[LabelTableAnswer], run_id: str) -> list[Annotation]:
    """Read a sheet's labels on a run's answers; rows without a label are left out.

    Raises DataError naming file, line and column of the first wrong rows: one of no answer of the run, one that is
    there twice, or a label that is neither true nor false.
    """
    by_id = {answer.label_id: answer for answer in answers}
    lines: dict[tuple[object, ...], RowLocation] = {}

    def label_of(placed: tuple[RowLocation, Row]) -> Annotation | None:
        place, row = placed
        marks = {name: _mark(row, name) for name in (*LABELS, "adjudicated")}
        if not any(_text(row, name).strip() for name in LABELS):
            return None
        label_id, _, item_digest = _text(row, LABEL_ID).strip().partition("-")
        answer = by_id.get(label_id)
        if answer is None:
            raise DataError(
                f"{place}: {run_id} has no answer {label_id[:40]!r}: the row is another run's, its model left the "
                "manifest, or the answer changed since `label plan` wrote it; import it into its own run, put the "
                "model back, or take the row out"
            )
        texts = {
            "answer": answer.answer,
            "justification": answer.justification,
            NOTE: _text(row, NOTE).strip()[:_LONGEST_NOTE],
            "annotator": _text(row, "annotator").strip(),
            "item_digest": item_digest,
        }
        label = parse_annotation({**row, **answer.key._asdict(), **marks, **texts}, place)
        if (first := lines.setdefault(label.about, place)) is not place:
            raise DataError(f"{place}: answer {label_id!r} is there twice (first in {first})")
        return label

    return [label for label in parse_each(rows.placed(), label_of) if label is not None]


def _mark(row: Mapping[str, JsonValue], name: str) -> bool | str | None:
    word = _text(row, name).strip().lower()
    return WORDS.get(word, word or None)


def _text(row: Mapping[str, JsonValue], name: str) -> str:
    value = row.get(name)
    # lone surrogates, which JSON can carry, cannot be written
    return "" if value is None else without_guard(str(value)).encode("utf-8", "replace").decode()
