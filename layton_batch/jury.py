"""Who judges whom, and how many of them said yes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from layton_batch.records import Judge, ModelSpec, Verdict

METRIC_FIELDS = {
    "both_correct": "both_correct",
    "answer_correct": "is_answer_correct",
    "justification_correct": "is_justification_correct",
}
"""A jury metric and the field of a verdict that it counts."""


class Vote(NamedTuple):
    """``yes`` of the ``total`` verdicts that could be read; ``flagged`` counts the empty or unreadable seats.

    ``total == 0`` means unjudged. A vote stays two integers: fractions of them do not compare exactly.
    """

    yes: int
    total: int
    flagged: int


def seat_jury(panel: Sequence[Judge], model: ModelSpec, seats: int) -> tuple[Judge, ...]:
    """The judges who sit for this model, in the panel's order within regulars and then substitutes.

    A judge of the model's own family is out; substitutes sit only where fewer regulars than ``seats`` are left. Fewer
    judges than seats are returned where the panel has no more.
    """
    impartial = [judge for judge in panel if judge.model.family.casefold() != model.family.casefold()]
    regulars = [judge for judge in impartial if not judge.substitute]
    substitutes = [judge for judge in impartial if judge.substitute]
    return tuple((regulars + substitutes)[:seats])


def vote(verdicts: Sequence[Verdict], metric: str, seats: int | None = None) -> Vote:
    """The verdicts counted; ones without a value are left out and flagged.

    ``seats``: how many judges were to sit, where a judge may have left no verdict at all.
    """
    values = [getattr(verdict, METRIC_FIELDS[metric]) for verdict in verdicts]
    read = [value for value in values if value is not None]
    return Vote(sum(read), len(read), max(seats or 0, len(values)) - len(read))
