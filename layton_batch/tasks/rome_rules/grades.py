"""The grade that a rule gives one answer."""

from __future__ import annotations

from dataclasses import dataclass

ORIGINAL, CORRECTED = "original", "corrected"
PROTOCOLS = (CORRECTED, ORIGINAL)
"""The rules there are; the first is the default."""

Score = int | float
"""0 or 1, or what the item says a location is worth. Whole numbers stay ``int``, as in the published files."""


@dataclass(frozen=True, slots=True)
class RomeGrade:
    """``read``: what the rule took for the answer. ``error``: why the rule could not grade; the score is then 0."""

    score: Score
    read: str
    error: str | None = None
