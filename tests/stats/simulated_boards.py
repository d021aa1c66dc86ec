"""Made-up boards whose truth is known, many at once: the ground every claim about coverage is tested on.

For K models on n items, the jury's vote bin is drawn from the model's strength and the item's difficulty, and then
people's verdict from the bin's rate: shifted by provider (`shift`, the sd of a provider's log odds within a bin)
and alike for all models on the same item (`correlation` of the latent verdict). Seven models of four providers have
own labels; two of a fifth provider, a weak and a strong one of two more have none. Nothing here is taken from any
benchmark's data.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from statistics import NormalDist

import numpy as np

from layton_batch.stats.strata import BoolArray, FloatArray, IntArray, Strata

STRENGTHS = (0.96, 0.84, 0.83, 0.80, 0.70, 0.48, 0.22, 0.73, 0.66, 0.12, 0.97)  # share of unanimous and near-yes items
PROVIDERS = (0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 6)
LABELLED = 7
LABEL_RATE = 0.43  # share of a labelled model's items that people judged, at gold size 1
_CONTESTED = 0.12  # half width of a contested bin on the latent scale: about 6 % of the items
_DIFFICULTY = 0.7  # share of the latent spread that is the item's


@dataclass(frozen=True, slots=True)
class Design:
    """What a cell of the grid holds fixed. `rates`: chance of a human yes at 0..3 of 3 votes; `gold`: size factor."""

    rates: tuple[float, float, float, float]
    gold: float = 1.0
    shift: float = 0.0
    correlation: float = 0.0
    items: int = 186


@dataclass(frozen=True, slots=True, eq=False)
class Truths:
    """`strata` of W x K models, board by board; the true accuracy on these items and on new ones, [W, K] each."""

    strata: Strata
    here: FloatArray
    new: FloatArray

    def board(self, index: int) -> Strata:
        """The K models of one board by themselves, as `joint_draws` needs them."""
        models = self.here.shape[1]
        rows = slice(index * models, (index + 1) * models)
        parts: dict[str, IntArray] = {
            f.name: getattr(self.strata, f.name)[rows]
            for f in fields(Strata)
            if f.name not in ("bin_yes", "bin_total", "all_labels", "all_positives", "row_bin", "row_label", "kin")
        }
        own, positives = parts["own_labels"].sum(axis=0), parts["own_positives"].sum(axis=0)
        return replace(self.strata, all_labels=own, all_positives=positives, **parts)


def draw_boards(design: Design, boards: int, *, seed: int) -> Truths:
    """W boards of `design` as one `Strata` of W * K rows; see `Truths.board` for one of them alone."""
    rng = np.random.default_rng(seed)
    strengths = _strengths()
    bins = _bins(rng, strengths, boards, design.items)
    rate = _rates(rng, design, boards)
    outcome = _outcomes(rng, design, bins, rate)
    labelled = rng.random(bins.shape) < LABEL_RATE * design.gold
    labelled[:, LABELLED:] = False
    n, own, positives = (_count(bins, keep) for keep in (np.ones_like(labelled), labelled, labelled & outcome))
    new = (_bin_shares(strengths) * rate).sum(axis=2)
    return Truths(_strata(n, own, positives), outcome.mean(axis=2), new)


def _strengths() -> FloatArray:
    normal = NormalDist()
    return np.array([normal.inv_cdf(s) for s in STRENGTHS])


def _thresholds() -> tuple[float, float, float]:
    return -_CONTESTED, 0.0, _CONTESTED


def _bins(rng: np.random.Generator, strengths: FloatArray, boards: int, items: int) -> IntArray:
    """[W, K, n] vote bin 0..3."""
    difficulty = rng.standard_normal((boards, 1, items)) * _DIFFICULTY**0.5
    noise = rng.standard_normal((boards, len(strengths), items)) * (1 - _DIFFICULTY) ** 0.5
    return np.asarray(np.searchsorted(_thresholds(), strengths[:, None] + difficulty + noise), dtype=np.int64)


def _bin_shares(strengths: FloatArray) -> FloatArray:
    """[K, 4] long-run share of each vote bin."""
    normal = NormalDist()
    cdf = np.array([[normal.cdf(t - s) for t in _thresholds()] for s in strengths.tolist()])
    return np.diff(np.concatenate([np.zeros((len(cdf), 1)), cdf, np.ones((len(cdf), 1))], axis=1), axis=1)


def _rates(rng: np.random.Generator, design: Design, boards: int) -> FloatArray:
    """[W, K, 4] rate of each model's bins: a provider's models share its shift."""
    base = np.array(design.rates)
    shift = design.shift * rng.standard_normal((boards, max(PROVIDERS) + 1, 4))
    return np.asarray(1 / (1 + np.exp(-(np.log(base / (1 - base)) + shift[:, PROVIDERS]))))


def _outcomes(rng: np.random.Generator, design: Design, bins: IntArray, rate: FloatArray) -> BoolArray:
    """[W, K, n] people's verdicts: a latent uniform, alike over models on one item, below the rate of the bin."""
    shared = rng.standard_normal((bins.shape[0], 1, bins.shape[2])) * design.correlation**0.5
    latent = shared + rng.standard_normal(bins.shape) * (1 - design.correlation) ** 0.5
    normal = NormalDist()
    cut = np.vectorize(normal.inv_cdf)(np.clip(rate, 1e-12, 1 - 1e-12))
    return np.asarray(latent < np.take_along_axis(cut, bins, axis=2))


def _count(bins: IntArray, keep: BoolArray) -> IntArray:
    return np.stack([((bins == b) & keep).sum(axis=2) for b in range(4)], axis=2)


def _strata(n: IntArray, own: IntArray, positives: IntArray) -> Strata:
    provider = np.array(PROVIDERS)
    same = provider[:, None] == provider[None, :]
    labels = np.stack([own, positives])  # [2, W, K, 4]
    everyone = labels.sum(axis=2, keepdims=True)
    pool = everyone - np.einsum("ij,awjb->awib", same.astype(np.int64), labels)
    borrowed = everyone - labels
    labelled_providers = set(PROVIDERS[:LABELLED])
    others = np.array([len(labelled_providers - {p}) for p in PROVIDERS])
    flat = n.reshape(-1, 4)
    none = np.zeros(0, dtype=np.int64)
    return Strata(
        bin_yes=np.array([0, 1, 2, 1]),
        bin_total=np.array([1, 3, 3, 1]),
        n=flat,
        pool_labels=pool[0].reshape(-1, 4),
        pool_positives=pool[1].reshape(-1, 4),
        borrowed_labels=borrowed[0].reshape(-1, 4),
        borrowed_positives=borrowed[1].reshape(-1, 4),
        own_labels=own.reshape(-1, 4),
        own_positives=positives.reshape(-1, 4),
        all_labels=np.zeros(4, dtype=np.int64),
        all_positives=np.zeros(4, dtype=np.int64),
        gold_providers=np.tile(others, len(n)),
        known_zeros=np.zeros(len(flat), dtype=np.int64),
        items=flat.sum(axis=1),
        row_bin=none,
        row_label=none,
    )
