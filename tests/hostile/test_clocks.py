"""A create is in doubt, and our clock is set forward or back; the provider goes on by the true time."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.lab import MODELS, lab, quiz_text
from tests.support.tiers import tiered

HOUR = 3600.0


BACK, BACK_FOR_LONG, FORWARD = (0.0, -30.0), (31 * HOUR, -30.0), (0.0, 30.0)
"""Seconds that pass before the run goes on, and hours by which the clock is set."""


@pytest.mark.parametrize(
    ("provider", "move"),
    tiered(MODELS, (BACK, BACK_FOR_LONG, FORWARD), ci=[("mistral", BACK_FOR_LONG), ("gemini", FORWARD)]),
)
def test_a_create_in_doubt_is_not_paid_again_where_the_clock_was_set_by_more_than_a_day(
    tmp_path: Path, provider: str, move: tuple[float, float]
) -> None:
    away, hours = move
    text = quiz_text((provider,), limit=2)
    with lab(tmp_path, Fault(on="create", action="drop_after", provider=provider, times=1)) as bench:
        bench.tick_until(text, lambda now: now.batches[0].state is Lifecycle.SUBMITTING, 2.0)
        bench.clock.sleep(away)
        bench.clock.put(hours * HOUR)
        bench.finish_paid_once(text)
