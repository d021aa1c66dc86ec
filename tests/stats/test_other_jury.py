"""Labels sorted by another jury's votes mislead; the same labels beside this jury's votes do not."""

from __future__ import annotations

import pytest

from tests.stats.other_jury import JURIES, measure
from tests.support.tiers import tiered

FEW, MANY = 2, 25
"""Boards, of six models each."""


@pytest.mark.parametrize(("jury", "boards"), tiered(JURIES, (FEW, MANY), ci=[("stricter", FEW), ("at random", FEW)]))
def test_intervals_hold_where_the_labelled_answers_were_rejudged_whatever_the_other_jury_is(
    jury: str, boards: int
) -> None:
    assert measure(jury, boards, seed=7)["rejudged"].covered >= 0.93


@pytest.mark.parametrize(("jury", "boards"), tiered(("stricter", "more lenient"), (FEW, MANY), ci=[("stricter", FEW)]))
def test_intervals_do_not_hold_with_the_votes_of_a_jury_that_is_not_alike(jury: str, boards: int) -> None:
    assert measure(jury, boards, seed=7)["trusted"].covered < 0.8


@pytest.mark.parametrize("boards", tiered((FEW, MANY), ci=(FEW,)))
def test_intervals_hold_with_the_votes_of_a_jury_at_random_and_say_that_these_tell_nothing(boards: int) -> None:
    found = measure("at random", boards, seed=7)
    assert found["trusted"].covered >= 0.93
    assert found["trusted"].half_width > 3 * found["rejudged"].half_width
