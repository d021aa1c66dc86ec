"""Label plans: the recorded numbers, the exact expected variance, and rows that can be handed to people."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from layton_batch.stats.planning import (
    LabelPlan,
    balanced_rows,
    expected_variance,
    plan_budget,
    plan_labels,
    rows_to_label,
)
from layton_batch.stats.posterior import Posterior
from layton_batch.stats.strata import Strata

from .boards import Board, make_strata

BINS = [(0, 1), (1, 3), (2, 3), (1, 1)]


def posterior(strata: Strata) -> Posterior:
    """What the labels of a bin say of its rate, whoever wrote the answers."""
    yes = strata.borrowed_positives + strata.own_positives
    no = strata.borrowed_labels + strata.own_labels - yes
    return Posterior(yes + 0.5, no + 0.5, strata.n - strata.own_labels)


def half_width(strata: Strata, plan: LabelPlan) -> float:
    """The expected half width at 95 % once the plan's labels are there."""
    extra = np.zeros_like(strata.n)
    extra[plan.model] = plan.labels
    variance = expected_variance(strata, posterior(strata), extra)[plan.model]
    return NormalDist().inv_cdf(0.975) * max(float(variance), 0.0) ** 0.5


def test_the_expected_variance_is_exact() -> None:
    strata = make_strata(BINS, [[30, 5, 6, 40]], [[(60, 1), (9, 3), (12, 8), (150, 149)]])
    post = posterior(strata)
    now = expected_variance(strata, post)[0] * 81**2
    for b in range(4):
        a, c, u = post.alpha[0, b], post.beta[0, b], int(post.unlabelled[0, b])
        x = min(3, u)
        expected = 0.0
        for k in range(x + 1):  # enumerate what the x labels may say
            chance = float(stats.betabinom.pmf(k, x, a, c))
            expected += chance * float(stats.betabinom.var(u - x, a + k, c + x - k))
        extra = np.zeros((1, 4), dtype=np.int64)
        extra[0, b] = x
        change = now - expected_variance(strata, post, extra)[0] * 81**2
        assert float(stats.betabinom.var(u, a, c)) - change == pytest.approx(expected)


def test_no_other_choice_of_as_many_labels_does_better() -> None:
    strata = make_strata(BINS, [[8, 3, 4, 9]], [[(30, 1), (4, 1), (5, 4), (60, 59)]])
    plan = plan_labels(strata, 0, 0.03, post=posterior(strata))
    post = posterior(strata)
    assert plan.count > 0
    best = np.inf
    for choice in np.ndindex(9, 4, 5, 10):
        if sum(choice) == plan.count:
            best = min(best, float(expected_variance(strata, post, np.array([choice]))[0]))
    assert float(expected_variance(strata, post, plan.labels[None])[0]) == pytest.approx(best)
    fewer = min(
        float(expected_variance(strata, post, np.array([c]))[0])
        for c in np.ndindex(9, 4, 5, 10)
        if sum(c) == plan.count - 1
    )
    assert 1.96 * fewer**0.5 > 0.03


@pytest.mark.shared_data
def test_contested_items_come_first_and_labelled_ones_never(boards: dict[str, Board]) -> None:
    board = boards["both_correct"]
    model = board.names.index("moonshotai-kimi-k2-thinking")
    plan = plan_labels(board.strata, model, 0.01, post=posterior(board.strata))
    rows = rows_to_label(board.strata, board.target, plan, seed=4, post=posterior(board.strata))
    assert len(rows) == len(set(rows.tolist())) == plan.count == 12
    assert (board.target.model[rows] == model).all()
    assert (board.strata.row_label[rows] < 0).all()
    assert ((board.yes[rows] > 0) & (board.yes[rows] < board.total[rows])).all()
    assert (
        rows_to_label(board.strata, board.target, plan, seed=4, post=posterior(board.strata)).tolist() == rows.tolist()
    )
    assert (
        rows_to_label(board.strata, board.target, plan, seed=5, post=posterior(board.strata)).tolist() != rows.tolist()
    )


def test_a_half_width_of_zero_takes_every_label_and_a_negative_one_is_refused() -> None:
    strata = make_strata(BINS, [[8, 3, 4, 9]], [[(30, 1), (4, 1), (5, 4), (60, 59)]])
    plan = plan_labels(strata, 0, 0.0, post=posterior(strata))
    assert plan.labels.tolist() == [8, 3, 4, 9]
    assert half_width(strata, plan) == 0.0
    with pytest.raises(ValueError, match="half width"):
        plan_labels(strata, 0, -1.0, post=posterior(strata))
    with pytest.raises(ValueError, match="level"):
        plan_labels(strata, 0, 0.1, level=1.0, post=posterior(strata))


@pytest.mark.shared_data
def test_the_balanced_design_is_even_over_providers_models_and_items(boards: dict[str, Board]) -> None:
    board = boards["both_correct"]
    rows = balanced_rows(board.strata, board.target, 90, seed=2)
    assert len(set(rows.tolist())) == 90
    models = np.bincount(board.target.model[rows], minlength=9)
    providers = np.bincount(board.provider[board.target.model[rows]])
    assert providers.max() - providers.min() <= 1
    for p in range(len(board.providers)):
        of = models[board.provider == p]
        assert of.max() - of.min() <= 1
    assert np.bincount(board.target.item[rows]).max() <= 1
    assert (board.strata.row_label[rows] < 0).all()
    everything = balanced_rows(board.strata, board.target, 10**6)
    assert len(everything) == int((board.strata.row_label < 0).sum())


def test_the_variance_function_takes_a_posterior_as_it_is() -> None:
    strata = make_strata([(1, 1)], [[10]], [[(0, 0)]])
    post = Posterior(np.array([[2.0]]), np.array([[3.0]]), np.array([[10]]))
    assert expected_variance(strata, post)[0] * 100 == pytest.approx(float(stats.betabinom.var(10, 2, 3)))


@pytest.mark.shared_data
def test_a_budget_shortens_the_widest_interval_as_far_as_it_reaches(boards: dict[str, Board]) -> None:
    strata = boards["both_correct"].strata
    models = range(9)
    plans = plan_budget(strata, 24, models, post=posterior(strata))
    assert sum(p.count for p in plans) == 24
    assert plans == tuple(sorted(plans, key=lambda p: (-p.count, p.model)))
    widest = max(half_width(strata, p) for p in plans)
    for p in plans:  # one label fewer anywhere would leave that model wider than the widest is now
        if p.count:
            short = plan_labels(strata, p.model, widest, post=posterior(strata))
            assert p.count <= short.count + 1
    aimed = [plan_labels(strata, m, 0.01, post=posterior(strata)).count for m in models]
    assert sum(aimed) == 24
    assert widest <= 0.01 + 1e-12


def test_a_budget_beyond_all_items_labels_them_all_and_a_negative_one_is_refused() -> None:
    strata = make_strata(BINS, [[8, 3, 4, 9]] * 2, [[(30, 1), (4, 1), (5, 4), (60, 59)]] * 2)
    plans = plan_budget(strata, 1000, [0, 1], post=posterior(strata))
    assert [p.count for p in plans] == [24, 24]
    assert [half_width(strata, p) for p in plans] == [0.0, 0.0]
    assert plan_budget(strata, 0, [0], post=posterior(strata))[0].count == 0
    with pytest.raises(ValueError, match="number of labels"):
        plan_budget(strata, -1, [0], post=posterior(strata))
