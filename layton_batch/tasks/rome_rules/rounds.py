"""Several rounds of the same questions: mean and sample standard deviation, as the report publishes four of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from layton_batch.errors import DataError
from layton_batch.records import JsonValue


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
    found = {name: [_percent(round_[name], name) for round_ in scores if name in round_] for name in names}
    return {name: Rounds.of(values) for name, values in found.items()}


def _percent(value: JsonValue, name: str) -> float:
    if isinstance(value, list) and len(value) >= 2:
        total, count = value[0], value[1]
        if isinstance(total, int | float) and isinstance(count, int) and count > 0:
            return total / count * 100
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise DataError(f"scores of a round: {name!r} is neither a number nor [sum, count, …]")
