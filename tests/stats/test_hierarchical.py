"""The hierarchical posterior: equal to plain importance sampling, the same every time, and one law for all that is
said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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
from .worlds import Board, World, draw

LABELS = np.array([[6, 9], [4, 12], [0, 0]])
POSITIVES = np.array([[1, 7], [0, 11], [0, 0]])
ITEMS = np.array([[20, 30], [12, 40], [35, 15]])
MEANS = np.array([[0.06264282, 0.87109395], [0.07768866, 0.91018552], [0.07044996, 0.84328659]])
VARIANCES = np.array([[0.00331267, 0.00642649], [0.00522816, 0.00329068], [0.00926938, 0.02501602]])
"""Of the rates of the small table, by plain importance sampling: 20,000 draws of what all models share from its prior,
weighed by the likelihood, with own deviations and kindness summed over 11 and 25 nodes and abilities over a grid of
steps of .2 from -8 to 8."""


def fitted(board: Board, **how: Any) -> Fit:
    return fit(count(board.target, board.gold), **how)


@pytest.mark.parametrize("closely", tiered((False, True), ci=(False,)))
def test_means_and_variances_are_those_of_plain_importance_sampling(
    closely: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models with labels and a newcomer, of three makers; all no and all yes of three seats."""
    nothing = np.zeros(0, dtype=np.int64)
    table = Counts(
        predictions=Predictions(nothing, nothing, nothing, nothing, nothing == 1, np.arange(3)), yes=np.array([0, 3]),
        total=np.array([3, 3]), bins=np.array([0, 1]), n=ITEMS, own_labels=LABELS, own_positives=POSITIVES,
        known_zeros=np.zeros(3, dtype=np.int64), labels=LABELS, positives=POSITIVES, maker=np.arange(3),
        row_bin=nothing, row_label=nothing,
    )  # fmt: skip
    if closely:
        monkeypatch.setattr(hierarchical, "_TRIALS", 8192)
    alpha, beta = summarize(fit(table, points=4096) if closely else fit(table)).rates
    mean, deviation = alpha / (alpha + beta), np.sqrt(alpha * beta / (alpha + beta + 1)) / (alpha + beta)
    assert (np.abs(mean - MEANS) < (3e-3 if closely else 0.15 * np.sqrt(VARIANCES))).all()
    assert deviation == pytest.approx(np.sqrt(VARIANCES), rel=0.05 if closely else 0.15)


def truth_world(name: str, **changes: Any) -> TruthWorld:
    """Return a world of that name that draws the truth first, changed."""
    world = TRUTH_WORLDS[name]
    assert isinstance(world, TruthWorld)
    return replace(world, **changes)


def one_board(seed: int, world: World) -> Fit:
    return fitted(draw(world, np.random.default_rng(seed)))


@pytest.mark.parametrize("boards", tiered((1, 5), ci=(1,)))
def test_the_slope_is_found_where_votes_mean_more_for_better_models(boards: int) -> None:
    flat = [slope_interval(one_board(seed, World(slope=0.0, labels=130)))[0] for seed in range(boards)]
    steep = [slope_interval(one_board(seed, World(slope=1.0, labels=130)))[0] for seed in range(boards)]
    assert np.mean(flat) < 0.3
    assert np.mean(steep) > 0.7


def test_labels_of_another_jury_widen_every_interval() -> None:
    board = draw(World(), np.random.default_rng(6))
    whose = np.full(len(board.gold.correct), -1)
    gold = LabelledAnswers(whose, board.gold.maker + 9, board.gold.yes, board.gold.total, board.gold.correct, whose)
    counts = count(board.target, gold)
    own, other = (rows_of(summarize(fit(counts, other_jury=flag))) for flag in (False, True))
    widths = [[row.upper - row.lower for row in rows] for rows in (own, other)]
    assert all(b > a for a, b in zip(*widths, strict=True))


def held_by(
    world: TruthWorld | World, boards: int, *, on_new: bool = False, **how: Any
) -> tuple[FloatArray, FloatArray]:
    """Shares of boards on which the interval of each model holds the truth on these items, or on new ones, and mean
    half widths."""
    held, width = [], []
    for seed in range(boards):
        board = draw_truth_first(world, np.random.default_rng(seed))
        rows = rows_of(summarize(fitted(board, **how)))
        ends = [(row.new_lower, row.new_upper) if on_new else (row.lower, row.upper) for row in rows]
        low, high = np.array(ends, dtype=np.float64).T
        truth = board.new if on_new else board.here
        held.append((low - 1e-9 <= truth) & (truth <= high + 1e-9))
        width.append((high - low) / 2)
    return np.mean(held, axis=0), np.mean(width, axis=0)


EVERYBODY, WITH_LABELS, NEWCOMERS = slice(None), slice(7), slice(7, None)
FIRST_LABELS = {
    "own": (0.8,), "own_makers": (0,), "newcomers": (0.85, 0.6, 0.7, 0.9, 0.4), "new_makers": (1, 2, 3, 1, 2),
}  # fmt: skip
HELD: dict[str, tuple[Any, ...]] = {
    # world, boards now and at night, whether on new items, whose intervals, least share held, range of half widths
    "better models, better votes": (World(slope=1.0), (2, 25), False, (EVERYBODY,), 0.93, (0, 1)),
    "the same on new items": (World(slope=1.0), (2, 25), True, (EVERYBODY,), 0.92, (0, 1)),
    "useless votes": (truth_world("near useless .58"), (4, 40), False, (WITH_LABELS, NEWCOMERS), 0.92, (0, 1)),
    "and few labels": (truth_world("near useless .58", labels=3), (1, 6), False, (EVERYBODY,), 0.85, (0.15, 1)),
    "no labels": (truth_world("no labels"), (6, 20), False, (EVERYBODY,), 0.93, (0, 0.25)),
    "noisy judges": (truth_world("no labels, noisy .75", **FIRST_LABELS), (6, 20), True, (EVERYBODY,), 0.93, (0, 0.32)),
    "and a first model's labels": (
        truth_world("no labels, noisy .75", labels=3, **FIRST_LABELS), (6, 20), True, (EVERYBODY,), 0.93, (0, 0.32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("night", tiered((False, True), ci=(False,)))
@pytest.mark.parametrize("case", HELD)
def test_intervals_hold_the_truth_also_where_labels_are_few_or_votes_mean_little_or_not_the_same(
    case: str, night: bool
) -> None:
    world, boards, on_new, groups, least, (shortest, longest) = HELD[case]
    held, width = held_by(world, boards[night], on_new=on_new)
    assert all(held[group].mean() >= least - 1e-9 for group in groups)
    assert shortest < width.mean() < longest


@pytest.mark.parametrize("boards", tiered((4, 30), ci=(4,)))
def test_a_newcomer_whose_maker_the_judges_favour_is_held_though_no_label_shows_it(boards: int) -> None:
    held, width = held_by(truth_world("lenient to a newcomer's maker"), boards)
    assert held[8] >= 0.75  # its maker's; .92 of 60 boards
    honest, honest_width = held_by(truth_world("lenient to a newcomer's maker", lenient=None), boards)
    assert honest[7:].mean() >= 0.9
    assert width[:7].mean() == pytest.approx(honest_width[:7].mean(), rel=0.1)


@pytest.mark.parametrize("boards", tiered((2, 30), ci=(2,)))
def test_votes_of_two_judges_and_a_third_where_they_differ_say_as_much_as_those_of_three(boards: int) -> None:
    held, width = held_by(truth_world("two, then the third"), boards, in_turn=True)
    _, all_asked = held_by(truth_world("two, then the third", in_turn=False), boards)
    assert held.mean() >= 0.9
    assert width[:7].mean() < 1.1 * all_asked[:7].mean()
    _, apart = held_by(truth_world("two, then the third"), boards)  # who does not know it compares votes of two apart
    assert width[7:].mean() < 1.1 * apart[7:].mean()


@pytest.mark.parametrize("boards", tiered((6, 20), ci=(6,)))
@pytest.mark.parametrize(
    ("name", "known"), [("all votes drift", {"drifted": True}), ("hard answers skipped, noisy .75", {"unsure": 0.3})]
)
def test_where_judges_drifted_or_people_are_unsure_intervals_are_wider_and_hold_more_often(
    name: str, known: Mapping[str, Any], boards: int
) -> None:
    (trusting, narrow), (warned, wide) = (held_by(truth_world(name), boards, **how) for how in ({}, known))
    assert wide[:7].mean() > 1.1 * narrow[:7].mean()
    assert warned[:7].mean() >= max(0.93, trusting[:7].mean())


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


def test_a_jury_that_is_always_right_leaves_the_interval_of_as_many_labels_as_items() -> None:
    world = TruthWorld(sees_right=(0.999, 0.999), sees_wrong=(0.999, 0.999), by_answer=0, by_item=0, lean=0, kindness=0)
    board = draw_truth_first(world, np.random.default_rng(1))
    rows = rows_of(summarize(fitted(board)))
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
