"""What was to wait, or is held, longer than the program ever lets anything: a clock was put back since."""

from __future__ import annotations

import pytest

from layton_batch.clock import LONGEST_PAUSE, Pacing, is_due
from layton_batch.states import Lifecycle
from tests.support.store_rows import NOW, batch, opened

DAY = 86_400.0
FLYING = [Lifecycle.IN_FLIGHT]


@pytest.mark.parametrize(
    ("ahead", "due"), [(-DAY, True), (0.0, True), (1.0, False), (LONGEST_PAUSE, False), (LONGEST_PAUSE + 1, True)]
)
def test_a_moment_further_ahead_than_any_pause_has_come(ahead: float, due: bool) -> None:
    assert is_due(NOW + ahead, NOW) is due


def test_a_batch_due_in_a_day_is_what_a_run_goes_on_with_now() -> None:
    with opened("sqlite://", state=Lifecycle.IN_FLIGHT, due_at=NOW + DAY) as store:
        assert store.next_due(NOW, FLYING, Pacing()) == NOW
        assert store.next_due(NOW + DAY - 60.0, FLYING, Pacing()) == NOW + DAY


def test_creates_that_an_earlier_clock_dates_a_day_ahead_do_not_fill_this_hour() -> None:
    with opened("sqlite://", state=Lifecycle.IN_FLIGHT, submitting_at=NOW) as store:
        provider = batch(0).provider
        assert store.load(provider, NOW + 60.0).creates == 1
        assert store.load(provider, NOW - DAY).creates == 0
