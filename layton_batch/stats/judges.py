"""How good the judges are: each against people, the jury as a whole, what it gets wrong, and to whom it is lenient.

Verdicts are [R, J] with 1 yes, 0 no, -1 not asked or not answered; people's labels [R] with -1 for none. Fractions
throughout; leniency is verdict minus label, so +0.02 is two points too kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from layton_batch.stats.distributions import beta_interval, two_sided_t_quantile
from layton_batch.stats.raters import cohen_kappa
from layton_batch.stats.strata import FloatArray, Ints


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
    """The jury's vote against people: majority accuracy and kappa, and `bias`, the mean vote minus the mean label.

    A majority is more than half; an even split is no majority and counts as no.
    """

    labels: int
    majority_accuracy: float | None
    majority_kappa: float | None
    bias: float | None


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
        return JuryReport(0, None, None, None)
    majority = (2 * yes[rows].astype(np.int64) > total[rows]).astype(np.int64)
    return JuryReport(
        labels=len(label),
        majority_accuracy=float((majority == label).mean()),
        majority_kappa=cohen_kappa(majority, human[rows]),
        bias=float((vote - label).mean()),
    )


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


# ---- leniency towards a family -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leniency:
    """Leniency of a judge towards a group: `mean` and `standard_error` (fractions) over `count` verdicts."""

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


def leniency_by_group(verdicts: Ints, human: Ints, group: Ints) -> tuple[Leniency, ...]:
    """Verdict minus label, for every judge and group ([R] family of the answer) with labelled verdicts."""
    rows = []
    for judge in range(verdicts.shape[1]):
        usable = (verdicts[:, judge] >= 0) & (human >= 0)
        gap = (verdicts[usable, judge] - human[usable]).astype(np.float64)
        for g in np.unique(group[usable]).tolist():
            part = gap[group[usable] == g]
            rows.append(Leniency(judge, g, len(part), float(part.mean()), _standard_error(part)))
    return tuple(rows)


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


def _standard_error(gaps: FloatArray) -> float | None:
    """Return the standard error of the mean; equal gaps count as if one of them differed by 1."""
    if len(gaps) < 2:
        return None
    root = math.sqrt(len(gaps))
    return (float(gaps.std(ddof=1)) or 1 / root) / root
