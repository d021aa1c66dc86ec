"""What `status` and `cost` say of money that cannot be told."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.sandbox import Fault
from tests.cli.cli_harness import call, desk
from tests.pipeline.lab import manifest_text

DAMAGED = Fault(on="row", action="malformed_line", provider="openai", times=1)


def test_status_and_cost_say_how_much_more_it_may_have_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch, DAMAGED) as bench:
        assert call("run", bench.write(manifest_text(limit=3))).code == 5
        status, cost = call("status", "lab", "--json").table(), call("cost", "lab", "--json").table()
        total = cost["total"]
        assert isinstance(total, dict)
        assert Decimal(str(status["untold_usd"])) > 0
        assert (status["complete"], total["complete"]) == (False, False)
        assert (total["untold_usd"], total["untold_requests"]) == (status["untold_usd"], 1)
        assert total["cost_usd"] == status["spent_usd"]
        assert "more that cannot be told" in " ".join(call("status", "lab").out.split())
        shown = call("cost", "lab").out
        assert "at least" in shown
        assert "more that cannot be told (1 request)" in " ".join(shown.split())


def test_a_bill_that_is_whole_says_that_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        assert call("run", bench.write(manifest_text(limit=2))).code == 0
        status = call("status", "lab", "--json").table()
        assert (status["untold_usd"], status["complete"]) == ("0", True)
        assert "cannot be told" not in call("status", "lab").out + call("cost", "lab").out
