"""Bins of equal jury vote, per model: the counts every score in this package is computed from.

A bin is a vote kept as two integers, (yes, total), so a bin is never a matter of float equality or of rounding: by
share, in lowest terms, 2 of 3 is (2, 3) and 3 of 3 and 1 of 1 are both (1, 1), as the layton-eval paper has it; by
seats, one judge's yes and three judges' are two bins. Items without a
single verdict are a bin of their own, (0, 0). Predictions whose outcome needs no jury (unparsed or missing: wrong) are
counted apart as known zeros.

The labels are any person's yes or no, the votes any count of yes among graders, the providers any grouping inside which
graders may not be trusted to err alike: nothing here knows about riddles. Binary outcomes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]


class Flag(StrEnum):
    """Warnings about one model's row."""

    EMPTY_GOLD_BIN = "empty_gold_bin"  # a vote bin of this model holds no usable label
    NO_GOLD = "no_gold"  # no bin of this model holds one
    UNJUDGED = "unjudged"  # items no judge gave a verdict on
    KNOWN_ZEROS = "known_zeros"  # unparsed or missing predictions, counted as wrong
    MONTE_CARLO = "monte_carlo"  # the law was too large to enumerate and was drawn


@dataclass(frozen=True, slots=True, eq=False)
class TargetPredictions:
    """The predictions to score: R rows over K models, every (model, item) once; integers of any width.

    `model` [R] in 0..K-1, `item` [R] any numbering shared by all models, `yes` and `total` [R] verdicts (total 0:
    unjudged), `known_zero` [R] bool: unparsed or missing, wrong without a jury (its votes are ignored), `provider`
    [K] of each *model*.
    """

    model: Ints
    item: Ints
    yes: Ints
    total: Ints
    known_zero: BoolArray
    provider: Ints


@dataclass(frozen=True, slots=True, eq=False)
class GoldPredictions:
    """Human-labelled predictions: L rows, providers numbered as in `TargetPredictions.provider`.

    `model` [L] in the target's numbering, -1 for a model that is not scored; `yes`, `total` [L] verdicts; `label` [L]
    0 or 1; `own_target_row` [L]: the target row this very prediction is, or -1 when it is not among them; `author` [L]:
    as `model`, and from K on those that are not scored, where they are known by name.
    """

    model: Ints
    provider: Ints
    yes: Ints
    total: Ints
    label: Ints
    own_target_row: Ints
    author: Ints | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """Counts of K models over B bins, ordered by vote share with the unjudged bin, (0, 0), last.

    Bins: `bin_yes`, `bin_total` [B]. Counts [K, B]: `n` items;
    `pool_labels`, `pool_positives` of other providers (m, h: what the layton-eval paper uses); `borrowed_labels`,
    `borrowed_positives` of everything but the model's own predictions (M, H); `own_labels`, `own_positives` (l, k). Per
    model [K]: `known_zeros`, `items` (all of them). Per target row [R]: `row_bin` (-1: known zero), `row_label` (-1:
    none).
    """

    bin_yes: IntArray
    bin_total: IntArray
    n: IntArray
    pool_labels: IntArray
    pool_positives: IntArray
    borrowed_labels: IntArray
    borrowed_positives: IntArray
    own_labels: IntArray
    own_positives: IntArray
    known_zeros: IntArray
    items: IntArray
    row_bin: Ints
    row_label: Ints

    @property
    def unjudged(self) -> IntArray:
        """[K] items without any verdict."""
        return np.asarray(self.n[:, self.bin_total == 0].sum(axis=1), dtype=np.int64)

    def flags(self, labels: IntArray) -> list[tuple[Flag, ...]]:
        """Per model, what to warn of when `labels` [K, B] are the usable ones."""
        occupied = self.n > 0
        tests: list[tuple[Flag, BoolArray]] = [
            (Flag.NO_GOLD, np.asarray(occupied.any(axis=1) & ~(occupied & (labels > 0)).any(axis=1))),
            (Flag.EMPTY_GOLD_BIN, np.asarray((occupied & (labels == 0)).any(axis=1))),
            (Flag.UNJUDGED, self.unjudged > 0),
            (Flag.KNOWN_ZEROS, self.known_zeros > 0),
        ]
        return _flag_rows(tests, len(self.items))

    def smallest_gold_bin(self, labels: IntArray) -> list[int | None]:
        """Per model, the fewest of `labels` [K, B] behind an occupied bin; None where no bin is occupied."""
        top = np.iinfo(np.int64).max
        least = np.where(self.n > 0, labels, top).min(axis=1, initial=top)
        return [None if v == top else int(v) for v in least]


def _flag_rows(tests: list[tuple[Flag, BoolArray]], models: int) -> list[tuple[Flag, ...]]:
    code = np.zeros(models, dtype=np.int64)
    for position, (_, holds) in enumerate(tests):
        code |= holds.astype(np.int64) << position
    combinations = [tuple(f for i, (f, _) in enumerate(tests) if c >> i & 1) for c in range(1 << len(tests))]
    return [combinations[c] for c in code.tolist()]


def build_strata(target: TargetPredictions, gold: GoldPredictions, *, by_seats: bool = False) -> Strata:
    """Count items and labels by model and vote bin; `by_seats`: 1 of 1 and 3 of 3 are two bins.

    An own label is filed under its *target* row's vote, so own labels never outnumber the items of a bin. A label of
    the same model on some other prediction counts as borrowed. A label on a known zero adds nothing: its outcome is
    settled. Raises ValueError naming the first row at fault: unequal lengths, more yes than verdicts, a label other
    than 0 or 1, an index out of range, an item scored twice for one model, two labels on one target row.
    """
    _check_target(target)
    _check_gold(gold, target)
    keys, row_bin = _bins(target, by_seats)
    models, width = len(target.provider), len(keys)
    providers = int(max(target.provider.max(initial=-1), gold.provider.max(initial=-1))) + 1
    own = np.flatnonzero(gold.own_target_row >= 0)
    own_row = gold.own_target_row[own]
    row_label = np.full(len(target.model), -1, dtype=np.int8)
    row_label[own_row] = gold.label[own]

    gold_bin = _lookup(keys, gold.yes, gold.total, by_seats)
    pool = _label_counts(gold.provider, gold_bin, gold.label, (providers, width))
    mine = _label_counts(gold.model[own], gold_bin[own], gold.label[own], (models, width))
    own_counts = _label_counts(target.model[own_row], row_bin[own_row], gold.label[own], (models, width))
    n, zeros = _item_counts(target, row_bin, (models, width))
    own_provider = np.asarray(target.provider, dtype=np.int64)
    everyone = pool.sum(axis=1)[:, None, :]
    return Strata(
        bin_yes=keys[:, 0],
        bin_total=keys[:, 1],
        n=n,
        pool_labels=everyone[0] - pool[0, own_provider],
        pool_positives=everyone[1] - pool[1, own_provider],
        borrowed_labels=everyone[0] - mine[0],
        borrowed_positives=everyone[1] - mine[1],
        own_labels=own_counts[0],
        own_positives=own_counts[1],
        known_zeros=zeros,
        items=n.sum(axis=1) + zeros,
        row_bin=row_bin,
        row_label=row_label,
    )


def _label_counts(group: Ints, bins: Ints, label: Ints, shape: tuple[int, int]) -> IntArray:
    """[2, groups, B] labels and positives; rows of bin -1 belong to no bin of the target and are left out."""
    keep = bins >= 0
    index = group[keep].astype(np.int64) * shape[1] + bins[keep]
    counts = [np.bincount(index, w, shape[0] * shape[1]) for w in (None, label[keep])]
    return np.stack(counts).astype(np.int64).reshape(2, *shape)


def _item_counts(target: TargetPredictions, row_bin: Ints, shape: tuple[int, int]) -> tuple[IntArray, IntArray]:
    """Items [K, B] and known zeros [K]."""
    width = shape[1] + 1  # column 0 takes the rows of bin -1, the known zeros
    index = target.model.astype(np.int64) * width + row_bin + 1
    spread = np.bincount(index, minlength=shape[0] * width).reshape(shape[0], width)
    return spread[:, 1:], spread[:, 0]


def _lowest_terms(yes: Ints, total: Ints) -> tuple[IntArray, IntArray]:
    yes, total = yes.astype(np.int64), total.astype(np.int64)
    divisor = np.maximum(np.gcd(yes, total), 1)
    return np.where(total > 0, yes // divisor, 0), np.asarray(total // divisor, dtype=np.int64)


def _bins(target: TargetPredictions, by_seats: bool) -> tuple[IntArray, Ints]:
    """The bins that occur, [B, 2], and the bin of every row, -1 for a known zero."""
    base = int(target.total.max(initial=0)) + 1
    cast = np.where(target.known_zero, -1, target.yes.astype(np.int64) * base + target.total)
    votes = np.unique(cast[cast >= 0])
    yes, total = (votes // base, votes % base) if by_seats else _lowest_terms(votes // base, votes % base)
    reduced, of_vote = np.unique(yes * base + total, return_inverse=True)
    keys = np.stack([reduced // base, reduced % base], axis=1)
    share = np.where(keys[:, 1] > 0, keys[:, 0] / np.maximum(keys[:, 1], 1), 2.0)  # 2: the unjudged bin comes last
    order = np.lexsort((keys[:, 1], share))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    table = np.concatenate([np.array([-1]), place[of_vote]])
    return keys[order], table[np.searchsorted(votes, cast, side="right")]


def _lookup(keys: IntArray, yes: Ints, total: Ints, by_seats: bool) -> IntArray:
    """Bin of every (yes, total), -1 for a vote no scored model has."""
    yes, total = (yes.astype(np.int64), total.astype(np.int64)) if by_seats else _lowest_terms(yes, total)
    base = int(max(total.max(initial=0), keys[:, 1].max(initial=0))) + 1
    codes = np.append(keys[:, 0] * base + keys[:, 1], -1)
    order = np.argsort(codes)
    wanted = yes * base + total
    place = np.minimum(np.searchsorted(codes[order], wanted), len(keys))
    bins = order[place]
    return np.where(codes[bins] == wanted, bins, -1)


def _first(bad: BoolArray, problem: str) -> None:
    if bad.any():
        raise ValueError(f"row {int(np.argmax(bad))}: {problem}")


def _check_votes(kind: str, yes: Ints, total: Ints) -> None:
    _first((yes < 0) | (yes > total), f"{kind}: yes votes must lie between 0 and the number of verdicts")


def _check_target(target: TargetPredictions) -> None:
    rows = len(target.model)
    if any(len(a) != rows for a in (target.item, target.yes, target.total, target.known_zero)):
        raise ValueError("target: model, item, yes, total and known_zero must be of one length")
    _check_votes("target", target.yes, target.total)
    _first((target.model < 0) | (target.model >= len(target.provider)), "target: model index without a provider")
    _first(target.provider < 0, "target: provider index must not be negative")
    _check_unique(target)


def _check_unique(target: TargetPredictions) -> None:
    _first(target.item < 0, "target: item index must not be negative")
    order = np.lexsort((target.item, target.model))
    same = (np.diff(target.model[order]) == 0) & (np.diff(target.item[order]) == 0)
    if same.any():
        row = int(order[1:][same].min())
        raise ValueError(f"row {row}: target: item {target.item[row]} occurs twice for model {target.model[row]}")


def _check_gold(gold: GoldPredictions, target: TargetPredictions) -> None:
    rows = len(gold.model)
    if any(len(a) != rows for a in (gold.provider, gold.yes, gold.total, gold.label, gold.own_target_row)):
        raise ValueError("gold: model, provider, yes, total, label and own_target_row must be of one length")
    _check_votes("gold", gold.yes, gold.total)
    _first((gold.label < 0) | (gold.label > 1), "gold: label must be 0 or 1")
    _first((gold.model < -1) | (gold.model >= len(target.provider)), "gold: model index out of range")
    _first(gold.provider < 0, "gold: provider index must not be negative")
    _first((gold.own_target_row < -1) | (gold.own_target_row >= len(target.model)), "gold: own_target_row out of range")
    own = gold.own_target_row[gold.own_target_row >= 0]
    claimed = np.full(rows, -2, dtype=np.int64)
    claimed[gold.own_target_row >= 0] = target.model[own]
    _first((claimed >= 0) & (claimed != gold.model), "gold: own_target_row belongs to another model")
    values, counts = np.unique(own, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"gold: target row {int(values[counts > 1][0])} has more than one label; settle it first")
