"""Ranks of printed scores, and sets of ranks that hold for all models at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from layton_batch.stats.ranks import detectable, paper_ranks

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


# ---- ranks that hold for all models at once ------------------------------------------------------------------------


def test_what_is_to_be_detected_with_a_chance_of_80_percent_is_detected_with_that_chance() -> None:
    """The true difference drawn, the estimate drawn about it, and how often its interval leaves 0 out."""
    rng = np.random.default_rng(4)
    sd = 0.03
    true = detectable(sd, 0.95)
    found = np.abs(rng.normal(true, sd, 200_000)) > 1.959964 * sd
    assert found.mean() == pytest.approx(0.80, abs=0.005)
