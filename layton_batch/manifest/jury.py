"""Judges of each model, and what a metric counts of a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.records import Judge, ModelSpec

METRIC_FIELDS = {
    "both_correct": "both_correct",
    "answer_correct": "is_answer_correct",
    "justification_correct": "is_justification_correct",
}
"""A jury metric and the field of a verdict that it counts."""


def seat_jury(panel: Sequence[Judge], model: ModelSpec, seats: int) -> tuple[Judge, ...]:
    """Return the judges of this model's jury: regulars, then substitutes, each in the panel's order.

    A judge of the model's own family is out; substitutes sit only where fewer regulars than ``seats`` are left. Fewer
    judges than seats are returned where the panel has no more.
    """
    impartial = [judge for judge in panel if judge.model.family.casefold() != model.family.casefold()]
    regulars = [judge for judge in impartial if not judge.substitute]
    substitutes = [judge for judge in impartial if judge.substitute]
    return tuple((regulars + substitutes)[:seats])
