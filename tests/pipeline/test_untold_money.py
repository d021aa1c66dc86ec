"""Money that cannot be told is bounded: kept from the budget, shown beside the bill, and in no sum of it. What
providers say of a batch's cost stands beside our bill."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from layton_batch.costs.report import CostQuery
from layton_batch.providers.openai import FileBatches
from layton_batch.records import Response, Usage
from layton_batch.sandbox import Fault
from layton_batch.sandbox.wire.openai_api import OpenAIApi
from tests.support.cli_harness import call
from tests.support.lab import MODELS, RunState, lab, quiz_text

TEXT = quiz_text()
DAMAGED = Fault(on="row", action="malformed_line", provider="openai", times=1)


def total(frame: pl.DataFrame, column: str) -> Decimal:
    return sum(map(Decimal, frame[column].drop_nulls()), Decimal(0))


def test_a_row_that_cannot_be_read_is_bounded_in_the_status_and_in_the_bill(tmp_path: Path) -> None:
    with lab(tmp_path, DAMAGED) as bench:
        status, report = bench.finish(TEXT), bench.bill()
        unreadable = bench.table(TEXT, "responses").filter(error_class="unreadable")
        bound = total(bench.requests(TEXT).join(unreadable, on="custom_id", how="semi"), "max_cost")
        assert status.unknown_cost_usd == bound > 0
        assert (status.complete, status.reserved_usd) == (False, 0)
        billed = bench.server.ledger().total_usd
        assert status.spent_usd < billed <= status.spent_usd + status.unknown_cost_usd
        assert (report.total.unknown_cost.usd, report.total.unknown_cost_requests) == (status.unknown_cost_usd, 1)
        assert (report.total.batched.usd, report.total.batched.complete) == (status.spent_usd, False)
        (line,) = (line for line in report.lines if line.unknown_cost_requests)
        assert (line.group, line.requests) == (("openai", MODELS["openai"], "predict"), 2)
        assert total(bench.table(TEXT, "cost"), "cost_usd") == status.spent_usd
        assert len(bench.events(TEXT, "cost_untold")) == 1
        shown = call("cost", "lab", "--runs", bench.runs, "--format", "json").table()["total"]
        assert shown["complete"] is False  # type: ignore[call-overload, index]


def test_buying_what_cannot_be_read_again_and_again_ends_at_the_budget(tmp_path: Path) -> None:
    with lab(tmp_path, replace(DAMAGED, times=0)) as bench:
        worst = bench.finish(TEXT).unknown_cost_usd
        within = TEXT.replace("[items]", f"[budget]\nmax_usd = {2 * worst}\n[items]")
        for _ in range(2):
            bench.retry()
            status = bench.finish(within)
        assert status.state is RunState.OVER_BUDGET
        assert bench.server.ledger().total_usd <= status.spent_usd + status.unknown_cost_usd <= 2 * worst


def test_an_answer_that_does_not_tell_its_tokens_costs_up_to_its_bound_not_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = FileBatches.decode

    def silent(dialect: FileBatches, line: bytes) -> Response:
        return replace(decode(dialect, line), usage=Usage(is_known=False))

    dearer = re.sub(r'put = "([\d.]+)"', lambda found: f'put = "{2 * Decimal(found[1])}"', TEXT)
    with lab(tmp_path) as bench:
        with monkeypatch.context() as patch:
            patch.setattr(FileBatches, "decode", silent)
            status = bench.finish(TEXT)
        assert bench.table(TEXT, "usage")["cost_usd"].to_list() == [None] * 3
        assert status.unknown_cost_usd == total(bench.requests(TEXT), "max_cost") > 0
        assert (status.complete, status.unanswered) == (False, 0)
        report = bench.bill()
        assert (report.total.unknown_cost.usd, report.total.unknown_cost_requests) == (status.unknown_cost_usd, 3)
        assert bench.finish(dearer).unknown_cost_usd > status.unknown_cost_usd  # no price tells it


def test_what_a_provider_states_is_kept_beside_the_bill_and_a_difference_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doubleword states costs, OpenAI tokens."""
    stated: Mapping[str, Mapping[str, Any]] = {
        "openai": {"usage": {"input_tokens": 1_000_000, "output_tokens": 2_000_000}},
        "doubleword": {"analytics": {"total_cost": "0.5"}},
    }
    view = OpenAIApi.view

    def changed(self: OpenAIApi, call: Any, batch: Any) -> dict[str, object]:
        return {**view(self, call, batch), **stated.get(self.provider, {})}

    text = quiz_text(("openai", "doubleword"), limit=2)
    with lab(tmp_path) as bench:
        (alike,) = bench.finish(quiz_text(("openai",), limit=1)).batches
        ours = bench.table(text, "usage")
        counted = [ours[f"{kind}_tokens"].sum() for kind in ("input", "output")]
        assert [alike.stated_input_tokens, alike.stated_output_tokens] == counted
        assert bench.bill().differing == ()
        monkeypatch.setattr(OpenAIApi, "view", changed)
        more = {batch.provider: batch for batch in bench.finish(text).batches if batch.id != alike.id}
        assert more["doubleword"].stated_usd == Decimal("0.5")
        tokens = (more["openai"].stated_input_tokens, more["openai"].stated_output_tokens)
        assert tokens == (1_000_000, 2_000_000)
        differing = sorted(batch.id for batch in more.values())
        assert sorted(str(event.batch_id) for event in bench.events(text, "cost_differs")) == differing
        assert sorted(one.batch_id for one in bench.bill().differing) == differing
        assert bench.bill(query=CostQuery(until=date(2026, 1, 1))).differing == ()  # nothing ended on these days


def one_windowed(window: str) -> str:
    text = quiz_text(("groq", "doubleword"), limit=2)
    return text.replace('provider = "groq"\n', f'provider = "groq"\nwindow = "{window}"\n', 1)


def test_a_models_window_is_what_its_deadline_counts_from_and_another_one_holds_for_what_is_not_sent_yet(
    tmp_path: Path,
) -> None:
    with lab(tmp_path) as bench:
        bench.plan_only(one_windowed("24h"))
        sent = {batch.provider: batch for batch in bench.begin(one_windowed("7d")).batches}
        days = {
            name: round(((batch.deadline_at or 0) - (batch.submitted_at or 0)) / 86_400) for name, batch in sent.items()
        }
        assert days == {"groq": 8, "doubleword": 2}  # and a day's grace
        bench.finish_paid_once(one_windowed("48h"))
