"""The table of docs/misfortunes.md, row by row: one misfortune, at every provider."""

from __future__ import annotations

import pytest

from tests.simulation.scenarios import PAGE, is_on_the_page, outcome
from tests.simulation.table import TABLE
from tests.simulation.world import SEVEN
from tests.support.tiers import tiered

SCENARIOS = {scenario.name: scenario for scenario in TABLE}
PLAYED = [
    ("killed when the upload was carried out", "gemini"),
    ("killed between download and tables", "anthropic"),
    ("killed between tables and commit", "mistral"),
    ("create: reply lost", "together"),
    ("create: connection dropped, carried out 300 s later", "openai"),
    ("create: carried out, the reply is a page of HTML", "anthropic"),
    ("upload: reply lost", "mistral"),
    ("results: cut off at 60 %", "gemini"),
    ("one row missing from the results", "groq"),
    ("expired with two of three answers", "doubleword"),
    ("the list before the first create: HTTP 500 six times", "gemini"),
    ("our clock set back by a day while the batch is in flight", "anthropic"),
]
"""Misfortunes that every change meets, of each kind at one provider."""


@pytest.mark.parametrize(("name", "provider"), tiered(SCENARIOS, SEVEN, ci=PLAYED))
def test_at_every_provider_each_row_is_billed_once_and_none_is_lost(name: str, provider: str) -> None:
    scenario = SCENARIOS[name]
    if not scenario.applies(provider):
        pytest.skip("it cannot happen at this provider")
    assert outcome(scenario, provider) == scenario.expected(provider)


def test_the_page_prints_what_is_expected_of_every_row() -> None:
    expected = {
        name: {provider: scenario.expected(provider) for provider in SEVEN if scenario.applies(provider)}
        for name, scenario in SCENARIOS.items()
    }
    assert is_on_the_page(expected)


def test_the_page_has_no_row_that_is_not_measured() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if " / " in line and line.startswith("| ")]
    assert [line.split("|")[1].strip() for line in rows] == [scenario.name for scenario in TABLE]
