"""`kill -9` of the real command while a call is received, executed, answered; and replies that are lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.processes.killings import OPERATIONS, every_phase
from tests.simulation.world import SEVEN
from tests.support.commands import Bench
from tests.support.tiers import tiered

PAID = ("create",)
"""The call around the payment. The other calls are nightly; every change kills them in simulated histories."""


@pytest.mark.parametrize(("provider", "kinds"), tiered(SEVEN, (PAID, OPERATIONS), ci=[("groq", PAID)]))
def test_a_run_killed_at_every_phase_of_every_call_pays_each_row_once_and_loses_none(
    place: Bench, provider: str, kinds: Sequence[str]
) -> None:
    ordeal = every_phase(place, provider, kinds)
    assert not ordeal.broken, ordeal
    assert (ordeal.batches, ordeal.billed, ordeal.lost) == (3, 6, 0)
