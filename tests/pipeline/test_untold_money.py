"""Money that cannot be told is bounded: kept from the budget, shown beside the bill, and in no sum of it. What
providers say of a batch's cost stands beside our bill."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from layton_batch.providers.openai import FileBatches
from layton_batch.records import Response, Usage
from layton_batch.sandbox import Fault
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
