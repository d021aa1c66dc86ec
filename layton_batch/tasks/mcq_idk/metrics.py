"""Marks of one reply.

A reply without a readable letter costs as much as a wrong one: idk_score = 2 trad_score - 1 + idk_freq, always.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

METRICS = ("trad_score", "idk_score", "idk_freq", "extract_fail")
"""In the published order; the first is the one the published table is sorted by."""
Marks = Mapping[str, float]
"""One reply's marks: right (0, 1), right-or-penalised (-1, 0, 1), abstained (0, 1), unreadable (0, 1)."""


def _marks(*values: float) -> Marks:
    return MappingProxyType(dict(zip(METRICS, values, strict=True)))


CORRECT, WRONG, ABSTAINED, NO_LETTER = "correct", "wrong", "abstained", "no_letter"
MARKS: Mapping[str, Marks] = {
    CORRECT: _marks(1.0, 1.0, 0.0, 0.0),
    WRONG: _marks(0.0, -1.0, 0.0, 0.0),
    ABSTAINED: _marks(0.0, 0.0, 1.0, 0.0),
    NO_LETTER: _marks(0.0, -1.0, 0.0, 1.0),
}
"""Marks by the outcome of a reply; each reply has exactly one."""


def outcome_of(letter: str | None, gold: str, idk_letter: str) -> str:
    """Return the outcome of the letter a reply gives; None: it could not be read.

    ``gold``: every letter that is right (more than one only where two options have the same text). A letter the item
    has no option for is wrong.
    """
    if letter is None:
        return NO_LETTER
    return ABSTAINED if letter == idk_letter else CORRECT if letter in gold else WRONG
