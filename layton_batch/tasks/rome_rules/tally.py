"""Scores summed by the questions' task, in the form of the published ``scores.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from layton_batch.records import JsonValue
from layton_batch.tasks.rome_rules.mark import ORIGINAL, Score

ALL = "all"
"""The bucket of questions that lack the field."""
_TOTALS = ("final_score", "accuracy")


@dataclass(slots=True)
class Bucket:
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
class Tally:
    """Sums over predictions by their question's ``task``."""

    buckets: dict[str, Bucket] = field(default_factory=dict)

    def add(self, row: Mapping[str, JsonValue], score: Score) -> None:
        """Count one prediction; ``row`` has the fields of its question."""
        self.buckets.setdefault(_name(row.get("task")), Bucket()).add(score)

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
