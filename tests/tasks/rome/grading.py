"""Replies graded one by one and row by row, with what the tests look at kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from layton_batch.records import JsonValue
from layton_batch.tasks.rome_rules.mark import CORRECTED, Mark
from layton_batch.tasks.rome_rules.offline import Row, grade_rows, grader


@dataclass(frozen=True)
class Graded:
    """The published ``scores.json`` and the graded rows."""

    scores: Mapping[str, JsonValue]
    rows: list[Row]


def grade_answer(evaluator: str, arguments: Row, reply: str, protocol: str = CORRECTED) -> Mark:
    """One reply by one evaluator."""
    return grader(protocol)(evaluator, arguments, reply)


def graded(questions: Iterable[Row] | None, answers: Iterable[Row], protocol: str = CORRECTED) -> Graded:
    """Predictions by their annotations."""
    rows: list[Row] = []
    return Graded(grade_rows(questions, answers, protocol, sink=rows.append), rows)
