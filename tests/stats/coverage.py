"""How often intervals hold the truth: this package's and their rivals', on made-up boards whose truth is known.

The grid is declared here so that no cell can be left out quietly. `scripts/bench` runs all of it, the tests a part.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from layton_batch.stats.calibrated import calibrated_scores
from layton_batch.stats.joint import joint_draws
from layton_batch.stats.paper import paper_scores
from layton_batch.stats.ranks import paper_ranks, rank_ranges
from layton_batch.stats.strata import BoolArray, FloatArray, IntArray, Strata
from tests.stats.simulated_boards import LABELLED, Design, draw_boards

RATES = {
    "sharp": (0.003, 0.20, 0.75, 0.997),
    "fair": (0.01, 0.24, 0.87, 0.972),
    "adverse": (0.03, 0.30, 0.65, 0.93),
}
GOLD = (1.0, 0.5, 0.25, 0.1)
SHIFT = (0.0, 0.25, 0.4, 0.8)
CORRELATION = (0.0, 0.75)
BOOTSTRAP_DRAWS = 400
_Z = 1.959963984540054

Ends = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, slots=True)
class Coverage:
    """One method on one cell. `target` is "these" or "new" items, `group` "own labels" or "no labels".

    `covered` share of intervals that hold the truth, `error` its Monte Carlo standard error (boards are independent,
    the models of one are not), `below` and `above`: truths outside on either side; `half_width` mean, in fractions. A
    method that can give no interval (no own labels, say) for a model leaves it out; `share` is the part it answered.
    """

    method: str
    target: str
    group: str
    covered: float
    error: float
    below: float
    above: float
    half_width: float
    share: float


def grid() -> Iterator[tuple[str, Design]]:
    """Every declared cell with its name: judge quality x gold size x provider shift x riddle correlation."""
    for judge, gold, shift, correlation in itertools.product(RATES, GOLD, SHIFT, CORRELATION):
        name = f"{judge}, gold x{gold:g}, shift {shift:g}, correlation {correlation:g}"
        yield name, Design(RATES[judge], gold, shift, correlation)


def measure(design: Design, boards: int, *, seed: int) -> tuple[Coverage, ...]:
    """Coverage of every method over so many boards drawn from `design`."""
    truths = draw_boards(design, boards, seed=seed)
    rng = np.random.default_rng([seed, 1])
    calibrated_here, calibrated_new = _calibrated(truths.strata)
    raw, print_ = _paper(truths.strata)
    here: dict[str, Ends] = {
        "calibrated": calibrated_here,
        "paper": raw,
        "paper as printed": print_,
        "double bootstrap": _double_bootstrap(truths.strata, rng),
    }
    new: dict[str, Ends] = {
        "calibrated, new items": calibrated_new,
        "paper": raw,
        "PPI++": _ppi_plus_plus(truths.strata),
        "stratified PPI": _stratified(truths.strata),
    }
    rows = []
    for target, methods, truth in (("these", here, truths.here), ("new", new, truths.new)):
        for method, ends in methods.items():
            for group, models in (("own labels", slice(0, LABELLED)), ("no labels", slice(LABELLED, None))):
                low, high = (e.reshape(truth.shape)[:, models] for e in ends)
                rows.append(_row(method, target, group, low, high, truth[:, models]))
    return tuple(r for r in rows if r.share > 0)


@dataclass(frozen=True, slots=True)
class RankCoverage:
    """Rank sets on these items: `marginal` share of models, `joint` share of boards all of whose ranks they hold.

    `size`: mean number of ranks in a set.
    """

    method: str
    marginal: float
    joint: float
    size: float


def measure_ranks(design: Design, boards: int, *, seed: int, draws: int = 1000) -> tuple[RankCoverage, ...]:
    """The joint rank box and the paper's overlap of printed intervals against the true ranks."""
    truths = draw_boards(design, boards, seed=seed)
    rank = 1 + (truths.here[:, None, :] > truths.here[:, :, None]).sum(axis=2)
    sets: dict[str, list[tuple[IntArray, IntArray]]] = {"rank box": [], "paper's overlap": []}
    for w in range(boards):
        board = truths.board(w)
        box = rank_ranges(joint_draws(board, seed=seed + w, draws=draws))
        sets["rank box"].append((box.best, box.worst))
        rows = paper_scores(board)
        printed = paper_ranks([r.score for r in rows], [r.half_width for r in rows])
        sets["paper's overlap"].append((printed.best, printed.worst))
    return tuple(_rank_row(name, np.array(ends), rank) for name, ends in sets.items())


def _rank_row(method: str, ends: IntArray, rank: IntArray) -> RankCoverage:
    best, worst = ends[:, 0], ends[:, 1]
    held = (best <= rank) & (rank <= worst)
    size = float((worst - best + 1).mean())
    return RankCoverage(method, float(held.mean()), float(held.all(axis=1).mean()), size)


def _row(method: str, target: str, group: str, low: FloatArray, high: FloatArray, truth: FloatArray) -> Coverage:
    answered: BoolArray = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(answered, low, 0.0), np.where(answered, high, 0.0)
    under, over = answered & (truth < low - 1e-9), answered & (truth > high + 1e-9)
    count = max(int(answered.sum()), 1)
    per_board = (under | over).sum(axis=1) - (under | over).sum() / count * answered.sum(axis=1)
    return Coverage(
        method=method,
        target=target,
        group=group,
        covered=1 - float((under | over).sum()) / count,
        error=float((per_board**2).sum() ** 0.5) / count,
        below=float(under.sum()) / count,
        above=float(over.sum()) / count,
        half_width=float((high - low).sum()) / 2 / count,
        share=float(answered.mean()),
    )


def _numbers(values: list[float | None]) -> FloatArray:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def _calibrated(strata: Strata) -> tuple[Ends, Ends]:
    rows = calibrated_scores(strata)
    here = _numbers([r.lower for r in rows]), _numbers([r.upper for r in rows])
    return here, (_numbers([r.new_lower for r in rows]), _numbers([r.new_upper for r in rows]))


def _paper(strata: Strata) -> tuple[Ends, Ends]:
    rows = paper_scores(strata)
    score, width = _numbers([r.score for r in rows]) / 100, _numbers([r.half_width for r in rows]) / 100
    return (_numbers([r.lower for r in rows]), _numbers([r.upper for r in rows])), (score - width, score + width)


def _double_bootstrap(strata: Strata, rng: np.random.Generator) -> Ends:
    """Resample the labels of other providers, then the outcomes; a bin without labels keeps its model out."""
    m, h, n = strata.pool_labels, strata.pool_positives, strata.n
    total = np.zeros((BOOTSTRAP_DRAWS, len(n)))
    for b in range(n.shape[1]):
        labels = np.maximum(m[:, b], 1)
        rate = rng.binomial(labels, h[:, b] / labels, (BOOTSTRAP_DRAWS, len(n))) / labels
        total += rng.binomial(n[:, b], rate)
    low, high = np.quantile(total / strata.items, [0.025, 0.975], axis=0, method="inverted_cdf")
    missing = ((n > 0) & (m == 0)).any(axis=1)
    return np.where(missing, np.nan, low), np.where(missing, np.nan, high)


def _normal(mean: FloatArray, variance: FloatArray, usable: BoolArray | np.bool_) -> Ends:
    reach = _Z * np.sqrt(np.maximum(variance, 0.0))
    return np.where(usable, mean - reach, np.nan), np.where(usable, mean + reach, np.nan)


def _ppi_plus_plus(strata: Strata) -> Ends:
    """PPI++ from a model's own labels, in closed form from the counts: the predictions are votes, constant in a bin."""
    vote = strata.bin_yes / strata.bin_total
    labelled, rest = strata.own_labels, strata.n - strata.own_labels
    size, others = labelled.sum(axis=1), rest.sum(axis=1)
    usable = (size > 1) & (others > 1)
    size, others = np.maximum(size, 2), np.maximum(others, 2)

    def mean(weights: npt.NDArray[Any], count: IntArray) -> FloatArray:
        return np.asarray(weights.sum(axis=1) / count, dtype=np.float64)

    y, f, g = mean(strata.own_positives * 1.0, size), mean(labelled * vote, size), mean(rest * vote, others)
    covariance = mean(strata.own_positives * vote, size) - y * f
    both, all_ = strata.n * 1.0, size + others
    spread = (mean(both * vote**2, all_) - mean(both * vote, all_) ** 2) * all_ / (all_ - 1)
    lam = np.clip(covariance / np.where(spread > 0, (1 + size / others) * spread, np.inf), 0, 1)
    residual = y * (1 - y) - 2 * lam * covariance + lam**2 * (mean(labelled * vote**2, size) - f**2)
    imputed = lam**2 * (mean(rest * vote**2, others) - g**2)
    return _normal(y + lam * (g - f), residual / size + imputed / others, usable)


def _stratified(strata: Strata) -> Ends:
    """Stratified PPI on the vote bins, from all labels alike: the sum of share times rate."""
    labels = strata.borrowed_labels + strata.own_labels
    positives = strata.borrowed_positives + strata.own_positives
    share = strata.n / strata.items[:, None]
    rate = positives / np.maximum(labels, 1)
    mean = (share * rate).sum(axis=1)
    variance = (share**2 * rate * (1 - rate) / np.maximum(labels - 1, 1)).sum(axis=1)
    variance = variance + (share * (rate - mean[:, None]) ** 2).sum(axis=1) / strata.items
    return _normal(mean, variance, ~((strata.n > 0) & (labels < 2)).any(axis=1))
