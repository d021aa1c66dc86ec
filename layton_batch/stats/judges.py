"""How good the judges are: each against people, the jury as a whole, what it gets wrong, and whom it favours.

Verdicts are [R, J] with 1 yes, 0 no, -1 not asked or not answered; people's labels [R] with -1 for none. Fractions
throughout; leniency is verdict minus label, so +0.02 is two points too kind.

Where a jury never sits on its own family's answers, self-preference is *not identifiable*: no arithmetic on the other
verdicts can tell it from anything else. ``self_preference`` says so instead of estimating.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from layton_batch.stats.distributions import beta_interval, two_sided_t_quantile
from layton_batch.stats.raters import cohen_kappa
from layton_batch.stats.strata import BoolArray, FloatArray, IntArray, Ints


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """One judge against people on `labels` items: the four counts, accuracy with Jeffreys' interval, Cohen's kappa.

    None where a quantity is undefined: no labels at all, or none of one kind for a sensitivity or specificity.
    """

    judge: int
    labels: int
    true_positives: int
    true_negatives: int
    false_positives: int
    false_negatives: int
    accuracy: float | None
    lower: float | None
    upper: float | None
    kappa: float | None
    sensitivity: float | None
    specificity: float | None
    leniency: float | None


@dataclass(frozen=True, slots=True)
class JuryReport:
    """The jury's vote against people: majority accuracy and kappa, mean vote and label, and how well the vote
    calibrates.

    `bias` is mean vote minus mean label; `calibration_error` the label-weighted mean distance of a bin's rate from
    its vote. A majority is more than half; an even split is no majority and counts as no.
    """

    labels: int
    majority_accuracy: float | None
    majority_kappa: float | None
    mean_vote: float | None
    mean_label: float | None
    bias: float | None
    brier: float | None
    auc: float | None
    r_squared: float | None
    calibration_error: float | None


@dataclass(frozen=True, slots=True)
class BinCalibration:
    """Labels and positives among items of one vote by seats, the rate and Jeffreys' interval for it."""

    yes: int
    total: int
    labels: int
    positives: int
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class JuryError:
    """A labelled row whose majority differs from the label; `contested` when the jury was split."""

    row: int
    yes: int
    total: int
    label: int
    contested: bool


def jeffreys_interval(positives: Ints, labels: Ints, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Jeffreys' interval for rates; its end is 0 or 1 where nothing or everything is positive; no labels: [0, 1]."""
    a: FloatArray = positives.astype(np.float64) + 0.5
    b: FloatArray = (labels - positives).astype(np.float64) + 0.5
    lower, upper = beta_interval(level, a, b)
    return np.where(positives == 0, 0.0, lower), np.where(positives == labels, 1.0, upper)


def judge_reports(verdicts: Ints, human: Ints, *, level: float = 0.95) -> tuple[JudgeReport, ...]:
    """One report a judge, from its labelled verdicts."""
    reports = []
    for judge in range(verdicts.shape[1]):
        both = (verdicts[:, judge] >= 0) & (human >= 0)
        reports.append(_judge_report(judge, verdicts[both, judge], human[both], level))
    return tuple(reports)


def _judge_report(judge: int, verdict: Ints, label: Ints, level: float) -> JudgeReport:
    yes, no = verdict == 1, verdict == 0
    tp, fp = int((yes & (label == 1)).sum()), int((yes & (label == 0)).sum())
    fn, tn = int((no & (label == 1)).sum()), int((no & (label == 0)).sum())
    count = len(label)
    lower, upper = jeffreys_interval(np.array([tp + tn]), np.array([count]), level)
    return JudgeReport(
        judge=judge,
        labels=count,
        true_positives=tp,
        true_negatives=tn,
        false_positives=fp,
        false_negatives=fn,
        accuracy=_ratio(tp + tn, count),
        lower=float(lower[0]) if count else None,
        upper=float(upper[0]) if count else None,
        kappa=cohen_kappa(verdict, label),
        sensitivity=_ratio(tp, tp + fn),
        specificity=_ratio(tn, tn + fp),
        leniency=_ratio(fp - fn, count),
    )


def _ratio(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def jury_report(yes: Ints, total: Ints, human: Ints) -> JuryReport:
    """The vote yes/total of [R] rows against people; rows without a label or a verdict are left out."""
    rows = (human >= 0) & (total > 0)
    label = human[rows].astype(np.float64)
    vote = yes[rows] / total[rows]
    if len(label) == 0:
        return JuryReport(0, *[None] * 9)
    majority = (2 * yes[rows].astype(np.int64) > total[rows]).astype(np.int64)
    error = sum(abs(b.positives - b.labels * b.yes / b.total) for b in calibration(yes, total, human) if b.total)
    return JuryReport(
        labels=len(label),
        majority_accuracy=float((majority == label).mean()),
        majority_kappa=cohen_kappa(majority, human[rows]),
        mean_vote=float(vote.mean()),
        mean_label=float(label.mean()),
        bias=float((vote - label).mean()),
        brier=float(((vote - label) ** 2).mean()),
        auc=_auc(vote, label),
        r_squared=_r_squared(vote, label),
        calibration_error=error / len(label),
    )


def _auc(vote: FloatArray, label: FloatArray) -> float | None:
    """Chance that a positive has a higher vote than a negative, ties counted half."""
    positive, negative = np.sort(vote[label == 1]), np.sort(vote[label == 0])
    if len(positive) == 0 or len(negative) == 0:
        return None
    below = np.searchsorted(negative, positive, side="left").sum()
    equal = np.searchsorted(negative, positive, side="right").sum() - below
    return float((below + equal / 2) / (len(positive) * len(negative)))


def _r_squared(vote: FloatArray, label: FloatArray) -> float | None:
    v, y = vote - vote.mean(), label - label.mean()
    spread = float((v @ v) * (y @ y))
    return float(v @ y) ** 2 / spread if spread > 0 else None


def calibration(yes: Ints, total: Ints, human: Ints, *, level: float = 0.95) -> tuple[BinCalibration, ...]:
    """Rate of positive labels in every vote by seats that has one, by rising vote and then by seats: one judge's yes is
    not three judges'. (0, 0), no verdict, comes last."""
    rows = human >= 0
    pairs = np.stack([yes[rows], total[rows]], axis=1).astype(np.int64)
    keys, index = np.unique(pairs, axis=0, return_inverse=True)
    labels = np.bincount(index.ravel(), minlength=len(keys))
    positives = np.bincount(index.ravel(), human[rows], len(keys)).astype(np.int64)
    lower, upper = jeffreys_interval(positives, labels, level)
    bins = [
        BinCalibration(int(k[0]), int(k[1]), int(labels[i]), int(positives[i]), float(lower[i]), float(upper[i]))
        for i, k in enumerate(keys)
    ]
    return tuple(sorted(bins, key=lambda b: (b.yes / b.total if b.total else 2.0, b.total)))


def jury_errors(yes: Ints, total: Ints, human: Ints) -> tuple[JuryError, ...]:
    """Every labelled row the majority gets wrong, the unanimous ones (the worrying kind) first."""
    majority = 2 * yes.astype(np.int64) > total
    wrong = np.flatnonzero((human >= 0) & (total > 0) & (majority != (human == 1)))
    errors = [JuryError(int(r), int(yes[r]), int(total[r]), int(human[r]), bool(0 < yes[r] < total[r])) for r in wrong]
    return tuple(sorted(errors, key=lambda e: (e.contested, e.row)))


def effective_sizes(
    score: FloatArray, variance: FloatArray, new_variance: FloatArray, items: IntArray
) -> tuple[FloatArray, FloatArray]:
    """[K] how many simple random labels of the model would be worth as much: on these items, and for new ones.

    From the posterior mean and variance on these items and the variance for new ones. A simple random sample of x of
    n items has variance score (1 - score) (n - x) / (x (n - 1)). Divide by the own labels for the gain over using
    labels alone. Where the score is 0 or 1 the spread is that of half an item of the other kind.
    """
    sure = (score <= 0) | (score >= 1)
    inside = np.where(sure, (score * items + 0.5) / (items + 1.0), score)
    spread = inside * (1 - inside)
    with np.errstate(divide="ignore", invalid="ignore"):
        here = np.where(spread > 0, spread * items / ((items - 1) * variance + spread), 0.0)
        new = np.where(new_variance > 0, spread / new_variance, 0.0)
    return here, new


# ---- leniency towards a family -------------------------------------------------------------------------------------


UNIDENTIFIABLE = "not identifiable: no verdict of this judge on its own family's answers"


@dataclass(frozen=True, slots=True)
class Leniency:
    """Leniency of a judge towards a group, against the yardstick: `mean`, `standard_error` (fractions) over `count`."""

    judge: int
    group: int
    count: int
    mean: float
    standard_error: float | None


@dataclass(frozen=True, slots=True)
class JuryLeniency:
    """Vote minus label (mean, a fraction) over the ``count`` labelled answers of a group.

    ``half_width``: of an interval that holds for all groups at once; None where it would rest on too few items.
    """

    group: int
    count: int
    mean: float
    half_width: float | None


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


LEAST_ITEMS = 5
"""Labelled items behind an interval of a jury's leniency."""


def jury_leniency(
    yes: Ints, total: Ints, human: Ints, group: Ints, item: Ints, *, level: float
) -> tuple[JuryLeniency, ...]:
    """Vote minus label, for every group ([R] family of the answer) with labelled votes.

    Answers to one item ([R] ``item``) stand or fall together, so an error is one over items.
    """
    rows = (human >= 0) & (total > 0)
    gap, group, item = yes[rows] / total[rows] - human[rows], group[rows], item[rows]
    names = np.unique(group).tolist()
    each = 1 - (1 - level) / max(len(names), 1)
    leniencies = []
    for name in names:
        part = gap[group == name]
        _, place = np.unique(item[group == name], return_inverse=True)
        sums = np.bincount(place, weights=part - part.mean())
        half = None
        if len(sums) >= LEAST_ITEMS:
            spread = math.sqrt(float(sums @ sums) * len(sums) / (len(sums) - 1)) or 1.0  # as if one of them differed
            half = two_sided_t_quantile(each, len(sums) - 1) * spread / len(part)
        leniencies.append(JuryLeniency(name, len(part), float(part.mean()), half))
    return tuple(leniencies)


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
    own_count, other_count = int(own.sum()), int((~own).sum())
    if own_count == 0 or other_count == 0:
        reason = UNIDENTIFIABLE if own_count == 0 else "no verdict of this judge on other families' answers"
        return PreferenceEstimate(judge, against, None, None, own_count, other_count, reason)
    estimate = float(gap[own].mean() - gap[~own].mean())
    _, index = np.unique(item, return_inverse=True)
    count = int(index.max()) + 1
    sums = np.stack([np.bincount(index, w, count) for w in (gap * own, own * 1.0, gap * ~own, ~own * 1.0)])
    weights = rng.multinomial(count, np.full(count, 1 / count), draws)
    drawn = weights @ sums.T
    usable = drawn[(drawn[:, 1] > 0) & (drawn[:, 3] > 0)]
    spread = usable[:, 0] / usable[:, 1] - usable[:, 2] / usable[:, 3]
    error = float(spread.std(ddof=1)) if len(spread) > 1 and count > 1 else None
    return PreferenceEstimate(judge, against, estimate, error, own_count, other_count, None)


def _other_judges(verdicts: Ints) -> FloatArray:
    given = verdicts >= 0
    votes = np.where(given, verdicts, 0)
    other_votes = given.sum(axis=1, keepdims=True) - given
    total = votes.sum(axis=1, keepdims=True) - votes
    return np.where(given & (other_votes > 0), total / np.maximum(other_votes, 1), np.nan)


def _table(verdicts: Ints, yardstick: FloatArray, group: Ints) -> tuple[Leniency, ...]:
    rows = []
    for judge in range(verdicts.shape[1]):
        usable = (verdicts[:, judge] >= 0) & np.isfinite(yardstick[:, judge])
        gap = verdicts[usable, judge] - yardstick[usable, judge]
        for g in np.unique(group[usable]).tolist():
            part = gap[group[usable] == g]
            rows.append(Leniency(judge, g, len(part), float(part.mean()), _standard_error(part)))
    return tuple(rows)


def _standard_error(gaps: FloatArray) -> float | None:
    """Return the standard error of the mean; equal gaps count as if one of them differed by 1."""
    if len(gaps) < 2:
        return None
    root = math.sqrt(len(gaps))
    return (float(gaps.std(ddof=1)) or 1 / root) / root
