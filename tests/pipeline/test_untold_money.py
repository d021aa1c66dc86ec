"""Money that cannot be told is bounded: kept from the budget, shown beside the bill, and in no sum of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.providers.openai import FileBatches
from layton_batch.records import Response, Usage
from layton_batch.reports.cost_document import report_json
from layton_batch.runs.status import RunState, Status
from layton_batch.sandbox import Fault
from tests.support.lab import MODELS, Lab, lab, quiz_text

OPENAI = ("openai",)
DAMAGED = Fault(on="row", action="malformed_line", provider="openai", times=1)


def bound(bench: Lab, text: str, batch_id: str, error_class: str) -> Decimal:
    """What the batch's requests that ended this way can cost at most."""
    ended = bench.table(text, "responses").filter(batch_id=batch_id, error_class=error_class)
    asked = bench.requests(text).join(ended, on="custom_id", how="semi")
    return sum(map(Decimal, asked["max_cost"]), Decimal(0))


def test_a_row_that_cannot_be_read_is_bounded_in_the_status_and_in_the_bill(tmp_path: Path) -> None:
    text = quiz_text(OPENAI)
    with lab(tmp_path, DAMAGED) as bench:
        status = bench.finish(text)
        batch = status.batches[0]
        assert status.unknown_cost_usd == bound(bench, text, batch.id, "unreadable") > 0
        assert (status.complete, status.reserved_usd) == (False, 0)
        billed = bench.server.ledger().total_usd
        assert status.spent_usd < billed <= status.spent_usd + status.unknown_cost_usd
        report = bench.bill()
        assert (report.total.unknown_cost.usd, report.total.unknown_cost_requests) == (status.unknown_cost_usd, 1)
        assert report.total.batched.usd == status.spent_usd
        assert not report.total.batched.complete
        assert report_json(report)["total"]["complete"] is False  # type: ignore[index, call-overload]
        (line,) = (line for line in report.lines if line.unknown_cost_requests)
        assert (line.group, line.requests) == (("openai", MODELS["openai"], "predict"), 2)
        assert sum(map(Decimal, bench.table(text, "cost")["cost_usd"])) == status.spent_usd
        with bench.open(text) as run:
            (told,) = (event.detail for event in run.store.events() if event.kind == "cost_untold")
        assert told.startswith("1 unreadable: what they cost cannot be told and is not in this run's bill; at most $")


def test_buying_what_cannot_be_read_again_and_again_ends_at_the_budget(tmp_path: Path) -> None:
    text = quiz_text(OPENAI)
    always = replace(DAMAGED, times=0)
    with lab(tmp_path, always) as bench:
        worst = bench.finish(text).unknown_cost_usd
        within = text.replace("[items]", f"[budget]\nmax_usd = {2 * worst}\n[items]")
        for _ in range(2):
            bench.retry()
            status = bench.finish(within)
        assert status.state is RunState.OVER_BUDGET
        assert bench.server.ledger().total_usd <= status.spent_usd + status.unknown_cost_usd <= 2 * worst


def patched_usage(patch: pytest.MonkeyPatch) -> None:
    real = FileBatches.decode

    def decode(self: FileBatches, line: bytes) -> Response:
        return replace(real(self, line), usage=Usage(is_known=False)) if self.name == "openai" else real(self, line)

    patch.setattr(FileBatches, "decode", decode)


def told_of(bench: Lab, text: str) -> str:
    with bench.open(text) as run:
        return " | ".join(event.detail for event in run.store.events() if event.kind == "cost_untold")


def bounded(bench: Lab, text: str, status: Status) -> bool:
    """Whether three predictions are in the bill as answers of unknown cost, and their bounds beside it."""
    usage = bench.table(text, "usage").filter(role="predict")
    report = bench.bill()
    asked = bench.requests(text).filter(role="predict")
    assert usage["cost_usd"].to_list() == [None] * 3
    assert (report.total.unknown_cost.usd, report.total.unknown_cost_requests) == (status.unknown_cost_usd, 3)
    assert status.unknown_cost_usd == sum(map(Decimal, asked["max_cost"]), Decimal(0))
    return not status.complete and status.unanswered == 0


def test_an_answer_that_does_not_tell_its_tokens_costs_up_to_its_bound_not_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text(OPENAI)
    patched_usage(monkeypatch)
    with lab(tmp_path) as bench:
        assert bounded(bench, text, bench.finish(text))
        assert "3 answered without usage" in told_of(bench, text)
