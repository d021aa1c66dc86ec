"""The simulation finds what it is there to find: three faults, planted into the program, break a claim."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.simulation.conductor import Forks
from tests.simulation.histories import Plan, plan_of, play
from tests.simulation.matrix import points, stopped
from tests.simulation.planted import ID, LOCK, UNCLEAR
from tests.support.tiers import tiered

PLANS = [plan_of(seed) for seed in (2, 0, 7, 4, 3, 6, 1, 9)]
"""Histories with creates whose reply is lost or late; the first of them finds both faults."""


def is_found(forks: Forks, plans: Iterable[Plan], fault: str, claim: str) -> bool:
    """Return whether one of the plans breaks a claim when the fault is planted."""
    return any(claim in line for plan in plans for line in play(forks, replace(plan, fault=fault))[0])


@pytest.mark.parametrize(
    ("fault", "claim"), [(ID, "looked for after its id was committed"), (UNCLEAR, "was billed 2 times")]
)
def test_a_planted_fault_is_found_within_a_few_seeds(forks: Forks, fault: str, claim: str) -> None:
    assert is_found(forks, PLANS, fault, claim)


@pytest.mark.parametrize("name", tiered(("tagged", "untagged"), ci=("tagged",)))
def test_a_lock_that_is_removed_is_found_by_a_process_that_is_suspended_before_it_pays(forks: Forks, name: str) -> None:
    passed = points(forks, name)
    create = next(
        number for number, label in enumerate(passed, 1) if label.startswith("sent") and label.endswith("create")
    )
    plans = (stopped(name, "frozen", number) for number in range(create - 1, create - 6, -1))
    assert is_found(forks, plans, LOCK, "was billed 2 times")
