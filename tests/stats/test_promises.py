"""Promises that were once broken: what is printed of few items, scores at an end, many models and small juries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.stats import rankdata

from layton_batch.stats.counts import FloatArray, LabelledAnswers, Predictions
from layton_batch.stats.marks import mark_estimates
from layton_batch.stats.ranks import rank_ranges
from tests.support.tiers import tiered

from .boards import scored


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def one_model(items: int, votes: int = 3, right: int | None = None) -> tuple[Predictions, LabelledAnswers]:
    """A model whose jury is unanimous on each answer, and 400 labels of others that agree with a unanimous jury."""
    yes = np.where(np.arange(items) < (items if right is None else right), votes, 0)
    target = Predictions(
        np.zeros(items, dtype=np.int64), np.arange(items), yes, np.full(items, votes), np.zeros(items, dtype=np.bool_),
        ints(0),
    )  # fmt: skip
    whose, said = np.full(400, -1), np.arange(400) % 2
    return target, LabelledAnswers(whose, np.ones(400, dtype=np.int64), 3 * said, np.full(400, 3), said, whose)


# ---- new items -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("items", tiered((5, 20, 42, 186), ci=(5, 42)))
def test_the_interval_for_new_items_holds_a_score_near_an_end(items: int) -> None:
    rng = np.random.default_rng(items)
    drawn: list[int] = rng.binomial(items, 0.97, 400).tolist()
    by_right = {}
    for right in set(drawn):
        (row,) = scored(*one_model(items, right=right))
        by_right[right] = row.new_lower, row.new_upper
    held = [by_right[right][0] <= 0.97 <= by_right[right][1] for right in drawn]
    assert np.mean(held) > 0.92


@pytest.mark.parametrize("items", tiered((1, 2, 5, 20), ci=(1, 2, 5)))
def test_no_interval_leaves_its_own_score_out(items: int) -> None:
    for right in range(items + 1):
        (row,) = scored(*one_model(items, right=right))
        assert row.lower <= row.score <= row.upper
        assert row.new_lower <= row.new_score <= row.new_upper


# ---- ranks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("models", tiered((9, 100, 1000), ci=(9, 100)))
def test_rank_ranges_hold_all_ranks_at_once_in_draws_that_did_not_make_them(models: int) -> None:
    rng = np.random.default_rng(models)
    means = rng.normal(0.5, 0.15, models)

    def drawn(count: int) -> FloatArray:
        return rng.normal(means, 0.02, (count, models))

    sets, ranks = rank_ranges(drawn(4000)), rankdata(-drawn(1500), method="min", axis=1)
    content = ((ranks >= sets.best) & (ranks <= sets.worst)).all(axis=1).mean()
    assert content > 0.93  # .69 with 1,000 models where the same draws made and checked the ranges


def test_rank_ranges_of_many_models_are_made_of_draws_from_the_whole_posterior() -> None:
    rng = np.random.default_rng(3)
    means = rng.uniform(0.2, 0.9, 500)
    spreads = np.linspace(0.005, 0.04, 4000)[:, None]  # draws stand by the point of the posterior that they are from
    sets = rank_ranges(means + spreads * rng.normal(size=(4000, 500)))
    fresh = rankdata(-(means + rng.uniform(0.005, 0.04, (600, 1)) * rng.normal(size=(600, 500))), method="min", axis=1)
    assert ((fresh >= sets.best) & (fresh <= sets.worst)).all(axis=1).mean() > 0.93  # of the first draws alone: .87


def test_rank_ranges_hold_all_ranks_of_equal_models_at_once_and_not_much_more() -> None:
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        means = rng.normal(0.8, 0.03, 7)  # estimates of seven equal models
        sets = rank_ranges(rng.normal(means, 0.03, (2000, 7)))
        held += bool((sets.best == 1).all() and (sets.worst == 7).all())
    assert 0.92 < held / 400 < 0.985  # ranges of drawn ranks: about .3


# ---- the number of votes -------------------------------------------------------------------------------------------


def test_one_judge_s_yes_is_not_three_judges_yes() -> None:
    (one,), (three,) = (scored(*one_model(50, votes)) for votes in (1, 3))
    assert one.lower < 0.8 < 0.91 < three.lower


# ---- smaller ones --------------------------------------------------------------------------------------------------


def test_the_range_of_a_rule_does_not_hang_on_the_marks_of_the_board() -> None:
    marks = np.ones((1, 20))
    span = (-1.0, 1.0)
    lows = []
    for board in (marks, np.vstack([marks, np.r_[-1.0, np.ones(19)]])):
        lows.append(float(mark_estimates(board, seed=0, draws=20_000, span=span).lower[0]))
    assert lows[0] == pytest.approx(lows[1], abs=0.01)
    assert lows[0] == pytest.approx(2 * float(stats.beta.ppf(0.025, 20.5, 0.5)) - 1, abs=0.01)
