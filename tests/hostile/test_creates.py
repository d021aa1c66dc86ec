"""Creates that are carried out and denied, and batches whose list row tells no id: few bills, and a list tells all."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

from layton_batch.batches.machine import MOST_REPEATS
from layton_batch.batches.resolve import adopt_batch
from layton_batch.runs.status import RunState, Status
from tests.support.lab import Lab, quiz_text
from tests.support.tampering import Answer, Tamper, hostile

CREATES = MOST_REPEATS + 1
ROWS = {"gemini": "operations", "mistral": "data", "together": ""}
"""Where a page of the list has its rows, if not in ``data``; at Together the page is the list."""


def rows_changed(provider: str, answer: Answer, change: object) -> Answer:
    """A page of the list with ``change(row)`` for every row, or without those of which that is None."""
    page = json.loads(answer.content)
    where = ROWS.get(provider, "data")
    rows = page if where == "" else page.get(where) or []
    kept = [row for row in (change(row) for row in rows or []) if row is not None]  # type: ignore[operator]
    made = kept if where == "" else page | {where: kept, "total": len(kept), "has_more": False}
    if where == "operations":
        made = {"operations": kept}
    return answer.of(json.dumps(made).encode())


def never_listed(provider: str) -> Tamper:
    def tamper(asked: str, kind: str, _path: str, answer: Answer) -> Answer:
        if asked == provider and kind == "create" and answer.status < 300:
            return answer.of(b'{"error": {"message": "internal error"}}', status=500)
        if asked == provider and kind == "list" and answer.status < 300:
            return rows_changed(provider, answer, lambda _row: None)
        return answer

    return tamper


def made_at(bench: Lab, provider: str) -> int:
    return bench.server.request_counts()[provider].get("create", 0)


def bound(status: Status) -> Decimal:
    return next(batch.max_cost for batch in status.batches if batch.max_cost is not None)


def test_a_batch_that_is_adopted_after_six_creates_costs_what_it_cost_and_a_list_tells_of_the_others(
    tmp_path: Path,
) -> None:
    text = quiz_text(("openai",), limit=3)
    with hostile(tmp_path) as (bench, between):
        between.tamper = never_listed("openai")
        bench.finish(text)
        bench.billed()
        one = bench.server.ledger().rows[-1].batch_id
        with bench.open(text) as run:
            adopt_batch(run, run.store.batches()[0].id, one)
        status = bench.finish(text)
        assert (status.state, status.unknown_cost_usd) == (RunState.DONE, 0)
        assert set(bench.billed().values()) == {CREATES}
        between.tamper = lambda _provider, _kind, _path, answer: answer
        bench.clock.sleep(25 * 3600.0)
        status = bench.finish(text)
        assert (status.state, status.unknown_cost_usd) == (RunState.DONE, (CREATES - 1) * bound(status))
        assert status.spent_usd < bench.server.ledger().total_usd <= status.spent_usd + status.unknown_cost_usd
