"""What `status` and `cost` say of requests whose cost is unknown."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.sandbox import Fault
from tests.support.cli_harness import call, desk
from tests.support.lab import quiz_text

DAMAGED = Fault(on="row", action="malformed_line", provider="openai", times=1)


def test_status_and_cost_say_how_much_more_it_may_have_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch, DAMAGED) as bench:
        assert call("run", bench.write(quiz_text(limit=3))).code == 5
        status, cost = call("status", "lab", "--json").table(), call("cost", "lab", "--format", "json").table()
        total = cost["total"]
        assert isinstance(total, dict)
        assert Decimal(str(status["unknown_cost_usd"])) > 0
        assert (status["complete"], total["complete"]) == (False, False)
        assert (total["unknown_cost_usd"], total["unknown_cost_requests"]) == (status["unknown_cost_usd"], 1)
        assert total["cost_usd"] == status["spent_usd"]
        assert "upper bound for requests whose cost is unknown: $" in " ".join(call("status", "lab").out.split())
        shown = call("cost", "lab").out
        assert "at least" in shown
        assert "upper bound for 1 request whose cost is unknown, not in these sums: $" in " ".join(shown.split())


def test_a_bill_that_is_whole_says_that_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        assert call("run", bench.write(quiz_text(limit=2))).code == 0
        status = call("status", "lab", "--json").table()
        assert (status["unknown_cost_usd"], status["complete"]) == ("0", True)
        assert "cost is unknown" not in call("status", "lab").out + call("cost", "lab").out
