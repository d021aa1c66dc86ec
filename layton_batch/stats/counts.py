"""Votes and labels counted by author and by vote: the numbers that every score in this package is computed from.

A vote is kept as two integers, (yes, total), so it is never a matter of float equality: one judge's yes and three
judges' are two votes. Answers without a single verdict have the vote (0, 0). Predictions whose outcome needs no jury
(unparsed or missing: wrong) are counted apart as known zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]


class Flag(StrEnum):
    """Warnings about one model's row."""

    EMPTY_GOLD_BIN = "empty_gold_bin"  # a vote of this model has no usable label
    NO_GOLD = "no_gold"  # no vote of this model has one
    UNJUDGED = "unjudged"  # answers that no judge gave a verdict on


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """The predictions to score: R rows over K models, every (model, item) once.

    `model` [R] in 0..K-1, `item` [R] any numbering shared by all models, `yes` and `total` [R] verdicts (total 0:
    unjudged), `known_zero` [R]: wrong without a jury (its votes are ignored), `maker` [K] of each *model*.
    """

    model: Ints
    item: Ints
    yes: Ints
    total: Ints
    known_zero: BoolArray
    maker: Ints


@dataclass(frozen=True, slots=True, eq=False)
class LabelledAnswers:
    """Labelled answers, L rows.

    `author` [L]: 0..K-1 the scored models, from K on other models, -1 an unnamed model of the `maker` [L]; `yes`,
    `total` [L] verdicts; `correct` [L] 0 or 1; `row` [L]: the row of `Predictions` that this very answer is, else -1.
    """

    author: Ints
    maker: Ints
    yes: Ints
    total: Ints
    correct: Ints
    row: Ints


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of K scored models, which are the first of A authors.

    `yes`, `total` [V]: the votes of predictions and labels, by rising share, (0, 0) last; `bins` [B]: the place among
    them of the votes that predictions have. `n` [K, B] predictions; `own_labels`, `own_positives` [K, B] labels on
    them; `known_zeros` [K]. `labels`, `positives` [A, V]: all labels by author, at the vote of the prediction if they
    belong to one; positives are fractions if labels are only expected. `maker` [A]. `row_bin` [R]: the bin of each
    prediction, -1 for a known zero; `row_label` [R]: its label, -1 for none.
    """

    predictions: Predictions
    yes: IntArray
    total: IntArray
    bins: IntArray
    n: IntArray
    own_labels: IntArray
    own_positives: FloatArray
    known_zeros: IntArray
    labels: IntArray
    positives: FloatArray
    maker: IntArray
    row_bin: IntArray
    row_label: IntArray

    @property
    def models(self) -> int:
        return len(self.known_zeros)

    @cached_property
    def share(self) -> FloatArray:
        """[V] share of yes; 2 for (0, 0)."""
        return vote_share(self.yes, self.total)

    @cached_property
    def items(self) -> IntArray:
        """[K] predictions, known zeros included."""
        return np.asarray(self.n.sum(axis=1) + self.known_zeros)

    @cached_property
    def votes(self) -> IntArray:
        """[A, V] judged predictions. Authors that are not scored have none: only labelled answers of them are known."""
        votes = np.zeros(self.labels.shape, dtype=np.int64)
        votes[: self.models, self.bins] = self.n
        return votes

    @cached_property
    def borrowed_labels(self) -> IntArray:
        """[K, B] labels on everything but the model's own predictions."""
        return np.asarray(self.labels.sum(axis=0)[self.bins] - self.own_labels)

    @cached_property
    def is_labelled(self) -> BoolArray:
        """[A] authors some of whose answers have labels."""
        return np.asarray(self.labels.any(axis=1))

    def with_expected(self, more: IntArray, rate: FloatArray) -> Counts:
        """Return the counts with `more` [K, B] own labels, of which the share `rate` [K, B] is positive."""
        labels, positives = self.labels.copy(), self.positives.copy()
        labels[: self.models, self.bins] += more
        positives[: self.models, self.bins] += more * rate
        own = self.own_labels + more, self.own_positives + more * rate
        return replace(self, own_labels=own[0], own_positives=own[1], labels=labels, positives=positives)

    @property
    def own_yes(self) -> IntArray:
        """[K, B] `own_positives` in whole numbers."""
        return np.rint(self.own_positives).astype(np.int64)

    @property
    def unjudged(self) -> IntArray:
        """[K] predictions without any verdict."""
        return np.asarray(self.n[:, self.total[self.bins] == 0].sum(axis=1))


def vote_share(yes: IntArray, total: IntArray) -> FloatArray:
    """Return the share of yes of each vote; 2 for a vote without verdicts, which comes last."""
    return np.where(total > 0, yes / np.maximum(total, 1), 2.0)


def count(predictions: Predictions, labels: LabelledAnswers) -> Counts:
    """Count predictions and labels.

    A label on another answer of a scored model than the prediction is borrowed. A label on a known zero adds nothing:
    the outcome is settled.
    """
    models = len(predictions.maker)
    is_judged = ~predictions.known_zero
    of_row = np.flatnonzero(labels.row >= 0)
    own = labels.row[of_row]
    yes, total = (np.asarray(values, dtype=np.int64).copy() for values in (labels.yes, labels.total))
    yes[of_row], total[of_row] = predictions.yes[own], predictions.total[own]
    counts = np.ones(len(yes), dtype=np.bool_)
    counts[of_row] = is_judged[own]

    every_yes, every_total = np.append(predictions.yes, yes), np.append(predictions.total, total)
    base = int(every_total.max(initial=0)) + 1
    codes, vote = np.unique((every_yes * base + every_total)[np.append(is_judged, counts)], return_inverse=True)
    order = np.lexsort((codes % base, vote_share(codes // base, codes % base)))
    vote = np.argsort(order)[vote]
    row_vote, label_vote = np.split(vote, [is_judged.sum()])
    bins, row_bins = np.unique(row_vote, return_inverse=True)

    row_bin, row_label = np.full((2, len(predictions.model)), -1)
    row_bin[is_judged] = row_bins
    row_label[own] = labels.correct[of_row]
    author = np.where(labels.author >= 0, labels.author, models + labels.maker).astype(np.int64)
    authors = max(models, int(author.max(initial=-1)) + 1)
    maker = np.zeros(authors, dtype=np.int64)
    maker[author], maker[:models] = labels.maker, predictions.maker
    own_row = own[row_bin[own] >= 0]
    own_counts = predictions.model[own_row], row_bin[own_row], (models, len(bins))
    label_counts = author[counts], label_vote, (authors, len(codes))
    return Counts(
        predictions=predictions,
        yes=codes[order] // base,
        total=codes[order] % base,
        bins=bins,
        n=_table(predictions.model[is_judged], row_bins, (models, len(bins))),
        own_labels=_table(*own_counts),
        own_positives=_table(*own_counts, row_label[own_row]).astype(np.float64),
        known_zeros=np.bincount(predictions.model[~is_judged], minlength=models),
        labels=_table(*label_counts),
        positives=_table(*label_counts, labels.correct[counts]).astype(np.float64),
        maker=maker,
        row_bin=row_bin,
        row_label=row_label,
    )


def _table(rows: Ints, columns: IntArray, shape: tuple[int, int], weight: Ints | None = None) -> Any:
    """Count pairs of a row and a column; with `weight` the sums of it."""
    place = np.ravel_multi_index((rows, columns), shape) if len(rows) else columns
    return np.bincount(place, weight, shape[0] * shape[1]).reshape(shape)


def label_flags(n: IntArray, labels: IntArray, unjudged: IntArray) -> list[tuple[Flag, ...]]:
    """Return the warnings of each model: `n` [K, B] its predictions, `labels` [K, B] the usable labels at each vote."""
    has_vote = n > 0
    has_label = has_vote & (labels > 0)
    lacks_all, lacks_some = has_vote.any(axis=1) & ~has_label.any(axis=1), (has_vote & ~has_label).any(axis=1)
    tests = ((Flag.NO_GOLD, lacks_all), (Flag.EMPTY_GOLD_BIN, lacks_some), (Flag.UNJUDGED, unjudged > 0))
    rows = zip(*(holds.tolist() for _, holds in tests), strict=True)
    return [tuple(flag for (flag, _), holds in zip(tests, row, strict=True) if holds) for row in rows]


def fewest_labels(n: IntArray, labels: IntArray) -> list[int | None]:
    """Return the fewest labels behind a vote of each model; None for a model without judged predictions."""
    return [
        int(of_model[has_vote].min()) if has_vote.any() else None
        for of_model, has_vote in zip(labels, n > 0, strict=True)
    ]
