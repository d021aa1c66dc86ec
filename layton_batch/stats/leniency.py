"""Does a judge favour its own family? Leniency by family judged, and self-preference where the data can show it.

Where a jury never sits on its own family's answers, self-preference is *not identifiable*: no arithmetic on the other
verdicts can tell it from anything else. The functions say so instead of estimating. Verdicts [R, J]: 1, 0, -1 for none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.strata import BoolArray, FloatArray, Ints

UNIDENTIFIABLE = "not identifiable: no verdict of this judge on its own family's answers"


@dataclass(frozen=True, slots=True)
class Leniency:
    """How much kinder a judge is to a group than the yardstick: `mean`, `standard_error` (fractions) over `count`."""

    judge: int
    group: int
    count: int
    mean: float
    standard_error: float | None


@dataclass(frozen=True, slots=True)
class PreferenceEstimate:
    """Extra leniency of a judge towards its own family. `against`: what verdicts are measured by, people or the
    other judges.

    None and a `reason` where the data cannot tell; `own` and `other` count the verdicts compared.
    """

    judge: int
    against: str
    estimate: float | None
    standard_error: float | None
    own: int
    other: int
    reason: str | None


def leniency_by_group(verdicts: Ints, human: Ints, group: Ints) -> tuple[Leniency, ...]:
    """Verdict minus label, for every judge and group ([R] family of the answer) with labelled verdicts."""
    yardstick = np.where(human >= 0, human, np.nan).astype(np.float64)
    return _table(verdicts, np.repeat(yardstick[:, None], verdicts.shape[1], axis=1), group)


def self_preference(
    verdicts: Ints, human: Ints, judge_family: Ints, family: Ints, item: Ints, *, seed: int = 0, draws: int = 2000
) -> tuple[PreferenceEstimate, ...]:
    """Two estimates a judge: against people's labels, and, without labels, against the other judges (difference of
    differences).

    The mean of verdict minus yardstick on the judge's own family less that on others; its standard error is a
    bootstrap over items, since answers to one item stand or fall together. `judge_family` [J], `family` and
    `item` [R].
    """
    yardsticks = {
        "people": np.repeat(np.where(human >= 0, human, np.nan)[:, None], verdicts.shape[1], axis=1),
        "other judges": _other_judges(verdicts),
    }
    rng = np.random.default_rng(seed)
    rows = []
    for judge in range(verdicts.shape[1]):
        for against, yardstick in yardsticks.items():
            usable = (verdicts[:, judge] >= 0) & np.isfinite(yardstick[:, judge])
            gap = verdicts[usable, judge] - yardstick[usable, judge]
            own = np.asarray(family[usable] == judge_family[judge])
            rows.append(_self_preference(judge, against, gap, own, item[usable], rng, draws))
    return tuple(rows)


def _self_preference(
    judge: int, against: str, gap: FloatArray, own: BoolArray, item: Ints, rng: np.random.Generator, draws: int
) -> PreferenceEstimate:
    ours, others = int(own.sum()), int((~own).sum())
    if ours == 0 or others == 0:
        reason = UNIDENTIFIABLE if ours == 0 else "no verdict of this judge on other families' answers"
        return PreferenceEstimate(judge, against, None, None, ours, others, reason)
    estimate = float(gap[own].mean() - gap[~own].mean())
    _, index = np.unique(item, return_inverse=True)
    count = int(index.max()) + 1
    sums = np.stack([np.bincount(index, w, count) for w in (gap * own, own * 1.0, gap * ~own, ~own * 1.0)])
    weights = rng.multinomial(count, np.full(count, 1 / count), draws)
    drawn = weights @ sums.T
    kept = drawn[(drawn[:, 1] > 0) & (drawn[:, 3] > 0)]
    spread = kept[:, 0] / kept[:, 1] - kept[:, 2] / kept[:, 3]
    error = float(spread.std(ddof=1)) if len(spread) > 1 and count > 1 else None
    return PreferenceEstimate(judge, against, estimate, error, ours, others, None)


def _other_judges(verdicts: Ints) -> FloatArray:
    given = verdicts >= 0
    votes = np.where(given, verdicts, 0)
    others = given.sum(axis=1, keepdims=True) - given
    total = votes.sum(axis=1, keepdims=True) - votes
    return np.where(given & (others > 0), total / np.maximum(others, 1), np.nan)


def _table(verdicts: Ints, yardstick: FloatArray, group: Ints) -> tuple[Leniency, ...]:
    rows = []
    for judge in range(verdicts.shape[1]):
        usable = (verdicts[:, judge] >= 0) & np.isfinite(yardstick[:, judge])
        gap = verdicts[usable, judge] - yardstick[usable, judge]
        for g in np.unique(group[usable]).tolist():
            part = gap[group[usable] == g]
            error = float(part.std(ddof=1) / len(part) ** 0.5) if len(part) > 1 else None
            rows.append(Leniency(judge, g, len(part), float(part.mean()), error))
    return tuple(rows)
