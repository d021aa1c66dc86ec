"""The bill's page where the cost of some requests is unknown."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from layton_batch.site.build import build_site
from tests.support.fabricated_run import fabricated
from tests.support.read_html import read_page


def shown(tmp_path: Path, untold: str) -> str:
    run = fabricated(tmp_path)
    site = build_site(run.folder, replace(run.status(), unknown_cost_usd=Decimal(untold))).parent
    return " ".join(read_page(site / "cost.html").text.split())


def test_the_bill_says_how_much_more_it_may_have_been_and_its_total_is_a_lower_bound(tmp_path: Path) -> None:
    page = shown(tmp_path, "1.25")
    assert "Upper bound for requests whose cost is unknown, not in these sums: $1.25." in page
    assert "at least $6.75" in page


def test_a_bill_that_is_whole_has_no_such_words(tmp_path: Path) -> None:
    page = shown(tmp_path, "0")
    assert "cost is unknown" not in page
    assert "at least" not in page
