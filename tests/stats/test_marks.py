"""Scores of tasks graded by rule: exact here, Jeffreys for new items, and comparisons that are paired."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from layton_batch.stats.counts import FloatArray
from layton_batch.stats.marks import large_strata, mark_estimates
from layton_batch.stats.ranks import difference
from tests.support.tiers import tiered


def binary(right: list[int], items: int) -> FloatArray:
    marks = np.zeros((len(right), items))
    for row, count in zip(marks, right, strict=True):
        row[:count] = 1.0
    return marks


def test_marks_of_0_and_1_get_jeffreys_interval_and_posterior() -> None:
    marks = binary([0, 12, 20], 20)
    scores = mark_estimates(marks, seed=3)
    assert scores.score == pytest.approx([0, 0.6, 1])
    assert scores.lower == pytest.approx([0, stats.beta.ppf(0.025, 12.5, 8.5), stats.beta.ppf(0.025, 20.5, 0.5)])
    assert scores.upper == pytest.approx([stats.beta.ppf(0.975, 0.5, 20.5), stats.beta.ppf(0.975, 12.5, 8.5), 1])
    for level in (0.2, 0.5, 0.8, 0.95):  # of a rule that might give a little more intervals are those of draws
        drawn = mark_estimates(marks, seed=3, draws=20_000, level=level, span=(0.0, 1.0 + 1e-9))
        for model, right in enumerate((0, 12, 20)):
            ends = stats.beta(right + 0.5, 20 - right + 0.5).interval(level)
            assert (drawn.lower[model], drawn.upper[model]) == pytest.approx(ends, abs=0.006)


LEADS = [
    # items, right of both, of the first alone, of the second alone, whether an interval of 95 % leaves 0 out
    (3, 0, 3, 0, False), (4, 0, 3, 1, False), (4, 0, 4, 0, False), (6, 0, 6, 0, True), (10, 3, 4, 0, False),
    (10, 3, 6, 0, True), (100, 0, 3, 0, False), (100, 60, 3, 0, False), (100, 97, 3, 0, False), (100, 60, 4, 0, False),
    (100, 60, 6, 0, True), (100, 94, 6, 0, True), (100, 60, 5, 2, False), (100, 60, 8, 1, True), (100, 60, 9, 3, False),
    (100, 60, 14, 3, True),
]  # fmt: skip


@pytest.mark.parametrize(("items", "both", "first", "second", "apart"), LEADS)
def test_a_lead_is_as_sure_as_the_items_on_which_two_models_differ_make_it(
    items: int, both: int, first: int, second: int, apart: bool
) -> None:
    marks = np.zeros((2, items))
    marks[:, :both], marks[0, both : both + first], marks[1, both + first : both + first + second] = 1.0, 1.0, 1.0
    found = difference(mark_estimates(marks, seed=0, draws=20_000).draws, 0, 1)
    assert found.better == pytest.approx(float(stats.beta.sf(0.5, first + 1, second + 1)), abs=0.01)
    assert (found.lower > 0) == apart
    if apart:
        assert stats.binomtest(first, first + second).pvalue <= 0.05


@pytest.mark.parametrize("values", [(0.0, 0.5, 1.0), (-1.0, 0.0, 1.0), (0.0, 0.25, 0.5, 1.0)])
@pytest.mark.parametrize("items", [30, 150])
def test_intervals_of_graded_marks_hold_the_truth(values: tuple[float, ...], items: int) -> None:
    rng = np.random.default_rng(11)
    weights = np.arange(1.0, len(values) + 1)
    weights /= weights.sum()
    truth = float(np.dot(values, weights))
    marks = rng.choice(values, (400, items), p=weights)
    scores = mark_estimates(marks, seed=5, draws=1500)
    held = (scores.lower <= truth) & (truth <= scores.upper)
    assert held.mean() == pytest.approx(0.95, abs=0.03)


STRATA = [(25, 40), (5, 10)]
"""How many, and items in each."""


@pytest.mark.parametrize(("shape", "ease"), tiered(STRATA, (0.0, 2.0), ci=[(STRATA[0], 2.0), (STRATA[1], 0.0)]))
def test_intervals_within_strata_hold_the_truth_and_are_narrower_where_strata_differ(
    shape: tuple[int, int], ease: float
) -> None:
    count, size = shape
    rate = 1 / (1 + np.exp(-(ease + 2.5 * np.linspace(1, -1, count))))
    marks = (np.random.default_rng(7).random((400, count * size)) < np.repeat(rate, size)).astype(float)
    strata = large_strata([f"{one}" for one in range(count) for _ in range(size)], marks)
    assert strata is not None
    scores = mark_estimates(marks, seed=5, draws=1500, strata=strata)
    plain = mark_estimates(marks, seed=5, draws=10)
    held = (scores.lower <= rate.mean()) & (rate.mean() <= scores.upper)
    assert held.mean() == pytest.approx(0.95, abs=0.03)
    assert ((scores.lower <= scores.score) & (scores.score <= scores.upper)).all()
    width, usual = (one.upper - one.lower for one in (scores, plain))
    assert width.mean() < 0.92 * usual.mean()


def test_marks_that_are_all_the_same_are_not_certain() -> None:
    marks = np.array([[0.5] * 12, [0.0] * 11 + [0.25]])
    half = mark_estimates(marks, seed=0)
    assert half.score[0] == 0.5
    assert half.lower[0] < 0.49 < 0.51 < half.upper[0]


def test_an_item_a_model_was_not_asked_counts_neither_for_nor_against_it() -> None:
    marks = np.array([[1.0, 0.0, np.nan, np.nan], [1.0, 0.0, 1.0, 1.0]])
    scores = mark_estimates(marks, seed=0, draws=200)
    assert scores.score.tolist() == [0.5, 0.75]
    assert scores.upper[0] - scores.lower[0] > scores.upper[1] - scores.lower[1]
