"""How far a mean of marks can be trusted: bootstrap over the items, seeded; exact where the bootstrap has no spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from layton_batch.tasks.mcq_idk_rules.metrics import METRICS, Marks

DRAWS = 10_000
_LOWEST, _HIGHEST = (0, -1, 0, 0), (1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Interval:
    """A central interval of a mean, as fractions."""

    lower: float
    upper: float


def intervals(
    counts: Mapping[Marks, int], *, level: float = 0.95, seed: int = 0, draws: int = DRAWS
) -> Mapping[str, Interval]:
    """Percentile bootstrap of every metric's mean. ``counts``: how often each combination of marks occurs.

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
        name: _exact(next(iter(seen)), n, tail, i) if len(seen) == 1 else Interval(*map(float, bounds[:, i]))
        for i, name in enumerate(METRICS)
        for seen in ({kind.values()[i] for kind in kinds if counts[kind]},)
    }


def _exact(value: int, n: int, tail: float, i: int) -> Interval:
    other = 1 - tail ** (1 / n)
    return Interval(value - other * (value - _LOWEST[i]), value + other * (_HIGHEST[i] - value))
