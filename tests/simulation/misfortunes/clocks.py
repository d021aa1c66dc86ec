"""Clocks that are set back or forward while batches are at their providers."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.simulation.scenarios import Scenario
from tests.simulation.world import Plan

SCENARIOS: Sequence[Scenario] = ()


def draw(_draw: random.Random, plan: Plan, _length: int) -> Plan:
    """The plan with one of these misfortunes now and then."""
    return plan
