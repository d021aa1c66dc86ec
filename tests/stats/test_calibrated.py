"""The calibrated score and both its intervals: equal to the recorded ones, right at the edges, never NaN."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

from layton_batch.scoring.board import ceil_tenth, floor_tenth, round_tenth
from layton_batch.stats import calibrated
from layton_batch.stats.calibrated import (
    CalibratedScore,
    beta_ends,
    calibrated_scores,
    new_items_moments,
    posterior,
)
from layton_batch.stats.strata import Flag

from .boards import FIELDS, Board, make_strata

BINS = [(0, 1), (1, 3), (2, 3), (1, 1)]


def counts(row: CalibratedScore) -> tuple[int, int]:
    """The ends of the interval as numbers of items."""
    assert row.lower is not None
    assert row.upper is not None
    return round(row.lower * row.items), round(row.upper * row.items)


@pytest.mark.shared_data
@pytest.mark.parametrize("field", FIELDS)
def test_equal_to_the_recorded_intervals(boards: dict[str, Board], expected: dict[str, Any], field: str) -> None:
    strata = boards[field].strata
    rows, trusting = calibrated_scores(strata), calibrated_scores(strata, provider_shift=0.0)
    post = posterior(strata)
    for i, model in enumerate(expected["splits"]["llm"][field]["models"]):
        row, here, new = rows[i], model["calibrated"], model["superpop"]
        assert [row.score, row.lower, row.upper] == pytest.approx([here["mean"], here["lo"], here["hi"]], abs=6e-7)
        one = np.array([i])
        moments = new_items_moments(strata.n[one], strata.known_zeros[one], post.alpha[one], post.beta[one], unseen=0.0)
        ends = [float(end[0]) for end in beta_ends(*moments, 0.95)]
        assert [row.new_score, *ends] == pytest.approx([new["mean"], new["lo"], new["hi"]], abs=6e-7)
        assert row.new_lower is not None  # what is recorded takes the items at hand for all there can be
        assert row.new_upper is not None
        assert row.new_upper - row.new_lower == pytest.approx(new["hi"] - new["lo"], abs=0.002)
        assert trusting[i].score == pytest.approx(model["calibrated_tau0_equal_tailed"]["mean"], abs=6e-7)
        occupied = strata.n[i] > 0
        assert post.alpha[i, occupied] == pytest.approx(here["alpha"], abs=1e-6)
        assert post.beta[i, occupied] == pytest.approx(here["beta"], abs=1e-6)


@pytest.mark.shared_data
def test_own_labels_refute_what_the_paper_prints_for_one_model(boards: dict[str, Board]) -> None:
    board = boards["is_answer_correct"]
    row = calibrated_scores(board.strata)[board.names.index("mistral-large-2512")]
    assert row.lower is not None
    assert row.upper is not None
    assert row.score is not None
    assert (round_tenth(row.score), floor_tenth(row.lower), ceil_tenth(row.upper)) == (53.7, 53.2, 54.4)
    assert round(186 * row.upper) < 102  # the paper prints exactly 102 of 186


def test_the_set_is_the_shortest_of_the_enumerated_posterior() -> None:
    strata = make_strata(
        BINS,
        [[5, 2, 1, 6]],
        [[(9, 1), (3, 1), (4, 3), (20, 19)]],
        own=[[(2, 0), (1, 1), (0, 0), (3, 3)]],
        known_zeros=[2],
    )
    post = posterior(strata)
    left = post.unlabelled[0]
    pmf = np.zeros(17)
    for y in itertools.product(*(range(u + 1) for u in left)):
        chance = 1.0
        for b, count in enumerate(y):
            chance *= stats.betabinom.pmf(count, left[b], post.alpha[0, b], post.beta[0, b])
        pmf[4 + sum(y)] += chance
    runs = [(j - i, -pmf[i : j + 1].sum(), i) for i in range(17) for j in range(i, 17) if pmf[i : j + 1].sum() >= 0.95]
    (row,) = calibrated_scores(strata)
    length, _, start = min(runs)
    assert counts(row) == (start, start + length)
    assert row.score == pytest.approx((pmf * np.arange(17)).sum() / 16)


def test_new_items_interval_has_the_moments_of_dirichlet_times_beta() -> None:
    strata = make_strata(BINS, [[50, 8, 10, 90]], [[(60, 1), (9, 3), (12, 8), (150, 149)]], known_zeros=[6])
    post, rng = posterior(strata), np.random.default_rng(3)
    share = rng.dirichlet([50, 8, 10, 90, 6.5, 0.5], 200_000)
    rate = rng.beta(post.alpha[0], post.beta[0], (200_000, 4))
    theta = (share[:, :4] * rate).sum(axis=1) + share[:, 5]
    (row,) = calibrated_scores(strata)
    assert row.new_score == pytest.approx((theta.mean() * 165 - 0.5) / 164, abs=5e-4)  # the unseen items apart
    assert [row.new_lower, row.new_upper] == pytest.approx(np.quantile(theta, [0.025, 0.975]).tolist(), abs=3e-3)


def test_a_bin_without_labels_costs_at_most_its_items() -> None:
    def ends(items: int) -> tuple[int, int]:
        n = [[30, items, 0, 156 - items]]
        (row,) = calibrated_scores(make_strata(BINS, n, [[(500, 0), (0, 0), (0, 0), (500, 500)]]))
        assert row.flags == (Flag.EMPTY_GOLD_BIN,)
        return counts(row)

    one, twenty = ends(1), ends(20)
    assert one[1] - one[0] <= 4
    assert twenty[0] >= 136 - 3
    assert twenty[1] == 156


def test_no_gold_at_all_says_so_and_says_almost_nothing() -> None:
    (row,) = calibrated_scores(make_strata(BINS, [[0, 0, 0, 186]], [[(0, 0)] * 4], gold_providers=0))
    assert row.flags == (Flag.NO_GOLD, Flag.EMPTY_GOLD_BIN)
    assert row.score == 0.5
    assert row.lower is not None
    assert row.upper is not None
    assert row.upper - row.lower > 0.94


def test_an_all_zero_model_is_near_zero_and_never_nan() -> None:
    (row,) = calibrated_scores(make_strata([(0, 1)], [[186]], [[(144, 0)]]))
    assert row.lower == 0.0
    assert row.upper is not None
    assert 0 < row.upper < 0.04


def test_everything_labelled_is_known_exactly_here_but_not_for_new_items() -> None:
    (row,) = calibrated_scores(make_strata([(1, 1)], [[20]], [[(9, 9)]], own=[[(20, 18)]]))
    assert (row.score, row.lower, row.upper) == (0.9, 0.9, 0.9)
    assert row.new_lower is not None
    assert row.new_upper is not None
    assert row.new_lower < 0.9 < row.new_upper


def test_one_item_and_no_items() -> None:
    one, none = calibrated_scores(make_strata([(1, 1)], [[1], [0]], [[(300, 300)]] * 2))
    assert (one.lower, one.upper) == (one.score, 1.0)
    assert (none.score, none.new_lower, none.reason) == (None, None, "no items")


def test_known_zeros_are_certain_here_and_stay_possible_for_new_items() -> None:
    (row,) = calibrated_scores(make_strata([(1, 1)], [[0]], [[(9, 9)]], known_zeros=[30]))
    assert (row.score, row.lower, row.upper, row.new_score, row.new_lower) == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert row.new_upper == pytest.approx(float(stats.beta.ppf(0.975, 0.5, 30.5)), rel=1e-9)
    assert row.flags == (Flag.KNOWN_ZEROS,)


def test_a_level_near_one_widens_and_level_one_is_refused() -> None:
    strata = make_strata(BINS, [[50, 8, 10, 90]], [[(60, 1), (9, 3), (12, 8), (150, 149)]])
    widths = []
    for level in (0.5, 0.95, 0.999, 1 - 1e-9):
        (row,) = calibrated_scores(strata, level=level)
        low, high = counts(row)
        widths.append(high - low)
    assert widths == sorted(widths)
    assert widths[-1] <= 158
    with pytest.raises(ValueError, match="level must lie"):
        calibrated_scores(strata, level=1.0)
    with pytest.raises(ValueError, match="provider shift"):
        calibrated_scores(strata, provider_shift=-0.1)


def test_a_hundred_thousand_items_are_no_trouble() -> None:
    strata = make_strata(BINS, [[30_000, 5_000, 5_000, 60_000]], [[(900, 3), (40, 11), (50, 40), (2000, 1990)]])
    (row,) = calibrated_scores(strata)
    assert row.score is not None
    assert row.lower is not None
    assert row.upper is not None
    assert row.lower < row.score < row.upper
    assert 0.01 < row.upper - row.lower < 0.05


def test_a_larger_provider_shift_borrows_less() -> None:
    strata = make_strata(BINS, [[50, 8, 10, 90]], [[(60, 1), (9, 3), (12, 8), (150, 149)]])
    sizes = [
        posterior(strata, provider_shift=s).alpha + posterior(strata, provider_shift=s).beta for s in (0, 0.25, 0.5, 1)
    ]
    assert all((a >= b).all() for a, b in itertools.pairwise(sizes))
    assert sizes[0].tolist() == [[61.0, 10.0, 13.0, 151.0]]


def test_printed_ends_only_move_outwards() -> None:
    assert (floor_tenth(157 / 200), ceil_tenth(157 / 200)) == (78.5, 78.5)
    assert (floor_tenth(99 / 186), ceil_tenth(101 / 186)) == (53.2, 54.4)
    assert (floor_tenth(0.0), ceil_tenth(1.0), round_tenth(0.8028678)) == (0.0, 100.0, 80.3)


def test_a_model_is_scored_the_same_among_however_many(monkeypatch: pytest.MonkeyPatch) -> None:
    n = [[40 + 7 * at, 3, at % 5, 60] for at in range(9)]
    strata = make_strata(BINS, n, [[(500, 20), (9, 2), (30, 11), (500, 490)]] * 9, known_zeros=list(range(9)))
    together = calibrated_scores(strata)
    monkeypatch.setattr(calibrated, "_MODELS", 2)
    assert [counts(row) for row in calibrated_scores(strata)] == [counts(row) for row in together]
    assert [row.flags for row in calibrated_scores(strata)] == [row.flags for row in together]
