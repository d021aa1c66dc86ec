"""The table of docs/misfortunes.md, row by row: one misfortune, at every provider."""

from __future__ import annotations

import pytest

from tests.simulation.scenarios import PAGE, is_on_the_page, measure
from tests.simulation.table import TABLE
from tests.tiers import tiered

PLAYED = (
    "killed when the create was carried out, before its reply",
    "upload: reply lost",
    "create: carried out, the reply is a page of HTML",
    "expired with two of three answers",
    "the list before the first create: HTTP 500 six times",
)
"""Misfortunes that every change meets: of a process, an upload, a create, a batch and a list."""


@pytest.mark.parametrize("name", tiered((scenario.name for scenario in TABLE), ci=PLAYED))
def test_at_every_provider_each_row_is_billed_once_and_none_is_lost_as_the_page_says(name: str) -> None:
    (scenario,) = (scenario for scenario in TABLE if scenario.name == name)
    measured = measure([scenario])
    assert measured[scenario.name] == {name: scenario.expected(name) for name in measured[scenario.name]}
    assert is_on_the_page(measured)


def test_the_page_has_no_row_that_is_not_measured() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if " / " in line and line.startswith("| ")]
    assert [line.split("|")[1].strip() for line in rows] == [scenario.name for scenario in TABLE]
