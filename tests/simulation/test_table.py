"""The table of docs/misfortunes.md, row by row: one misfortune, at every provider."""

from __future__ import annotations

import pytest

from tests.simulation.scenarios import PAGE, Scenario, is_on_the_page, measure
from tests.simulation.table import TABLE


@pytest.mark.one_in(12)
@pytest.mark.parametrize("scenario", TABLE, ids=lambda scenario: scenario.name)
def test_at_every_provider_each_row_is_billed_once_and_none_is_lost_as_the_page_says(scenario: Scenario) -> None:
    measured = measure([scenario])
    assert measured[scenario.name] == {name: scenario.expected(name) for name in measured[scenario.name]}
    assert is_on_the_page(measured)


def test_the_page_has_no_row_that_is_not_measured() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if " / " in line and line.startswith("| ")]
    assert [line.split("|")[1].strip() for line in rows] == [scenario.name for scenario in TABLE]
