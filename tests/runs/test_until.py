"""`--until HH:MM` is a time on the wall."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from layton_batch.loop import deadline
from tests.support.manual_clock import ManualClock


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("now", "until", "end"),
    [
        ("2026-10-24 20:00", "07:00", "2026-10-25 06:00"),  # the clock goes back in this night
        ("2026-03-28 21:00", "07:00", "2026-03-29 05:00"),  # and forward in this one
        ("2026-07-01 20:00", "23:30", "2026-07-01 21:30"),
        ("2026-07-01 20:00", "22:00", "2026-07-02 20:00"),  # it is this time now
    ],
)
def test_a_night_ends_when_the_clock_on_the_wall_says_so(now: str, until: str, end: str) -> None:
    assert deadline(until, ManualClock(moment(now))) == moment(end)
