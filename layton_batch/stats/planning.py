"""Which items of which model to label next.

After x more own labels in a bin with u unlabelled items and a rate Beta(a, b), S = a + b, the expected posterior
variance of the count is exactly E[p(1-p)] (u - x) (S + u) / (S + x). It is convex in x, so taking the label of
greatest gain again and again is optimal (Neyman's allocation with the labels at hand as a sunk sample). In practice:
contested items first. Within a bin the rows are drawn at random: labels are taken to be missing at random inside a
bin. Plans are of a posterior.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from layton_batch.stats.distributions import two_sided_quantile
from layton_batch.stats.posterior import Posterior
from layton_batch.stats.strata import FloatArray, IntArray, Strata, TargetPredictions


@dataclass(frozen=True, slots=True, eq=False)
class LabelPlan:
    """Own labels to add to one model, `labels` [B] by bin."""

    model: int
    labels: IntArray

    @property
    def count(self) -> int:
        return int(self.labels.sum())


AS_SHORT = 1.05
"""An interval counts as being as short as labels can make it where it is at most so many times as long as that."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreVariance:
    """Variance [K] of each model's score where that on these items is known: `fixed` + `scale` times it. Labels take
    away the second part alone; the items themselves leave the first one open."""

    fixed: FloatArray
    scale: FloatArray

    @classmethod
    def on_these_items(cls, models: int) -> ScoreVariance:
        """Return the spread of scores on these items, which labels on all of them leave nothing of."""
        return cls(np.zeros(models), np.ones(models))

    @classmethod
    def between(cls, now: FloatArray, least: FloatArray, here: FloatArray) -> ScoreVariance:
        """Return the spread of scores whose variance [K] is `now`, with `here` on these items, and would be `least` if
        every answer had a label."""
        fixed = np.minimum(least, now)
        return cls(fixed, (now - fixed) / np.maximum(here, 1e-12))

    def variance(self, here: FloatArray) -> FloatArray:
        """[K] of the variances `here`, on these items."""
        return np.asarray(self.fixed + self.scale * np.maximum(here, 0.0))

    def least_half_widths(self, level: float) -> FloatArray:
        """[K] half widths (fractions) that no number of labels makes shorter."""
        return np.asarray(two_sided_quantile(level) * np.sqrt(self.fixed))

    def goals(self, half_width: float, level: float) -> FloatArray:
        """[K] the half width (fraction); where no label reaches it, the one that counts as short as labels can give."""
        return np.maximum(half_width, AS_SHORT * self.least_half_widths(level))


def expected_variance(strata: Strata, post: Posterior, extra: IntArray | None = None) -> FloatArray:
    """[K] expected posterior variance of the score on these items after `extra` [K, B] more own labels."""
    a, b, u = post.alpha, post.beta, post.unlabelled
    x = np.zeros_like(u) if extra is None else extra
    size = a + b
    variance = a * b / (size * (size + 1)) * (u - x) * (size + u) / (size + x)
    return np.asarray(variance.sum(axis=1) / np.maximum(strata.items, 1) ** 2)


def plan_labels(
    strata: Strata,
    model: int,
    half_width: float,
    *,
    level: float = 0.95,
    post: Posterior,
    spread: ScoreVariance | None = None,
) -> LabelPlan:
    """The fewest labels of `model` whose expected half width at `level` (normal approximation) is at most `half_width`.

    Where no number of labels is enough, the fewest with which it is as short as labels can make it (`AS_SHORT`).
    `spread`: of scores on these items, unless it is given. Raises ValueError for a negative half width.
    """
    if not half_width >= 0:
        raise ValueError(f"the target half width must be 0 or more, not {half_width!r}")
    spread = spread or ScoreVariance.on_these_items(len(strata.items))
    path = _Path.of(strata, post, model, level, spread)
    return path.plan(_first_within(path.half_widths, float(spread.goals(half_width, level)[model])))


def plan_budget(
    strata: Strata,
    labels: int,
    models: Sequence[int],
    *,
    level: float = 0.95,
    post: Posterior,
    spread: ScoreVariance | None = None,
) -> tuple[LabelPlan, ...]:
    """`labels` in all over `models`: each next one goes to the model whose expected interval is the widest by then.

    So the widest interval becomes as short as that many labels allow. The model in most need of labels comes first;
    fewer labels are used where every item is labelled before. Raises ValueError for a negative number.
    """
    if labels < 0:
        raise ValueError(f"the number of labels must be 0 or more, not {labels}")
    spread = spread or ScoreVariance.on_these_items(len(strata.items))
    paths = [_Path.of(strata, post, m, level, spread) for m in models if strata.items[m] > 0]
    counts = [0] * len(paths)
    heap = [(-float(path.half_widths[0]), at) for at, path in enumerate(paths)]
    heapq.heapify(heap)
    for _ in range(labels):
        while heap and counts[heap[0][1]] + 1 >= len(paths[heap[0][1]].half_widths):
            heapq.heappop(heap)  # all of this model's items are labelled
        if not heap:
            break
        at = heap[0][1]
        counts[at] += 1
        heapq.heapreplace(heap, (-float(paths[at].half_widths[counts[at]]), at))
    plans = [path.plan(n) for path, n in zip(paths, counts, strict=True)]
    return tuple(sorted(plans, key=lambda p: (-p.count, p.model)))


def rows_to_label(
    strata: Strata, target: TargetPredictions, plan: LabelPlan, *, seed: int = 0, post: Posterior
) -> IntArray:
    """Target rows to label for `plan`: at random within each bin, the bins of the least certain outcomes first."""
    rng = np.random.default_rng([seed, plan.model])  # models are drawn from apart, as if each by itself
    size = post.alpha[plan.model] + post.beta[plan.model]
    worth = post.alpha[plan.model] * post.beta[plan.model] / (size * (size + 1))
    picked = [np.zeros(0, dtype=np.int64)]
    for b in np.argsort(-worth, kind="stable"):
        rows = np.flatnonzero((target.model == plan.model) & (strata.row_bin == b) & (strata.row_label < 0))
        picked.append(np.sort(rng.permutation(rows)[: plan.labels[b]]))
    return np.concatenate(picked)


def balanced_rows(strata: Strata, target: TargetPredictions, size: int, *, seed: int = 0) -> IntArray:
    """The alternative without regard to votes: `size` unlabelled rows spread evenly over providers, models and items.

    Each next row is of the provider least drawn so far, of its model least drawn, on the item least drawn; ties at
    random. Fewer rows come back where fewer are unlabelled. Known zeros need no label and are never drawn.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero((strata.row_bin >= 0) & (strata.row_label < 0)))
    provider = target.provider[target.model[rows]]
    names, item = np.unique(target.item[rows], return_inverse=True)
    drawn = [np.zeros(int(provider.max(initial=0)) + 1), np.zeros(len(target.provider)), np.zeros(len(names))]
    keys = [provider, target.model[rows], item]
    free = np.ones(len(rows), dtype=np.bool_)
    picked = []
    for _ in range(min(size, len(rows))):
        best = np.flatnonzero(free)
        for counts, key in zip(drawn, keys, strict=True):
            load = counts[key[best]]
            best = best[load == load.min()]
        chosen = best[0]
        free[chosen] = False
        picked.append(rows[chosen])
        for counts, key in zip(drawn, keys, strict=True):
            counts[key[chosen]] += 1
    return np.array(picked, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Path:
    """The best labels of one model one after the other: `bins` [N], and the expected `half_widths` [N + 1] (fractions)
    after 0..N of them."""

    model: int
    bins: IntArray
    half_widths: FloatArray
    width: int

    @classmethod
    def of(cls, strata: Strata, post: Posterior, model: int, level: float, spread: ScoreVariance) -> _Path:
        bins, gains = _gains(post, model)
        taken = np.concatenate([np.zeros(1), np.cumsum(gains)]) / max(int(strata.items[model]), 1) ** 2
        here = np.maximum(float(expected_variance(strata, post)[model]) - taken, 0.0)
        variance = spread.fixed[model] + spread.scale[model] * here
        return cls(model, bins, two_sided_quantile(level) * np.sqrt(variance), len(strata.bin_yes))

    def plan(self, count: int) -> LabelPlan:
        return LabelPlan(self.model, np.bincount(self.bins[:count], minlength=self.width))


def _gains(post: Posterior, model: int) -> tuple[IntArray, FloatArray]:
    """Bin and gain (variance of the count) of every possible label of a model, best first."""
    bins, gains = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for b in np.flatnonzero(post.unlabelled[model]).tolist():
        a, c, u = float(post.alpha[model, b]), float(post.beta[model, b]), int(post.unlabelled[model, b])
        size, x = a + c, np.arange(u + 1)
        gains.append(-np.diff(a * c / (size * (size + 1)) * (u - x) * (size + u) / (size + x)))
        bins.append(np.full(u, b))
    order = np.argsort(-np.concatenate(gains), kind="stable")
    return np.concatenate(bins)[order], np.concatenate(gains)[order]


def _first_within(falling: FloatArray, goal: float) -> int:
    """Index of the first entry of a falling sequence that is within the goal; the last one is, up to rounding."""
    within = falling <= goal + 1e-12
    within[-1] = True
    return int(np.argmax(within))
