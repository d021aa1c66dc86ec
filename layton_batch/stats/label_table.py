"""Labels by who wrote the answer and how the jury voted on it: what the hierarchical posterior is learnt from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.strata import FloatArray, GoldPredictions, IntArray, Strata, TargetPredictions

LENIENCY_SPREAD = 0.25
"""Deviation, in log odds of a judge's yes, by which judges may be kinder to one maker's answers than to another's."""
_USUAL_LABELS = 1  # what an author's votes must outweigh to take it for another than the mean author
_ROUNDS = 60
_LEAST_SLACK, _MOST_DOUBT = 0.1, 1.5  # votes that say nothing would leave both without bound


@dataclass(frozen=True, slots=True, eq=False)
class LabelTable:
    """Counts of A authors over B' votes; the authors 0..K-1 are the scored models.

    `yes`, `total` [B']: votes by seats, by rising share, (0, 0) last: those of the scored models and of the labels.
    `labels`, `positives` [A, B']; `ability` [A]: log odds of the accuracy that fits the votes; `sway` [A, B']: what one
    more answer in all would move it by if it had that vote; `doubt` [A]: its standard error; `maker` [A]; `place` [B]:
    where the strata's bins are among the B'.
    """

    yes: IntArray
    total: IntArray
    labels: FloatArray
    positives: FloatArray
    ability: FloatArray
    sway: FloatArray
    doubt: FloatArray
    maker: IntArray
    place: IntArray


def label_table(target: TargetPredictions, gold: GoldPredictions, strata: Strata) -> LabelTable:
    """Of the predictions and labels that `strata`, by seats, was built from. An own label stands at its row's vote."""
    models = len(target.provider)
    author = _authors(gold, models)
    count = max(models, int(author.max(initial=-1)) + 1)
    yes, total = (np.asarray(a, dtype=np.int64).copy() for a in (gold.yes, gold.total))
    own = gold.own_target_row >= 0
    rows = gold.own_target_row[own]
    yes[own], total[own] = target.yes[rows], target.total[rows]
    counted = np.ones(len(yes), dtype=np.bool_)
    counted[own] = ~target.known_zero[rows]
    keys = _votes(strata, yes[counted], total[counted])
    base = int(keys[:, 1].max(initial=0)) + 1
    codes = keys[:, 0] * base + keys[:, 1]
    order = np.argsort(codes)
    bins = order[np.searchsorted(codes[order], yes[counted] * base + total[counted])]
    place = order[np.searchsorted(codes[order], strata.bin_yes * base + strata.bin_total)]
    index = author[counted] * len(keys) + bins
    shape = (count, len(keys))
    labels, positives = (
        np.bincount(index, weight, count * len(keys)).reshape(shape).astype(np.float64)
        for weight in (None, gold.label[counted])
    )
    row_bins = np.asarray(strata.row_bin, dtype=np.int64)
    row_bins = np.where(row_bins >= 0, place[row_bins], -1) if len(place) else row_bins
    items = _items(target, author[counted], bins, row_bins, shape)
    maker = np.zeros(count, dtype=np.int64)
    maker[author] = gold.provider
    maker[:models] = target.provider
    ability, sway, doubt = _abilities(items, labels, positives, keys)
    return LabelTable(
        yes=keys[:, 0],
        total=keys[:, 1],
        labels=labels,
        positives=positives,
        ability=ability,
        sway=sway,
        doubt=doubt,
        maker=maker,
        place=place,
    )


def _authors(gold: GoldPredictions, models: int) -> IntArray:
    """Who wrote each labelled answer; without names, those who are not scored are one author a provider."""
    if gold.author is not None:
        return np.asarray(gold.author, dtype=np.int64)
    return np.where(gold.model >= 0, gold.model, models + gold.provider).astype(np.int64)


def _votes(strata: Strata, yes: IntArray, total: IntArray) -> IntArray:
    seen = np.stack([np.concatenate([strata.bin_yes, yes]), np.concatenate([strata.bin_total, total])], axis=1)
    keys = np.unique(seen.reshape(-1, 2), axis=0)
    share = np.where(keys[:, 1] > 0, keys[:, 0] / np.maximum(keys[:, 1], 1), 2.0)
    return np.asarray(keys[np.lexsort((keys[:, 1], share))], dtype=np.int64)


def _abilities(
    items: FloatArray, labels: FloatArray, positives: FloatArray, keys: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Ability, sway and doubt: the log odds of the accuracy that would give each author its `items` [A, B'] votes, were
    a vote worth the same evidence whoever wrote the answer.

    The evidence of a vote: odds of a person's yes at it over the odds at all votes, by all labels. The jury's mean vote
    itself would not do: the worse the judges, the less it moves with the accuracy.
    """
    judged = keys[:, 1] > 0
    share = np.where(judged, keys[:, 0] / np.maximum(keys[:, 1], 1), 0.5)
    rate = (positives.sum(axis=0) + 0.1 + 0.8 * share) / (labels.sum(axis=0) + 1)
    labelled = labels.sum(axis=1) > 0
    mix = items[labelled].sum(axis=0) if labelled.any() else items.sum(axis=0)
    mean = float((mix * rate).sum() / max(mix.sum(), 1.0)) if mix.sum() else 0.5
    evidence = np.log(rate / (1 - rate)) - np.log(mean / (1 - mean))
    told = 1 - float((mix * rate * (1 - rate)).sum() / max(mix.sum(), 1.0)) / (mean * (1 - mean))
    usual = _USUAL_LABELS / max(told, _LEAST_SLACK)  # answers, each worth `told` labels
    accuracy = np.full(len(items), mean)
    for _ in range(_ROUNDS):
        odds = np.log(accuracy / (1 - accuracy))[:, None] + evidence
        accuracy = ((items / (1 + np.exp(-odds))).sum(axis=1) + usual * mean) / (items.sum(axis=1) + usual)
    right = 1 / (1 + np.exp(-(np.log(accuracy / (1 - accuracy))[:, None] + evidence)))
    count = items.sum(axis=1)
    share = items / np.maximum(count, 1)[:, None]
    spread = accuracy * (1 - accuracy)
    slack = np.maximum(1 - (share * right * (1 - right)).sum(axis=1) / spread, _LEAST_SLACK)
    sway = (right - accuracy[:, None]) / (slack * spread)[:, None]
    chance = (share * sway**2).sum(axis=1) / np.maximum(count, 1)
    weight = labels.sum(axis=1) if labelled.any() else np.maximum(count, 1)
    told = share * right * (1 - right) / (slack * spread)[:, None]
    told = told - np.average(told, axis=0, weights=weight)
    unsure = (told**2 / ((labels.sum(axis=0) + 1) * rate * (1 - rate))).sum(axis=1)
    doubt = np.sqrt(chance + unsure + (LENIENCY_SPREAD * _tilt(share, right, sway, keys[:, 0])) ** 2)
    return np.log(accuracy / (1 - accuracy)), sway, np.where(count > 0, np.minimum(doubt, _MOST_DOUBT), _MOST_DOUBT)


def _tilt(share: FloatArray, right: FloatArray, sway: FloatArray, yes: IntArray) -> FloatArray:
    """[A] by how much an author's ability seems to rise where every judge's log odds of a yes rise by one, whatever the
    truth: the verdicts on right answers and on wrong ones move, each as far as its kind leaves open."""
    moved = np.zeros(len(share))
    for part in (share * right, share * (1 - right)):
        mean = (part * yes).sum(axis=1) / np.maximum(part.sum(axis=1), 1e-12)
        moved += (part * (yes - mean[:, None]) * sway).sum(axis=1)
    return moved


def _items(
    target: TargetPredictions, author: IntArray, bins: IntArray, row_bins: IntArray, shape: tuple[int, int]
) -> FloatArray:
    """[A, B'] answers at each vote: of the scored models all that were judged, of others those that were labelled."""
    models = len(target.provider)
    there = row_bins >= 0
    others = author >= models
    index = np.concatenate([target.model[there] * shape[1] + row_bins[there], author[others] * shape[1] + bins[others]])
    return np.bincount(index, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
