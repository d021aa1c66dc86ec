"""What a rule says about one answer; its scores summed over a file; and their mean and sample standard deviation over
rounds of the same questions, as the report publishes four of them.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from layton_batch.errors import DataError
from layton_batch.records import JsonValue

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


# ---- summed by the questions' task, in the form of the published scores.json ---------------------------------------


ALL = "all"
"""The bucket of questions that lack the field."""
_TOTALS = ("final_score", "accuracy")


@dataclass(slots=True)
class GradeSum:
    """Sum and count."""

    total: Score = 0
    count: int = 0

    def add(self, score: Score) -> None:
        self.total += score
        self.count += 1

    def row(self) -> list[JsonValue]:
        """``[sum, count, sum / count]``, the share a fraction of 3 decimals."""
        return [self.total, self.count, round(self.total / self.count, 3)]


@dataclass(slots=True)
class RomeTally:
    """Sums over predictions by their question's ``task``."""

    buckets: dict[str, GradeSum] = field(default_factory=dict)

    def add(self, row: Mapping[str, JsonValue], score: Score) -> None:
        """Count one prediction; ``row`` has the fields of its question."""
        self.buckets.setdefault(_name(row.get("task")), GradeSum()).add(score)

    @property
    def count(self) -> int:
        return sum(bucket.count for bucket in self.buckets.values())

    @property
    def total(self) -> Score:
        """Added bucket by bucket from the left, as published: the last digit of a float depends on it."""
        total: Score = 0
        for bucket in self.buckets.values():
            total += bucket.total
        return total

    @property
    def accuracy(self) -> float:
        """In percent, 3 decimals; 0 where nothing was counted."""
        return round(self.total / self.count * 100, 3) if self.count else 0.0

    def to_json(self, protocol: str) -> dict[str, JsonValue]:
        """The published form: each bucket has one part, itself.

        A bucket called like a total replaces it in the original, and gets a suffix otherwise.
        """
        scores: dict[str, JsonValue] = {"final_score": [self.total, self.count], "accuracy": self.accuracy}
        for name, bucket in self.buckets.items():
            shown = f"{name} (task)" if name in _TOTALS and protocol != ORIGINAL else name
            scores[shown] = [*bucket.row(), {name: bucket.row()}]
        return scores


def _name(value: JsonValue) -> str:
    """A bucket's name as JSON shows it; nothing, "" and 0 go to the bucket of all."""
    if not value:
        return ALL
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# ---- several rounds of the same questions --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rounds:
    """``std`` divides by n - 1; it is None for a single round."""

    values: tuple[float, ...]
    mean: float
    std: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Rounds:
        """Raises DataError for no values."""
        if not values:
            raise DataError("there are no rounds to average")
        std = statistics.stdev(values) if len(values) > 1 else None
        return cls(tuple(values), statistics.fmean(values), std)

    def shown(self, decimals: int = 2) -> str:
        """``mean ± std``, the mean alone for a single round."""
        mean = f"{self.mean:.{decimals}f}"
        return mean if self.std is None else f"{mean} ± {self.std:.{decimals}f}"


def over_rounds(scores: Sequence[Mapping[str, JsonValue]]) -> dict[str, Rounds]:
    """Accuracies in percent over rounds, each given as ``scores.json``: ``accuracy`` and every bucket, as first seen.

    A bucket that a round lacks is averaged over those that have it. Raises DataError where a round is in another form.
    """
    names = dict.fromkeys(name for round_ in scores for name in round_ if name != "final_score")
    percents = {name: [_percent(round_[name], name) for round_ in scores if name in round_] for name in names}
    return {name: Rounds.of(values) for name, values in percents.items()}


def _percent(value: JsonValue, name: str) -> float:
    if isinstance(value, list) and len(value) >= 2:
        total, count = value[0], value[1]
        if isinstance(total, int | float) and isinstance(count, int) and count > 0:
            return total / count * 100
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise DataError(f"scores of a round: {name!r} is neither a number nor [sum, count, …]")
