"""The table of docs/misfortunes.md: every named misfortune, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation import scenarios
from tests.simulation.misfortunes import clocks, creates, results

TABLE: Sequence[scenarios.Scenario] = (
    *scenarios.SCENARIOS,
    *results.SCENARIOS,
    *creates.SCENARIOS,
    *clocks.SCENARIOS,
)
