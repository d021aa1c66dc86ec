"""How good the judges are: each against people, the jury as a whole, and what it gets wrong, item by item.

Verdicts are [R, J] with 1 yes, 0 no, -1 not asked or not answered; people's labels [R] with -1 for none. Fractions
throughout; leniency is verdict minus label, so +0.02 is two points too kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.agreement import cohen_kappa
from layton_batch.stats.special import betaincinv
from layton_batch.stats.strata import FloatArray, IntArray, Ints


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
    """Labels and positives among items of one vote (lowest terms), the rate and Jeffreys' interval for it."""

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
    lower, upper = (betaincinv(a, b, np.array(p)) for p in ((1 - level) / 2, (1 + level) / 2))
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
    """Rate of positive labels in every vote bin that has one, by rising vote; (0, 0), no verdict, comes last."""
    rows = human >= 0
    divisor = np.maximum(np.gcd(yes[rows], total[rows]), 1)
    pairs = np.stack([yes[rows] // divisor, total[rows] // divisor], axis=1).astype(np.int64)
    keys, index = np.unique(pairs, axis=0, return_inverse=True)
    labels = np.bincount(index.ravel(), minlength=len(keys))
    positives = np.bincount(index.ravel(), human[rows], len(keys)).astype(np.int64)
    lower, upper = jeffreys_interval(positives, labels, level)
    bins = [
        BinCalibration(int(k[0]), int(k[1]), int(labels[i]), int(positives[i]), float(lower[i]), float(upper[i]))
        for i, k in enumerate(keys)
    ]
    return tuple(sorted(bins, key=lambda b: b.yes / b.total if b.total else 2.0))


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
    labels alone.
    """
    spread = score * (1 - score)
    with np.errstate(divide="ignore", invalid="ignore"):
        here = np.where(spread > 0, spread * items / ((items - 1) * variance + spread), 0.0)
        new = np.where(new_variance > 0, spread / new_variance, 0.0)
    return here, new
