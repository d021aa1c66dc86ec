"""Time is up when our clock says so twice, a quarter of an hour apart, and did not take it back."""

from __future__ import annotations

import pytest

from layton_batch.batches.timing import At, Terms
from layton_batch.clock import Pacing
from layton_batch.records import Wait
from layton_batch.states import Lifecycle
from tests.store.rows import NOW, batch, opened

DAY = 86_400.0
BELIEVED_SECONDS = Pacing().clock_believed
TERMS = Terms(poll=30.0, deadline=DAY, window=DAY, retention=DAY)
MOMENT = NOW + 3600.0


def readings(*seconds: float, moments: tuple[float, ...] = ()) -> list[bool]:
    """What looks at these times (seconds after MOMENT by our clock) find, each of them by another process."""
    with opened("sqlite://", state=Lifecycle.IN_FLIGHT) as store:
        found = []
        for number, at in enumerate(seconds):
            now = At(MOMENT + at, TERMS, Pacing())
            before = store.batch(batch(0).id)
            after, is_up = now.is_up(before, moments[number] if moments else MOMENT)
            store.apply(before, Wait(after), now.now)
            found.append(is_up)
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


def test_a_process_that_made_the_first_reading_itself_must_have_waited_as_long() -> None:
    """Two jumps of a clock within a second are no quarter of an hour."""
    noted = batch(0, late_since=MOMENT + 1.0)
    much_later = MOMENT + 3 * DAY
    for waited, found in ((0.0, False), (BELIEVED_SECONDS - 1.0, False), (BELIEVED_SECONDS, True), (None, True)):
        assert At(much_later, TERMS, Pacing(), waited).is_up(noted, MOMENT) == (noted, found)
