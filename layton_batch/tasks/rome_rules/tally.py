"""Scores summed by a field of the questions, in the form of the published ``scores.json``."""

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
    """Sum and count, and the same of every sub-bucket in first-seen order."""

    total: Score = 0
    count: int = 0
    parts: dict[str, Bucket] = field(default_factory=dict)

    def add(self, score: Score) -> None:
        self.total += score
        self.count += 1

    def row(self) -> list[JsonValue]:
        """``[sum, count, sum / count]``, the share a fraction of 3 decimals."""
        return [self.total, self.count, round(self.total / self.count, 3)]


@dataclass(slots=True)
class Tally:
    """Sums over predictions. ``tracker_subtype`` None: every bucket has one part, named as it is."""

    tracker_type: str = "task"
    tracker_subtype: str | None = None
    buckets: dict[str, Bucket] = field(default_factory=dict)

    def add(self, row: Mapping[str, JsonValue], score: Score) -> None:
        """Count one prediction; ``row`` has the fields of its question."""
        name = _name(row.get(self.tracker_type))
        part = name if self.tracker_subtype is None else _name(row.get(self.tracker_subtype))
        bucket = self.buckets.setdefault(name, Bucket())
        bucket.add(score)
        bucket.parts.setdefault(part, Bucket()).add(score)

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
        """The published form. A bucket called like a total replaces it in the original, and gets a suffix otherwise."""
        scores: dict[str, JsonValue] = {"final_score": [self.total, self.count], "accuracy": self.accuracy}
        for name, bucket in self.buckets.items():
            parts: dict[str, JsonValue] = {part: inner.row() for part, inner in bucket.parts.items()}
            shown = f"{name} ({self.tracker_type})" if name in _TOTALS and protocol != ORIGINAL else name
            scores[shown] = [*bucket.row(), parts]
        return scores


def _name(value: JsonValue) -> str:
    """A bucket's name as JSON shows it; nothing, "" and 0 go to the bucket of all."""
    if not value:
        return ALL
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
