"""A manifest that allows longer replies asks anew for what the limit cut, and for nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.pipeline import advance
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.stages.preview import preview
from layton_batch.states import Lifecycle
from tests.support.lab import Lab, lab, manifest_text, quiz_text

CUT = Fault(on="row", action="truncated", provider="openai", times=1)
LIMIT = "max_output_tokens = 4000"


def raised(text: str, limit: int = 8000) -> str:
    return text.replace(LIMIT, f"max_output_tokens = {limit}")


def newly_billed(bench: Lab, before: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in bench.billed().items() if count != before.get(name)}


def planned(bench: Lab, text: str) -> dict[str, int]:
    """How many requests `plan` says that each job sends now."""
    said = preview(bench.manifest(text), bench.settings, bench.clock, None, bench.runs)
    return {str(job.job.role): sends for job in said.jobs if (sends := job.requests - job.answered)}


def test_a_higher_limit_buys_the_cut_answer_and_its_verdict_alone(tmp_path: Path) -> None:
    text = manifest_text(limit=4)
    with lab(tmp_path, CUT) as bench:
        bench.finish_paid_once(text)
        before = bench.billed()
        cut = bench.table(text, "responses").filter(finish_reason="length")["custom_id"].to_list()
        assert len(cut) == 1
        said = planned(bench, raised(text))
        assert said["predict"] == 1
        status = bench.finish(raised(text))
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        bought = newly_billed(bench, before)
        assert set(bought.values()) == {1}
        assert len(bought) == sum(said.values())
        assert status.spent_usd == bench.server.ledger().total_usd


@pytest.mark.parametrize("limit", [4001, 2000])
def test_another_limit_buys_nothing_where_no_answer_was_cut(tmp_path: Path, limit: int) -> None:
    with lab(tmp_path) as bench:
        bench.finish_paid_once(quiz_text())
        assert planned(bench, raised(quiz_text(), limit)) == {}
        bench.finish_paid_once(raised(quiz_text(), limit))


def test_an_answer_that_was_cut_by_the_new_limit_is_not_bought_again(tmp_path: Path) -> None:
    with lab(tmp_path, Fault(on="row", action="truncated", provider="openai")) as bench:
        bench.finish_paid_once(quiz_text())
        assert planned(bench, quiz_text()) == {}
        assert planned(bench, raised(quiz_text(), 2000)) == {}
        bench.finish(raised(quiz_text()))
        bought = bench.billed()
        bench.finish(raised(quiz_text()))
        assert bench.billed() == bought


def test_a_batch_under_way_is_waited_for_and_asked_anew_only_where_it_was_cut(tmp_path: Path) -> None:
    with lab(tmp_path, CUT) as bench:
        with bench.open(quiz_text()) as run:
            while not run.store.batches() or run.store.batches()[0].state is Lifecycle.PLANNED:
                advance(run)
        status = bench.finish(raised(quiz_text()))
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert sorted(bench.billed().values()) == [1] * 4
        assert status.spent_usd == bench.server.ledger().total_usd
