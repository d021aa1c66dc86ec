"""Swarms: of all kinds of faults a history enables some, over one world of providers, files, disk, storage and engine.

Two claims beside "paid once, nothing lost, the ledger is the bill": when the faults stop the run is done in time, and
its board is digit for digit the one of the run without faults.
"""

from __future__ import annotations

import itertools

import pytest

from tests.simulation.claims import broken_claims
from tests.simulation.disks import BadDisk
from tests.simulation.histories import SWARM, plan_of, play
from tests.simulation.misfortunes.swarm import KINDS, LATER_KINDS
from tests.simulation.suite import SWARMING
from tests.simulation.swarm import Swarm
from tests.simulation.world import ALONE, Plan, history
from tests.support.tiers import tiered

EVERY_DAY = [SWARM + number for number in (0, 5, 9, 13, 14, 18, 24, 35, 44, 46, 49, 52, 57)]
"""Short histories of one model."""
STRIDE = 40


@pytest.mark.parametrize("seed", tiered(SWARMING, ci=EVERY_DAY))
def test_whatever_goes_wrong_together_a_run_is_done_in_time_with_the_board_of_a_run_without_faults(seed: int) -> None:
    verdict = play(plan_of(seed))
    assert not verdict.broken, verdict.told()


def test_the_swarm_enables_every_kind_and_some_of_them_together() -> None:
    kinds = [plan_of(seed).swarm.kinds for seed in SWARMING]
    assert {*KINDS, *LATER_KINDS} < set(itertools.chain.from_iterable(kinds))
    assert sum(map(len, kinds)) > 4 * len(kinds)


@pytest.mark.parametrize(
    ("reason", "after", "first"),
    tiered(("full", "broken"), (False, True), range(1, STRIDE + 1), ci=[("broken", True, 31)]),
)
def test_a_run_whose_nth_write_fails_ends_with_a_sentence_and_goes_on(reason: str, after: bool, first: int) -> None:
    for number in itertools.count(first, STRIDE):
        disk = BadDisk(number, 1, reason, after)  # type: ignore[arg-type]
        with history(Plan(ALONE, swarm=Swarm(("disk",), disks=(disk,)))) as found:
            assert not broken_claims(found), f"write {number}"
            if found.course.disk.written < number:
                break
            assert found.course.disk.failed == 1 or after
