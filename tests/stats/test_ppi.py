"""The plain functions equal ppi-python where both apply, and refuse what neither can do."""

from __future__ import annotations

from typing import Any

import numpy as np
import ppi_py
import pytest

from layton_batch.stats.ppi import classical_mean_ci, ppi_mean_ci, ppi_mean_pointestimate, stratified_ppi_mean_ci


def data(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    y = (rng.random(80) < 0.6).astype(float)
    f = np.clip(y * 0.7 + rng.normal(0.1, 0.3, 80), 0, 1)
    g = np.clip((rng.random(700) < 0.6) * 0.7 + rng.normal(0.1, 0.3, 700), 0, 1)
    return y, f, g


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lam", [None, 0, 0.4, 1])
def test_equal_to_ppi_python(seed: int, lam: float | None) -> None:
    y, f, g = data(seed)
    point = float(np.ravel(ppi_py.ppi_mean_pointestimate(y, f, g, lam=lam))[0])
    assert ppi_mean_pointestimate(y, f, g, lam) == pytest.approx(point, abs=1e-12)
    for alternative in ("two-sided", "larger", "smaller") if lam is not None else ("two-sided",):
        theirs = [float(np.ravel(v)[0]) for v in ppi_py.ppi_mean_ci(y, f, g, 0.05, alternative, lam=lam)]
        assert ppi_mean_ci(y, f, g, 0.05, alternative, lam) == pytest.approx(theirs, abs=1e-10)  # type: ignore[arg-type]


def test_one_sided_tuned_intervals_are_one_side_of_the_two_sided_one() -> None:
    """ppi-python 0.2.3 forgets `alternative` when it tunes lambda, so it is no oracle here."""
    y, f, g = data(0)
    mean, edge = ppi_mean_pointestimate(y, f, g), ppi_mean_ci(y, f, g, 0.05, "larger")
    two_sided = ppi_mean_ci(y, f, g, 0.10)
    assert edge == (pytest.approx(two_sided[0]), float("inf"))
    assert ppi_mean_ci(y, f, g, 0.05, "smaller") == (float("-inf"), pytest.approx(two_sided[1]))
    assert two_sided[0] < mean < two_sided[1]


def test_classical_equals_ppi_python() -> None:
    y, _, _ = data(1)
    theirs = [float(np.ravel(v)[0]) for v in ppi_py.classical_mean_ci(y, alpha=0.1)]
    assert classical_mean_ci(y) == pytest.approx(theirs, abs=1e-10)


def test_one_stratum_is_plain_ppi_but_for_the_degrees_of_freedom() -> None:
    y, f, g = data(2)
    ours = stratified_ppi_mean_ci(y, f, g, np.zeros(80), np.zeros(700), 0.05, lam=1.0)
    theirs = [float(np.ravel(v)[0]) for v in ppi_py.ppi_mean_ci(y, f, g, 0.05, lam=1.0)]
    assert sum(ours) == pytest.approx(sum(theirs))
    imputed, rectifier = g.var() / 700, (y - f).var() / 80
    widen = ((imputed * 700 / 699 + rectifier * 80 / 79) / (imputed + rectifier)) ** 0.5
    assert ours[1] - ours[0] == pytest.approx((theirs[1] - theirs[0]) * widen)


def test_on_vote_bins_lambda_drops_out_of_stratified_ppi() -> None:
    rng = np.random.default_rng(3)
    bins, target = rng.integers(0, 3, 120), rng.integers(0, 3, 900)
    y = (rng.random(120) < bins / 2.5).astype(float)
    intervals = [
        stratified_ppi_mean_ci(y, bins / 2, target / 2, bins, target, 0.05, lam=lam) for lam in (None, 0.0, 1.0)
    ]
    assert intervals[0] == pytest.approx(intervals[1])
    assert intervals[0] == pytest.approx(intervals[2])
    share = np.bincount(target) / 900
    rate = np.bincount(bins, y) / np.bincount(bins)
    mean = share @ rate
    variance = (share**2 * rate * (1 - rate) / (np.bincount(bins) - 1)).sum() + share @ (rate - mean) ** 2 / 900
    assert intervals[0] == pytest.approx((mean - 1.959964 * variance**0.5, mean + 1.959964 * variance**0.5), abs=1e-6)
    known = stratified_ppi_mean_ci(y, bins / 2, target / 2, bins, target, 0.05, known_shares=True)
    assert known[1] - known[0] < intervals[0][1] - intervals[0][0]


def test_constant_predictions_cannot_help_and_do_not_make_nan() -> None:
    y = [0.0, 1.0, 1.0, 0.0, 1.0]
    assert ppi_mean_pointestimate(y, [0.5] * 5, [0.5] * 9) == pytest.approx(0.6)
    assert ppi_mean_ci(y, [0.5] * 5, [0.5] * 9) == pytest.approx(classical_mean_ci(y))


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(ValueError, match="stratum 1: 1 labels"):
        stratified_ppi_mean_ci([1, 0, 1], [1, 0, 1], [1, 1], [0, 0, 1], [0, 1])
    with pytest.raises(ValueError, match="one length"):
        ppi_mean_pointestimate([1, 0], [1], [1])
    with pytest.raises(ValueError, match="Y must be a non-empty list"):
        ppi_mean_pointestimate([], [], [1])
    with pytest.raises(ValueError, match="Yhat_unlabeled must be"):
        ppi_mean_pointestimate([1], [1], [float("nan")])
    with pytest.raises(ValueError, match="alpha"):
        classical_mean_ci([1, 0], 0.0)
    with pytest.raises(ValueError, match="alternative"):
        classical_mean_ci([1, 0], 0.1, "both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="strata must be"):
        stratified_ppi_mean_ci([1, 0], [1, 0], [1], [0], [0])
