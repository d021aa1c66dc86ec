"""Marks of one reply; over many their means with standard errors and intervals, and what abstaining is worth.

A reply without a readable letter costs as much as a wrong one: idk_score = 2 trad_score - 1 + idk_freq, always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import sqrt

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


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its standard error, as fractions; one observation has no standard error."""

    mean: float
    se: float | None


@dataclass(slots=True)
class McqTally:
    """Running totals of marks: whole numbers, so that means come out the same in any order."""

    n: int = 0
    sums: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    squares: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    outcomes: dict[McqOutcome, int] = field(default_factory=lambda: dict.fromkeys(McqOutcome, 0))

    def add(self, marks: McqGrade) -> None:
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


# ---- how far a mean of marks can be trusted ------------------------------------------------------------------------


DRAWS = 10_000
_LOWEST, _HIGHEST = (0, -1, 0, 0), (1, 1, 1, 1)


def intervals(
    counts: Mapping[McqGrade, int], *, level: float = 0.95, seed: int = 0, draws: int = DRAWS
) -> Mapping[str, tuple[float, float]]:
    """Lower and upper ends of every metric's mean, as fractions, by percentile bootstrap.

    ``counts``: how often each combination of marks occurs.
    Resampling items is drawing these counts from a multinomial law, so that the time does not depend on the number of
    items. Where all items have the same mark, no resample differs and the bootstrap would claim certainty; there the
    exact (Clopper-Pearson) bound is given: the share of other marks that n equal ones do not rule out.
    """
    import numpy as np

    n = sum(counts.values())
    if not n:
        return {}
    kinds = list(counts)
    weights = np.array([counts[kind] for kind in kinds]) / n
    resampled = np.random.default_rng(seed).multinomial(n, weights, size=draws)
    means = resampled @ np.array([kind.values() for kind in kinds]) / n
    tail = (1 - level) / 2
    bounds = np.quantile(means, [tail, 1 - tail], axis=0)
    return {
        name: _exact(next(iter(seen)), n, tail, i) if len(seen) == 1 else (float(bounds[0, i]), float(bounds[1, i]))
        for i, name in enumerate(METRICS)
        for seen in ({kind.values()[i] for kind in kinds if counts[kind]},)
    }


def _exact(value: int, n: int, tail: float, i: int) -> tuple[float, float]:
    other = 1 - tail ** (1 / n)
    return value - other * (value - _LOWEST[i]), value + other * (_HIGHEST[i] - value)


# ---- exact (Clopper-Pearson) bounds of a share ---------------------------------------------------------------------


def share_bounds(count: int, n: int, level: float = 0.95) -> tuple[float, float] | None:
    """Bounds of the share behind ``count`` of ``n``, each wrong with half of 1 - level at most; None for n = 0."""
    if not n:
        return None
    from scipy import special

    tail = (1 - level) / 2
    lower = float(special.betaincinv(count, n - count + 1, tail)) if count else 0.0
    upper = float(special.betaincinv(count + 1, n - count, 1 - tail)) if count < n else 1.0
    return lower, upper


# ---- what abstaining is worth --------------------------------------------------------------------------------------


Bounds = tuple[float, float | None]
"""Lower and upper; no upper bound: None."""


@dataclass(frozen=True, slots=True)
class AbstentionCounts:
    """One model's replies as counts, and what follows from them: fractions, None where nothing can be divided by."""

    correct: int
    wrong: int
    abstained: int
    no_letter: int

    @property
    def n(self) -> int:
        return self.correct + self.wrong + self.abstained + self.no_letter

    @property
    def answered(self) -> int:
        """Replies that commit to an option. An unreadable one neither answers nor abstains."""
        return self.correct + self.wrong

    @property
    def coverage(self) -> float | None:
        """Share of the items the model answers."""
        return self.answered / self.n if self.n else None

    @property
    def accuracy(self) -> float | None:
        """Share of the answers that are right."""
        return self.correct / self.answered if self.answered else None

    @property
    def risk(self) -> float | None:
        """Share of the answers that are wrong."""
        return self.wrong / self.answered if self.answered else None

    @property
    def break_even_penalty(self) -> float | None:
        """The price of a mistake at which the model does no better than abstaining throughout.

        Below 1 exactly where idk_score is negative. Unreadable replies count as mistakes, as they do there. None where
        the model makes no mistake: it gains at any price.
        """
        mistakes = self.wrong + self.no_letter
        return self.correct / mistakes if mistakes else None

    def to_json(self) -> dict[str, float | int | None]:
        return {
            "answered": self.answered,
            "abstained": self.abstained,
            "coverage": self.coverage,
            "accuracy_answered": self.accuracy,
            "risk": self.risk,
            "break_even_penalty": self.break_even_penalty,
        }

    def bounds(self, level: float = 0.95) -> dict[str, Bounds | None]:
        """Exact intervals of the figures by their names in ``to_json``; None where nothing can be divided by.

        Each is Clopper and Pearson's: of the answers among all items, of the right among the answers, and of the right
        among right and mistaken replies, whose odds are the break-even penalty.
        """
        mistakes = self.wrong + self.no_letter
        odds = share_bounds(self.correct, self.correct + mistakes, level)
        return {
            "coverage": share_bounds(self.answered, self.n, level),
            "accuracy_answered": share_bounds(self.correct, self.answered, level),
            "risk": share_bounds(self.wrong, self.answered, level),
            "break_even_penalty": odds and (odds[0] / (1 - odds[0]), odds[1] / (1 - odds[1]) if odds[1] < 1 else None),
        }


def selective(tally: McqTally) -> AbstentionCounts:
    """The abstention-aware view of a tally."""
    counts = tally.outcomes
    return AbstentionCounts(
        counts[McqOutcome.CORRECT], counts[McqOutcome.WRONG], counts[McqOutcome.ABSTAINED], counts[McqOutcome.NO_LETTER]
    )
