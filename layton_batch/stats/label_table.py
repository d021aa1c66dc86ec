"""Votes and labels by who wrote the answer and how the jury voted on it: what the hierarchical posterior is learnt
from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.strata import FloatArray, GoldPredictions, IntArray, Strata, TargetPredictions


@dataclass(frozen=True, slots=True, eq=False)
class LabelTable:
    """Counts of A authors over B' votes; the authors 0..K-1 are the scored models.

    `yes`, `total` [B']: votes by seats, by rising share, (0, 0) last: those of the scored models and of the labels.
    `items` [A, B']: judged answers, of scored models only: of other authors nobody knows the votes beyond the labelled
    ones, which somebody chose. `labels`, `positives` [A, B']; `maker` [A]; `place` [B]: where the strata's bins are
    among the B'.
    """

    yes: IntArray
    total: IntArray
    items: FloatArray
    labels: FloatArray
    positives: FloatArray
    maker: IntArray
    place: IntArray


def label_table(target: TargetPredictions, gold: GoldPredictions, strata: Strata) -> LabelTable:
    """Count the predictions and labels that `strata`, by seats, was built from. An own label stands at its row's
    vote."""
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
    items = np.zeros(shape)
    items[:models, place] = strata.n
    maker = np.zeros(count, dtype=np.int64)
    maker[author] = gold.provider
    maker[:models] = target.provider
    return LabelTable(keys[:, 0], keys[:, 1], items, labels, positives, maker, place)


def _authors(gold: GoldPredictions, models: int) -> IntArray:
    """Return the author of each labelled answer. Unnamed authors without a score are one author per provider."""
    if gold.author is not None:
        return np.asarray(gold.author, dtype=np.int64)
    return np.where(gold.model >= 0, gold.model, models + gold.provider).astype(np.int64)


def _votes(strata: Strata, yes: IntArray, total: IntArray) -> IntArray:
    seen = np.stack([np.concatenate([strata.bin_yes, yes]), np.concatenate([strata.bin_total, total])], axis=1)
    keys = np.unique(seen.reshape(-1, 2), axis=0)
    share = np.where(keys[:, 1] > 0, keys[:, 0] / np.maximum(keys[:, 1], 1), 2.0)
    return np.asarray(keys[np.lexsort((keys[:, 1], share))], dtype=np.int64)
