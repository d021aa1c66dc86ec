"""The hierarchical posterior: equal to dense quadrature, the same every time, and one law for all that is said."""

from __future__ import annotations

import numpy as np
import pytest

from layton_batch.stats import hierarchical
from layton_batch.stats.hierarchical import OWN_SPREAD, SLOPES, SPREADS, Fit, Shares, fit
from layton_batch.stats.hierarchical_scores import collapsed, hierarchical_scores, mean_score, slope_interval
from layton_batch.stats.joint import JointDraws
from layton_batch.stats.label_table import LabelTable, label_table
from layton_batch.stats.rate_draws import draws_on_new, draws_on_these, rate_draws
from layton_batch.stats.strata import FloatArray, GoldPredictions, Strata, TargetPredictions, build_strata

from .gate import measure
from .worlds import WORLDS, World, draw

LABELS = np.array([[6.0, 9.0], [4.0, 12.0], [0.0, 0.0]])
POSITIVES = np.array([[1.0, 7.0], [0.0, 11.0], [0.0, 0.0]])
ABILITY = np.array([-0.8, 0.5, 1.4])


def small_table() -> LabelTable:
    """Two models with labels and a newcomer, of three makers; all no and all yes of three seats."""
    return LabelTable(
        yes=np.array([0, 3]), total=np.array([3, 3]), labels=LABELS, positives=POSITIVES, ability=ABILITY,
        sway=np.zeros((3, 2)), doubt=np.zeros(3), maker=np.array([0, 1, 2]), place=np.array([0, 1]),
    )  # fmt: skip


def sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-x)))


def by_quadrature() -> tuple[FloatArray, FloatArray]:
    """Mean and variance [3, 2] of the rates: maker and model deviation as one normal law by Gauss and Hermite, the log
    odds of the votes on a fine grid of their own, slope and spread by the same chances."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    grid = np.arange(-9.0, 9.0, 0.03)
    centre = float(np.average(ABILITY, weights=LABELS.sum(axis=1)))
    low = hierarchical.LEAST_RATE
    priors = [-0.5 * ((grid - c) / hierarchical.PRIOR_SPREAD) ** 2 for c in np.log([low / (1 - low), (1 - low) / low])]
    total, first, second = 0.0, np.zeros((3, 2)), np.zeros((3, 2))
    for slope in SLOPES:
        for at, spread in enumerate(SPREADS):
            sd = float(np.hypot(spread, OWN_SPREAD))
            rate = sigmoid(
                grid[None, :, None] + slope * (ABILITY - centre)[:, None, None] + sd * nodes
            )  # [3, grid, nodes]
            laws = []
            for b in range(2):
                likelihood = rate ** POSITIVES[:, b, None, None] * (1 - rate) ** (LABELS - POSITIVES)[:, b, None, None]
                plain = likelihood @ weights
                with_rate = np.stack([(likelihood * rate**power) @ weights for power in (1, 2)])
                laws.append((plain, with_rate, np.exp(priors[b])))
            chance = np.exp(-0.5 * ((slope - 0.5) / 0.5) ** 2) * hierarchical.SPREAD_CHANCES[at]
            masses = [plain.prod(axis=0) * prior for plain, _, prior in laws]
            below, above = np.cumsum(masses[0]), np.cumsum(masses[1][::-1])[::-1]
            total += chance * float((masses[0] * above).sum())
            for b, other in ((0, above), (1, below)):
                plain, with_rate, _ = laws[b]
                for k in range(3):
                    factor = masses[b] / plain[k] * other
                    first[k, b] += chance * float((factor * with_rate[0, k]).sum())
                    second[k, b] += chance * float((factor * with_rate[1, k]).sum())
    mean = first / total
    return mean, second / total - mean**2


def moments(found: Fit) -> tuple[FloatArray, FloatArray]:
    rate = found.alpha / (found.alpha + found.beta)
    square = rate * (found.alpha + 1) / (found.alpha + found.beta + 1)
    mean, second = found.mean(rate), found.mean(square)
    return mean, second - mean**2


def test_means_and_variances_are_those_of_dense_quadrature() -> None:
    (mean, variance), (want, spread) = moments(fit(small_table(), 3)), by_quadrature()
    assert mean == pytest.approx(want, abs=2e-3)
    assert np.sqrt(variance) == pytest.approx(np.sqrt(spread), rel=0.03)


def one_board(seed: int, world: World | None = None) -> tuple[Strata, TargetPredictions, Fit]:
    board = draw(world or World(slope=0.35), np.random.default_rng(seed))
    strata = build_strata(board.target, board.gold, by_seats=True)
    return strata, board.target, fit(label_table(board.target, board.gold, strata), len(strata.items))


def test_the_same_board_gives_the_same_digits() -> None:
    (strata, _, first), (_, _, second) = one_board(3), one_board(3)
    assert hierarchical_scores(strata, first) == hierarchical_scores(strata, second)
    assert (rate_draws(first, seed=1, draws=300) == rate_draws(second, seed=1, draws=300)).all()


def test_draws_intervals_and_plans_are_of_one_law() -> None:
    strata, target, found = one_board(4)
    rows = hierarchical_scores(strata, found)
    rates = rate_draws(found, seed=0, draws=6000)
    post = collapsed(strata, found)
    mean, _ = moments(found)
    assert post.alpha / (post.alpha + post.beta) == pytest.approx(mean)
    assert rates.mean(axis=0) == pytest.approx(mean, abs=0.015)
    here, new = draws_on_these(strata, rates, seed=0), draws_on_new(strata, target, found, rates, seed=0)
    assert here.theta.mean(axis=0) == pytest.approx(mean_score(strata, found), abs=4e-3)
    for i, row in enumerate(rows):
        for draws, low, high in ((here, row.lower, row.upper), (new, row.new_lower, row.new_upper)):
            assert share_inside(draws, i, low, high) == pytest.approx(0.955, abs=0.03)


def share_inside(draws: JointDraws, model: int, low: float | None, high: float | None) -> float:
    assert low is not None
    assert high is not None
    theta = draws.theta[:, model]
    return float(((theta >= low - 1e-9) & (theta <= high + 1e-9)).mean())


def test_the_slope_is_found_where_votes_mean_more_for_better_models() -> None:
    flat = [slope_interval(one_board(seed, World(slope=0.0, labels=130))[2])[0] for seed in range(5)]
    steep = [slope_interval(one_board(seed, World(slope=1.0, labels=130))[2])[0] for seed in range(5)]
    assert np.mean(flat) < 0.3
    assert np.mean(steep) > 0.7


def test_rates_rise_with_the_vote_also_where_labels_are_few() -> None:
    _, _, found = one_board(5, World(labels=2))
    rate = found.alpha / (found.alpha + found.beta)
    assert (np.diff(found.mean(rate), axis=1) > 0).all()


def test_labels_of_another_jury_widen_every_interval() -> None:
    board = draw(World(), np.random.default_rng(6))
    whose = np.full(len(board.gold.label), -1)
    gold = GoldPredictions(whose, board.gold.provider + 9, board.gold.yes, board.gold.total, board.gold.label, whose)
    strata = build_strata(board.target, gold, by_seats=True)
    table = label_table(board.target, gold, strata)
    models = len(strata.items)
    own, other = (hierarchical_scores(strata, fit(table, models, other_jury=flag)) for flag in (False, True))
    widths = [[(row.upper or 0) - (row.lower or 0) for row in rows] for rows in (own, other)]
    assert all(b > a for a, b in zip(*widths, strict=True))


def test_no_labels_at_all_say_little() -> None:
    board = draw(World(labels=0), np.random.default_rng(7))
    strata = build_strata(board.target, board.gold, by_seats=True)
    for row in hierarchical_scores(strata, fit(label_table(board.target, board.gold, strata), len(strata.items))):
        assert (row.upper or 0) - (row.lower or 0) > 0.1
        assert "no_gold" in row.flags


def test_votes_of_other_seats_share_what_they_say_and_no_more() -> None:
    board = draw(World(missing=0.3, labels=130), np.random.default_rng(8))
    strata = build_strata(board.target, board.gold, by_seats=True)
    table = label_table(board.target, board.gold, strata)
    shares = Shares.of(table)
    assert not shares.alone[(table.yes == 0) & (table.total > 0)].any()
    found = fit(table, len(strata.items))
    assert np.isfinite(found.alpha).all()
    assert (found.alpha > 0).all()
    assert (found.beta > 0).all()


def test_thousands_of_labels_leave_no_number_that_is_none() -> None:
    table = small_table()
    many = LabelTable(
        table.yes, table.total, table.labels * 900, (table.labels - table.positives) * 900, table.ability, table.sway,
        table.doubt, table.maker, table.place,
    )  # fmt: skip
    mean, variance = moments(fit(many, 3))  # against the order of the votes, and by more than a double can hold
    assert np.isfinite(mean).all()
    assert (variance > 0).all()


def test_where_a_vote_means_more_for_a_better_model_only_this_method_keeps_its_promise() -> None:
    cells = measure(World(slope=1.0), 25, seed=11, draws=0)
    mine, calibrated = cells["hierarchical"], cells["calibrated"]
    assert mine.held.mean() > 0.93
    assert mine.held_new.mean() > 0.92
    assert calibrated.held.mean() < 0.80
    assert mine.width[:, : mine.labelled].mean() < 1.1 * calibrated.width[:, : mine.labelled].mean()


def test_models_without_labels_are_held_also_where_the_votes_say_little_of_their_ability() -> None:
    cell = measure(WORLDS["judges near useless"], 40, seed=1, draws=0)["hierarchical"]
    assert cell.held[:, cell.labelled :].mean() >= 0.92
    assert cell.held[:, : cell.labelled].mean() >= 0.92


def test_errors_in_the_abilities_do_not_flatten_the_slope() -> None:
    world, rng = WORLDS["noisy judges"], np.random.default_rng(3)
    slopes = []
    for _ in range(20):
        board = draw(world, rng)
        strata = build_strata(board.target, board.gold, by_seats=True)
        slopes.append(slope_interval(fit(label_table(board.target, board.gold, strata), len(strata.items)))[0])
    assert 0.9 < np.mean(slopes) < 1.4
