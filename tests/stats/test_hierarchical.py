"""The hierarchical posterior: equal to plain importance sampling, the same every time, and one law for all that is
said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from layton_batch.stats import hierarchical
from layton_batch.stats.counts import Counts, FloatArray, LabelledAnswers, Predictions, count
from layton_batch.stats.distributions import beta_binomial_pmf, beta_interval, shortest_set
from layton_batch.stats.hierarchical import Fit, fit
from layton_batch.stats.hierarchical_scores import slope_interval, summarize
from tests.support.tiers import tiered

from .boards import rows_of
from .truth_worlds import WORLDS as TRUTH_WORLDS
from .truth_worlds import TruthWorld
from .truth_worlds import draw as draw_truth_first
from .worlds import World, draw

LABELS = np.array([[6, 9], [4, 12], [0, 0]])
POSITIVES = np.array([[1, 7], [0, 11], [0, 0]])
ITEMS = np.array([[20, 30], [12, 40], [35, 15]])
MEANS = np.array([[0.06264282, 0.87109395], [0.07768866, 0.91018552], [0.07044996, 0.84328659]])
VARIANCES = np.array([[0.00331267, 0.00642649], [0.00522816, 0.00329068], [0.00926938, 0.02501602]])
"""Of the rates of the small table, by plain importance sampling: 20,000 draws of what all models share from its prior,
weighed by the likelihood, with own deviations and kindness summed over 11 and 25 nodes and abilities over a grid of
steps of .2 from -8 to 8."""


def small_table() -> Counts:
    """Two models with labels and a newcomer, of three makers; all no and all yes of three seats."""
    nothing = np.zeros(0, dtype=np.int64)
    return Counts(
        predictions=Predictions(nothing, nothing, nothing, nothing, nothing == 1, np.arange(3)), yes=np.array([0, 3]),
        total=np.array([3, 3]), bins=np.array([0, 1]), n=ITEMS, own_labels=LABELS, own_positives=POSITIVES,
        known_zeros=np.zeros(3, dtype=np.int64), labels=LABELS, positives=POSITIVES, maker=np.arange(3),
        row_bin=nothing, row_label=nothing,
    )  # fmt: skip


def moments(found: Fit) -> tuple[FloatArray, FloatArray]:
    """Means and variances of all rates."""
    alpha, beta = summarize(found).rates
    size = alpha + beta
    return alpha / size, alpha * beta / (size**2 * (size + 1))


def test_means_and_variances_are_those_of_plain_importance_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    want, spread = MEANS, VARIANCES
    few, few_variance = moments(fit(small_table()))
    monkeypatch.setattr(hierarchical, "_TRIALS", 8192)
    many, many_variance = moments(fit(small_table(), points=4096))
    assert many == pytest.approx(want, abs=3e-3)
    assert np.sqrt(many_variance) == pytest.approx(np.sqrt(spread), rel=0.05)
    assert (np.abs(few - want) < 0.15 * np.sqrt(spread)).all()  # with as many points as a board gets
    assert np.sqrt(few_variance) == pytest.approx(np.sqrt(spread), rel=0.15)


def one_board(seed: int, world: World | None = None) -> Fit:
    board = draw(world or World(slope=0.35), np.random.default_rng(seed))
    return fit(count(board.target, board.gold))


def test_the_same_board_gives_the_same_digits() -> None:
    first, second = (summarize(one_board(3), draws=300, seed=1) for _ in range(2))
    assert rows_of(first) == rows_of(second)
    assert (first.here.draws == second.here.draws).all()
    assert (first.new.draws == second.new.draws).all()


def test_draws_and_intervals_are_of_one_law() -> None:
    found = summarize(one_board(4), draws=6000)
    here, new = found.here.draws, found.new.draws
    assert here.mean(axis=0) == pytest.approx([row.score for row in rows_of(found)], abs=4e-3)
    for i, row in enumerate(rows_of(found)):
        for draws, low, high in ((here, row.lower, row.upper), (new, row.new_lower, row.new_upper)):
            assert share_inside(draws, i, low, high) == pytest.approx(0.955, abs=0.03)


def share_inside(draws: FloatArray, model: int, low: float, high: float) -> float:
    theta = draws[:, model]
    return float(((theta >= low - 1e-9) & (theta <= high + 1e-9)).mean())


@pytest.mark.parametrize("boards", tiered((1, 5), ci=(1,)))
def test_the_slope_is_found_where_votes_mean_more_for_better_models(boards: int) -> None:
    flat = [slope_interval(one_board(seed, World(slope=0.0, labels=130)))[0] for seed in range(boards)]
    steep = [slope_interval(one_board(seed, World(slope=1.0, labels=130)))[0] for seed in range(boards)]
    assert np.mean(flat) < 0.3
    assert np.mean(steep) > 0.7


def test_rates_rise_with_the_vote_also_where_labels_are_few() -> None:
    found = one_board(5, World(labels=2))
    mean, _ = moments(found)
    assert (np.diff(mean, axis=1) > 0).all()


def test_labels_of_another_jury_widen_every_interval() -> None:
    board = draw(World(), np.random.default_rng(6))
    whose = np.full(len(board.gold.correct), -1)
    gold = LabelledAnswers(whose, board.gold.maker + 9, board.gold.yes, board.gold.total, board.gold.correct, whose)
    counts = count(board.target, gold)
    own, other = (rows_of(summarize(fit(counts, other_jury=flag))) for flag in (False, True))
    widths = [[row.upper - row.lower for row in rows] for rows in (own, other)]
    assert all(b > a for a, b in zip(*widths, strict=True))


def test_no_labels_at_all_say_little() -> None:
    board = draw(World(labels=0), np.random.default_rng(7))
    for row in rows_of(summarize(fit(count(board.target, board.gold)))):
        assert row.upper - row.lower > 0.1


def test_votes_of_other_seats_share_what_they_say_and_no_more() -> None:
    board = draw(World(missing=0.3, labels=130), np.random.default_rng(8))
    table = count(board.target, board.gold)
    alone = (table.yes == 1) & (table.total == 1)  # one judge, yes: its labels are taken away
    fewer = replace(table, labels=np.where(alone, 0, table.labels), positives=np.where(alone, 0, table.positives))
    (all_mean, all_variance), (mean, variance) = (moments(fit(one)) for one in (table, fewer))
    one_yes = int(np.flatnonzero(alone[table.bins])[0])
    assert np.isfinite(all_mean).all()
    assert (mean[:, one_yes] > 0.5).all()  # by the labels of two and three judges who all say yes
    assert variance[:, one_yes].mean() > 1.5 * all_variance[:, one_yes].mean()


def test_thousands_of_labels_leave_no_number_that_is_none() -> None:
    table = small_table()
    many = replace(table, labels=table.labels * 900, positives=(table.labels - table.positives) * 900)
    mean, variance = moments(fit(many))  # against the order of the votes, and by more than a double can hold
    assert np.isfinite(mean).all()
    assert (variance > 0).all()


def held_by(
    world: TruthWorld | World,
    boards: int,
    *,
    on_new: bool = False,
    rng: np.random.Generator | None = None,
    **how: float,
) -> tuple[FloatArray, FloatArray]:
    """Shares of boards on which the interval of each model holds the truth on these items, or on new ones, and mean
    half widths. ``rng`` draws all boards; by default each has a seed of its own."""
    held, width = [], []
    for seed in range(boards):
        board = draw_truth_first(world, rng or np.random.default_rng(seed))
        rows = rows_of(summarize(fit(count(board.target, board.gold), **how)))
        ends = [(row.new_lower, row.new_upper) if on_new else (row.lower, row.upper) for row in rows]
        low, high = np.array(ends, dtype=np.float64).T
        truth = board.new if on_new else board.here
        held.append((low - 1e-9 <= truth) & (truth <= high + 1e-9))
        width.append((high - low) / 2)
    return np.mean(held, axis=0), np.mean(width, axis=0)


@pytest.mark.parametrize("boards", tiered((2, 25), ci=(2,)))
@pytest.mark.parametrize("on_new", [False, True])
def test_intervals_hold_where_a_vote_means_more_for_a_better_model(boards: int, on_new: bool) -> None:
    held, _ = held_by(World(slope=1.0), boards, on_new=on_new, rng=np.random.default_rng(11))
    assert held.mean() > (0.92 if on_new else 0.93)


@pytest.mark.parametrize("boards", tiered((4, 40), ci=(4,)))
def test_models_without_labels_are_held_also_where_the_votes_say_little_of_their_ability(boards: int) -> None:
    held, _ = held_by(TRUTH_WORLDS["near useless .58"], boards)
    assert held[7:].mean() >= 0.92
    assert held[:7].mean() >= 0.92


@pytest.mark.parametrize("boards", tiered((1, 20), ci=(1,)))
def test_errors_in_the_abilities_do_not_flatten_the_slope(boards: int) -> None:
    """Judges who err alike on everybody's answers: the slope is 1."""
    world = TruthWorld(sees_right=(0.75, 0.75), sees_wrong=(0.75, 0.75), by_answer=0, by_item=0, lean=0, kindness=0)
    drawn = [draw_truth_first(world, np.random.default_rng(seed)) for seed in range(boards)]
    slopes = [slope_interval(fit(count(board.target, board.gold)))[0] for board in drawn]
    assert 0.8 < np.mean(slopes) < 1.4


@pytest.mark.parametrize("error", [0.0, 0.02])
@pytest.mark.parametrize(
    ("world", "boards"),
    tiered(
        ("honest", "noisy .65", "near useless .58", "floors", "20 items"), (2, 6),
        ci=[("near useless .58", 2), ("floors", 2), ("20 items", 2)],
    ),
)  # fmt: skip
def test_no_interval_is_longer_than_the_model_s_own_labels_give_without_a_jury(
    world: str, boards: int, error: float
) -> None:
    """Unless that one leaves the score out. Labels that may be wrong give a longer one."""
    for seed in range(boards):
        board = draw_truth_first(TRUTH_WORLDS[world], np.random.default_rng(seed))
        counts = count(board.target, board.gold)
        labels, yes = counts.own_labels.sum(axis=1), counts.own_positives.sum(axis=1)
        low, high = (end / (1 - 2 * error) for end in beta_interval(0.95, yes + 0.5, labels - yes + 0.5))
        low, high = low - error / (1 - 2 * error), high - error / (1 - 2 * error)
        laws = beta_binomial_pmf(counts.items - labels, yes + 0.5, labels - yes + 0.5)
        rows = rows_of(summarize(fit(counts, label_error=error)))
        for k in np.flatnonzero(labels):
            first, last = shortest_set(laws[k], 0.95) + yes[k]
            row, items = rows[k], counts.items[k]
            if low[k] <= min(row.score, row.new_score) and max(row.score, row.new_score) <= high[k]:
                assert row.new_upper - row.new_lower <= high[k] - low[k] + 1e-9
            if not error and first <= row.score * items <= last:
                assert row.upper - row.lower <= (last - first) / items + 1e-9


@pytest.mark.parametrize("items", [3, 5, 9])
def test_few_items_say_no_more_of_new_ones_than_if_it_was_known_which_are_right(items: int) -> None:
    world = replace(TRUTH_WORLDS["5 items, 1 model"], items=items, labels=2)
    assert isinstance(world, TruthWorld)
    for seed in range(4):
        board = draw_truth_first(world, np.random.default_rng(seed))
        (row,) = rows_of(summarize(fit(count(board.target, board.gold))))
        low, high = beta_interval(0.95, np.array([items * row.score + 0.5]), np.array([items * (1 - row.score) + 0.5]))
        assert row.new_upper - row.new_lower >= high[0] - low[0] - 1e-9


def test_a_jury_that_is_always_right_leaves_the_interval_of_as_many_labels_as_items() -> None:
    world = TruthWorld(sees_right=(0.999, 0.999), sees_wrong=(0.999, 0.999), by_answer=0, by_item=0, lean=0, kindness=0)
    board = draw_truth_first(world, np.random.default_rng(1))
    rows = rows_of(summarize(fit(count(board.target, board.gold))))
    right = board.here * world.items
    low, high = beta_interval(0.95, right + 0.5, world.items - right + 0.5)
    width = np.array([row.new_upper - row.new_lower for row in rows])
    assert width == pytest.approx(high - low, rel=0.1)
    assert width.mean() == pytest.approx((high - low).mean(), rel=0.03)


@pytest.mark.parametrize("boards", tiered((2, 8), ci=(2,)))
def test_where_labels_can_be_wrong_the_intervals_allow_for_it(boards: int) -> None:
    held: dict[float, list[bool]] = {0.0: [], 0.05: []}
    for seed in range(boards):
        board = draw_truth_first(TRUTH_WORLDS["5 % wrong labels"], np.random.default_rng(seed))
        counts = count(board.target, board.gold)
        for error, found in held.items():
            one = summarize(fit(counts, label_error=error), draws=2000)
            rows = rows_of(one)[:7]
            found += [
                row.lower - 1e-9 <= truth <= row.upper + 1e-9 for row, truth in zip(rows, board.here, strict=False)
            ]
        assert one.here.draws.mean(axis=0)[:7] == pytest.approx([row.score for row in rows], abs=6e-3)
    assert np.mean(held[0.0]) < 0.85
    assert np.mean(held[0.05]) >= 0.93


@pytest.mark.parametrize("boards", tiered((1, 6), ci=(1,)))
def test_three_labels_a_model_of_judges_near_useless_leave_nearly_everything_open(boards: int) -> None:
    world = replace(TRUTH_WORLDS["near useless .58"], labels=3)  # votes that hardly rise, and labels that do not say so
    assert isinstance(world, TruthWorld)
    held, width = held_by(world, boards)
    assert width.mean() > 0.15
    assert held.mean() > 0.85


@pytest.mark.parametrize("boards", tiered((8, 30), ci=(8,)))
def test_a_newcomer_whose_maker_the_judges_favour_is_held_though_no_label_shows_it(boards: int) -> None:
    world = TRUTH_WORLDS["lenient to a newcomer's maker"]
    assert isinstance(world, TruthWorld)
    held, width = held_by(world, boards)
    assert held[8] >= 0.75  # its maker's; .92 of 60 boards
    honest, honest_width = held_by(replace(world, lenient=None), boards)
    assert honest[7:].mean() >= 0.9
    assert width[:7].mean() == pytest.approx(honest_width[:7].mean(), rel=0.1)


@pytest.mark.parametrize("boards", tiered((4, 30), ci=(4,)))
def test_votes_of_two_judges_and_a_third_where_they_differ_say_as_much_as_those_of_three(boards: int) -> None:
    world = TRUTH_WORLDS["two, then the third"]
    assert isinstance(world, TruthWorld)
    held, width = held_by(world, boards, in_turn=True)
    _, all_asked = held_by(replace(world, in_turn=False), boards)
    assert held.mean() >= 0.9
    assert width[:7].mean() < 1.1 * all_asked[:7].mean()
    _, apart = held_by(world, boards)  # who does not know the design compares votes of two among themselves
    assert width[7:].mean() < 1.1 * apart[7:].mean()


@pytest.mark.parametrize("boards", tiered((8, 20), ci=(8,)))
@pytest.mark.parametrize(
    ("name", "known"), [("all votes drift", {"drifted": True}), ("hard answers skipped, noisy .75", {"unsure": 0.3})]
)
def test_where_judges_drifted_or_people_are_unsure_intervals_are_wider_and_hold_more_often(
    name: str, known: Mapping[str, float], boards: int
) -> None:
    world = TRUTH_WORLDS[name]
    assert isinstance(world, TruthWorld)
    (trusting, narrow), (warned, wide) = (held_by(world, boards, **how) for how in ({}, known))
    assert wide[:7].mean() > 1.1 * narrow[:7].mean()
    assert warned[:7].mean() >= max(0.93, trusting[:7].mean())


@pytest.mark.parametrize("boards", tiered((6, 20), ci=(6,)))
def test_without_labels_intervals_hold_for_judges_as_good_as_usual(boards: int) -> None:
    world = TRUTH_WORLDS["no labels"]
    assert isinstance(world, TruthWorld)
    held, width = held_by(world, boards)
    assert held.mean() >= 0.93
    assert width.mean() < 0.25


@pytest.mark.parametrize("boards", tiered((6, 20), ci=(6,)))
@pytest.mark.parametrize("labels", [0, 3])
def test_before_two_models_have_labels_intervals_hold_for_noisy_judges_too(labels: int, boards: int) -> None:
    world = replace(
        TRUTH_WORLDS["no labels, noisy .75"], labels=labels, own=(0.8,), own_makers=(0,),
        newcomers=(0.85, 0.6, 0.7, 0.9, 0.4), new_makers=(1, 2, 3, 1, 2),
    )  # fmt: skip
    assert isinstance(world, TruthWorld)
    held, width = held_by(world, boards, on_new=True)
    assert held.mean() >= 0.93
    assert width.mean() < 0.32
