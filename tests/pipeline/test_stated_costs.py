"""What providers state of a batch's cost is kept beside our bill, and a difference is told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from layton_batch.costs.report import CostQuery
from layton_batch.sandbox.wire.openai_api import OpenAIApi
from tests.support.lab import Lab, lab, quiz_text

State = Mapping[str, Any]


def stating(monkeypatch: pytest.MonkeyPatch, change: State, provider: str) -> None:
    """Have the sandbox's batch objects of a provider say this besides."""
    view = OpenAIApi.view

    def changed(self: OpenAIApi, call: Any, batch: Any) -> dict[str, object]:
        return {**view(self, call, batch), **(change if self.provider == provider else {})}

    monkeypatch.setattr(OpenAIApi, "view", changed)


def told(bench: Lab, text: str) -> list[tuple[str, str]]:
    with bench.open(text) as run:
        return [(one.kind, one.detail) for one in run.store.events() if one.kind in ("cost_stated", "cost_differs")]


def test_a_batch_whose_tokens_both_sides_count_alike_says_nothing(tmp_path: Path) -> None:
    text = quiz_text(limit=2)
    with lab(tmp_path) as bench:
        bench.finish(text)
        assert told(bench, text) == []
        usage = bench.table(text, "usage").filter(provider="openai")
        with bench.open(text) as run:
            (batch,) = run.store.batches(provider="openai")
        stated = batch.stated_usd, batch.stated_input_tokens, batch.stated_output_tokens
        assert stated == (None, usage["input_tokens"].sum(), usage["output_tokens"].sum())
        assert bench.bill().differing == ()


def test_other_tokens_than_the_replies_tell_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stating(monkeypatch, {"usage": {"input_tokens": 1_000_000, "output_tokens": 2_000_000}}, "openai")
    text = quiz_text(limit=2)
    with lab(tmp_path) as bench:
        bench.finish(text)
        ((kind, detail),) = told(bench, text)
        assert kind == "cost_differs"
        assert detail.startswith("openai says 1,000,000 tokens read, 2,000,000 tokens written; our bill says ")
        (found,) = bench.bill().differing
        assert found.text == detail


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> Decimal:
    """What a batch of Doubleword costs by our prices."""
    text = quiz_text(("doubleword",), limit=2)
    with lab(tmp_path_factory.mktemp("bill")) as bench:
        bench.finish(text)
        return sum(map(Decimal, bench.table(text, "usage")["cost_usd"]), Decimal(0))


@pytest.mark.parametrize(
    ("share", "kind"),
    [
        ("1.009", "cost_stated"),
        ("1.02", "cost_differs"),
        pytest.param("0.9", "cost_differs", marks=pytest.mark.nightly),
    ],
)
def test_a_stated_cost_is_kept_and_a_difference_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bill: Decimal, share: str, kind: str
) -> None:
    text, cost = quiz_text(("doubleword",), limit=2), bill * Decimal(share)
    stating(monkeypatch, {"analytics": {"total_cost": str(cost)}}, "doubleword")
    with lab(tmp_path) as bench:
        bench.finish(text)
        assert told(bench, text) == [(kind, f"doubleword says ${cost:f}; our bill says ${bill:f}")]
        assert len(bench.bill().differing) == (kind == "cost_differs")
        assert bench.bill(query=CostQuery(until=date(2026, 1, 1))).differing == ()  # nothing ended on these days
