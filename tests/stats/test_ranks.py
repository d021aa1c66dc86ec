"""Ranks of printed scores, and sets of ranks that hold for all models at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from layton_batch.stats.ranks import detectable, difference, paper_ranks, rank_ranges

from .boards import placed

# ---- the ranks of printed scores -----------------------------------------------------------------------------------


def by_definition(scores: list[float], widths: list[float]) -> list[tuple[int, int, int]]:
    out = []
    for s, w in zip(scores, widths, strict=True):
        above, equal = sum(t > s for t in scores), sum(t == s for t in scores)
        average = above + Fraction(equal + 1, 2)
        best = 1 + sum(t - v > s + w for t, v in zip(scores, widths, strict=True))
        worst = sum(t + v >= s - w for t, v in zip(scores, widths, strict=True))
        out.append((int(average), best, worst))
    return out


@pytest.mark.parametrize("seed", range(8))
def test_equal_to_the_definition_on_boards_with_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = (rng.integers(400, 430, 25) / 10).tolist()
    widths = (rng.integers(1, 20, 25) / 10).tolist()
    ranks = paper_ranks(scores, widths)
    assert placed(ranks) == by_definition(scores, widths)


def test_two_at_the_top_are_both_first_and_three_are_all_second() -> None:
    assert paper_ranks([5.0, 5.0, 1.0], [0.1] * 3).rank.tolist() == [1, 1, 3]
    assert paper_ranks([5.0, 5.0, 5.0], [0.1] * 3).rank.tolist() == [2, 2, 2]
    assert paper_ranks([9.0, 5.0, 5.0, 5.0], [0.1] * 4).rank.tolist() == [1, 3, 3, 3]


def test_touching_intervals_are_decided_in_binary_as_the_reference_does() -> None:
    assert 80.4 + 0.3 < 81.0 - 0.3 + 1e-9
    for upper, lower, width in ((81.0, 80.4, 0.3), (10.3, 10.1, 0.1), (0.3, 0.1, 0.1)):
        separated = upper - width > lower + width
        assert (paper_ranks([upper, lower], [width, width]).best[1] == 2) == separated


def test_a_model_without_a_score_has_no_rank_and_moves_nobody() -> None:
    with_gap = paper_ranks([70.0, None, 80.0, None], [1.0, None, 1.0, None])
    assert placed(with_gap) == [(2, 2, 2), None, (1, 1, 1), None]


def test_nothing_to_rank() -> None:
    assert paper_ranks([], []).rank.tolist() == []
    assert placed(paper_ranks([None], [None])) == [None]
    with pytest.raises(ValueError, match="one length"):
        paper_ranks([1.0], [])


# ---- ranks that hold for all models at once ------------------------------------------------------------------------


def test_boxes_widen_to_a_rank_that_is_handed_in() -> None:
    rng = np.random.default_rng(3)
    draws = rng.normal([0.9, 0.5, 0.1], 0.01, (500, 3))
    assert rank_ranges(draws).best.tolist() == [1, 2, 3]
    sets = rank_ranges(draws, rank=np.array([2, 2, 3]))
    assert (sets.best.tolist(), sets.worst.tolist()) == ([1, 2, 3], [2, 2, 3])


def test_one_model_is_first_and_of_two_equal_models_neither_is_better() -> None:
    base = np.random.default_rng(4).normal(0.5, 0.05, (2000, 1))
    assert (rank_ranges(base).best.tolist(), rank_ranges(base).worst.tolist()) == ([1], [1])
    assert difference(np.concatenate([base, base], axis=1), 0, 1).better == 0.5
    with pytest.raises(ValueError, match="level"):
        rank_ranges(base, level=1.0)


def test_what_is_to_be_detected_with_a_chance_of_80_percent_is_detected_with_that_chance() -> None:
    """The true difference drawn, the estimate drawn about it, and how often its interval leaves 0 out."""
    rng = np.random.default_rng(4)
    sd = 0.03
    true = detectable(sd, 0.95)
    found = np.abs(rng.normal(true, sd, 200_000)) > 1.959964 * sd
    assert found.mean() == pytest.approx(0.80, abs=0.005)
