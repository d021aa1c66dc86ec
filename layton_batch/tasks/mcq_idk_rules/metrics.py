"""Marks of one reply, and the best of several replies to one item.

A reply without a readable letter costs as much as a wrong one: idk_score = 2 trad_score - 1 + idk_freq, always.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from layton_batch.tasks.mcq_idk_rules.mcq_items import idk_letter

METRICS = ("trad_score", "idk_score", "idk_freq", "extract_fail")
"""In the published order; the first is the one the published table is sorted by."""


class McqOutcome(StrEnum):
    """Outcome of one reply; each reply has exactly one."""

    CORRECT = "correct"
    WRONG = "wrong"
    ABSTAINED = "abstained"
    NO_LETTER = "no_letter"


@dataclass(frozen=True, slots=True)
class McqGrade:
    """One reply's marks: right (0, 1), right-or-penalised (-1, 0, 1), abstained (0, 1), unreadable (0, 1)."""

    trad_score: int
    idk_score: int
    idk_freq: int
    extract_fail: int

    @property
    def outcome(self) -> McqOutcome:
        if self.trad_score:
            return McqOutcome.CORRECT
        if self.idk_freq:
            return McqOutcome.ABSTAINED
        return McqOutcome.NO_LETTER if self.extract_fail else McqOutcome.WRONG

    def values(self) -> tuple[int, int, int, int]:
        """In the order of METRICS."""
        return self.trad_score, self.idk_score, self.idk_freq, self.extract_fail

    def as_dict(self) -> dict[str, int]:
        return dict(zip(METRICS, self.values(), strict=True))


_RIGHT, _WRONG, _ABSTAINED, UNREAD = (
    McqGrade(1, 1, 0, 0),
    McqGrade(0, -1, 0, 0),
    McqGrade(0, 0, 1, 0),
    McqGrade(0, -1, 0, 1),
)


def mark(letter: str | None, gold: str, n_options: int) -> McqGrade:
    """Marks of the letter a reply gives; None: it could not be read.

    ``gold``: every letter that is right (more than one only where two options have the same text). A letter the item
    has no option for is wrong.
    """
    if letter is None:
        return UNREAD
    return _ABSTAINED if letter == idk_letter(n_options) else _RIGHT if letter in gold else _WRONG


def best_of(marks: Sequence[McqGrade]) -> McqGrade:
    """The best per metric of several replies to one item; unreadable only if all are."""
    if len(marks) == 1:
        return marks[0]
    columns = tuple(zip(*(mark.values() for mark in marks), strict=True)) or ((0,), (-1,), (0,), (1,))
    return McqGrade(max(columns[0]), max(columns[1]), max(columns[2]), min(columns[3]))
