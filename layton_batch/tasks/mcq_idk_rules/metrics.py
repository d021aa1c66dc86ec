"""Marks of one reply, and their means with standard errors over many.

A reply without a readable letter costs as much as a wrong one: idk_score = 2 trad_score - 1 + idk_freq, always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import sqrt

from layton_batch.tasks.mcq_idk_rules.letters import idk_letter

METRICS = ("trad_score", "idk_score", "idk_freq", "extract_fail")
"""In the published order; the first is the one the published table is sorted by."""


class Outcome(StrEnum):
    """What became of one reply; exactly one."""

    CORRECT = "correct"
    WRONG = "wrong"
    ABSTAINED = "abstained"
    NO_LETTER = "no_letter"


@dataclass(frozen=True, slots=True)
class Marks:
    """One reply's marks: right (0, 1), right-or-penalised (-1, 0, 1), abstained (0, 1), unreadable (0, 1)."""

    trad_score: int
    idk_score: int
    idk_freq: int
    extract_fail: int

    @property
    def outcome(self) -> Outcome:
        if self.trad_score:
            return Outcome.CORRECT
        if self.idk_freq:
            return Outcome.ABSTAINED
        return Outcome.NO_LETTER if self.extract_fail else Outcome.WRONG

    def values(self) -> tuple[int, int, int, int]:
        """In the order of METRICS."""
        return self.trad_score, self.idk_score, self.idk_freq, self.extract_fail

    def as_dict(self) -> dict[str, int]:
        return dict(zip(METRICS, self.values(), strict=True))


UNREAD = Marks(0, -1, 0, 1)
_RIGHT, _WRONG, _ABSTAINED = Marks(1, 1, 0, 0), Marks(0, -1, 0, 0), Marks(0, 0, 1, 0)


def mark(letters: Sequence[str], gold: str, n_options: int) -> Marks:
    """Marks of the letters a reply gives; the best of several counts, metric by metric.

    ``gold``: every letter that is right (more than one only where two options have the same text). A letter the item
    has no option for is wrong.
    """
    if not letters:
        return UNREAD
    idk = idk_letter(n_options)
    return best_of([_ABSTAINED if letter == idk else _RIGHT if letter in gold else _WRONG for letter in letters])


def best_of(marks: Sequence[Marks]) -> Marks:
    """The best per metric of several letters, or of several replies to one item; unreadable only if all are."""
    if len(marks) == 1:
        return marks[0]
    columns = tuple(zip(*(one.values() for one in marks), strict=True)) or ((0,), (-1,), (0,), (1,))
    return Marks(max(columns[0]), max(columns[1]), max(columns[2]), min(columns[3]))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its standard error, as fractions; one observation has no standard error."""

    mean: float
    se: float | None


@dataclass(slots=True)
class Tally:
    """Running totals of marks: whole numbers, so that means come out the same in any order."""

    n: int = 0
    sums: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    squares: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    outcomes: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))

    def add(self, marks: Marks) -> None:
        self.n += 1
        self.outcomes[marks.outcome] += 1
        for i, value in enumerate(marks.values()):
            self.sums[i] += value
            self.squares[i] += value * value

    def estimates(self) -> Mapping[str, Estimate]:
        """Mean and standard error by metric; the error is the sample's (n - 1), as lighteval reports it."""
        if not self.n:
            return {}
        return {name: self._estimate(i) for i, name in enumerate(METRICS)}

    def _estimate(self, i: int) -> Estimate:
        n, total = self.n, self.sums[i]
        if n == 1:
            return Estimate(float(total), None)
        variance = (n * self.squares[i] - total * total) / (n * (n - 1))
        return Estimate(total / n, sqrt(variance / n))
