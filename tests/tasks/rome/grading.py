"""Replies graded one by one and row by row, with what the tests look at kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from layton_batch.records import JsonValue
from layton_batch.tasks.offline import FileRow
from layton_batch.tasks.rome import published, reader
from layton_batch.tasks.rome.published import CORRECTED, ORIGINAL, RomeGrade
from tests.tasks import offline_rows
from tests.tasks.offline_rows import form


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
    kept, rome = list[FileRow](), form("rome", protocol)
    frame = offline_rows.graded(rome, questions, answers, kept)
    return Graded(rome.report(frame), kept)
