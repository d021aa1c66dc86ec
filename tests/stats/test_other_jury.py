"""Labels sorted by another jury's votes mislead; the same labels beside this jury's votes do not."""

from __future__ import annotations

import pytest

from tests.stats.other_jury import JURIES, measure


@pytest.mark.parametrize("jury", JURIES)
def test_intervals_hold_where_the_labelled_answers_were_rejudged_whatever_the_other_jury_is(jury: str) -> None:
    assert measure(jury, 25, seed=7)["rejudged"].covered >= 0.93


@pytest.mark.parametrize("jury", ["stricter", "more lenient"])
def test_intervals_do_not_hold_with_the_votes_of_a_jury_that_is_not_alike(jury: str) -> None:
    assert measure(jury, 25, seed=7)["trusted"].covered < 0.8


def test_intervals_hold_with_the_votes_of_a_jury_at_random_and_say_that_these_tell_nothing() -> None:
    found = measure("at random", 25, seed=7)
    assert found["trusted"].covered >= 0.93
    assert found["trusted"].half_width > 3 * found["rejudged"].half_width
