"""Replies graded one by one and row by row, with what the tests look at kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from layton_batch.records import JsonValue
from layton_batch.tasks.offline import FileRow
from layton_batch.tasks.rome import published, reader
from layton_batch.tasks.rome.published import CORRECTED, ORIGINAL, RomeGrade
from tests.tasks import offline_rows
from tests.tasks.offline_rows import form


@dataclass
class Kept:
    """Takes graded rows, as a file of them does."""

    rows: list[FileRow] = field(default_factory=list)

    def add(self, row: FileRow) -> None:
        self.rows.append(row)


@dataclass(frozen=True)
class Graded:
    """The published ``scores.json`` and the graded rows."""

    scores: Mapping[str, JsonValue]
    rows: list[FileRow]


def grade_answer(evaluator: str, arguments: FileRow, reply: str, protocol: str = CORRECTED) -> RomeGrade:
    """One reply by one evaluator."""
    return {ORIGINAL: published.grade, CORRECTED: reader.grade}[protocol](evaluator, arguments, reply)


def graded(questions: Iterable[FileRow] | None, answers: Iterable[FileRow], protocol: str = CORRECTED) -> Graded:
    """Predictions by their annotations."""
    kept, rome = Kept(), form("rome", protocol)
    frame = offline_rows.graded(rome, questions, answers, kept)  # type: ignore[arg-type]
    return Graded(rome.report(frame), kept.rows)
