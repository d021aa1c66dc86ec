"""Time is up when our clock says so twice, a quarter of an hour apart, and did not take it back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from layton_batch.batches.late import BELIEVED_SECONDS, is_late
from layton_batch.clock import ManualClock
from layton_batch.run.context import Run
from layton_batch.states import Lifecycle
from tests.store.rows import NOW, batch, opened

MOMENT = NOW + 3600.0
DAY = 86_400.0


def readings(*seconds: float, moments: tuple[float, ...] = ()) -> list[bool]:
    """What looks at these times (seconds after MOMENT by our clock) find, each of them by another process."""
    with opened("sqlite://", state=Lifecycle.IN_FLIGHT) as store:
        found = []
        for number, at in enumerate(seconds):
            run = cast(Run, SimpleNamespace(clock=ManualClock(MOMENT + at), store=store))
            found.append(is_late(run, store.batch(batch(0).id), moments[number] if moments else MOMENT))
        return found


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        ((-1.0, 0.0), [False, False]),
        ((1.0, BELIEVED_SECONDS), [False, False]),
        ((1.0, 1.0 + BELIEVED_SECONDS), [False, True]),
        ((1.0, 30.0, 1.0 + BELIEVED_SECONDS, 2 * BELIEVED_SECONDS), [False, False, True, True]),
    ],
)
def test_it_takes_two_readings_that_far_apart(looks: tuple[float, ...], found: list[bool]) -> None:
    assert readings(*looks) == found


def test_a_reading_that_takes_it_back_makes_the_first_one_nothing() -> None:
    """Ahead for a moment, right again, ahead once more."""
    assert readings(3 * DAY, -DAY, 3 * DAY + BELIEVED_SECONDS) == [False, False, False]


def test_a_clock_put_back_that_still_says_so_is_asked_for_a_second_reading() -> None:
    assert readings(3 * DAY, 10.0, 20.0, 10.0 + BELIEVED_SECONDS) == [False, False, False, True]


def test_a_reading_for_an_earlier_moment_says_nothing_of_a_later_one() -> None:
    later = MOMENT + DAY
    looks = (1.0, DAY + 1.0, DAY + 1.0 + BELIEVED_SECONDS)
    assert readings(*looks, moments=(MOMENT, later, later)) == [False, False, True]
