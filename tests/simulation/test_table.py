"""The table of docs/exactly_once.md, row by row: one misfortune, at every provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.scenarios import SCENARIOS, Scenario, markdown, measure
from tests.simulation.world import ITEMS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exactly_once.md"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_at_every_provider_each_row_is_billed_once_and_none_is_lost_as_the_page_says(scenario: Scenario) -> None:
    measured = measure([scenario])
    for provider, found in measured[scenario.name].items():
        assert not found.broken, (provider, found.broken)
        assert (found.batches, found.billed, found.lost) == (scenario.batches, ITEMS, 0), provider
    row = markdown(measured).splitlines()[-1]
    assert row in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_page_has_no_row_that_is_not_measured() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if " / " in line and line.startswith("| ")]
    names = {line.split("|")[1].strip() for line in rows}
    assert names <= {scenario.name for scenario in SCENARIOS}
