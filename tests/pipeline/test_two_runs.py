"""Two runs of one workspace that want the same answers at the same time pay for each once."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from layton_batch.pipeline import is_finished, next_due
from layton_batch.runs.status import read_status
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.lab import RunState, advance, lab, named, quiz_text, several

ONE = quiz_text(("openai", "anthropic"), limit=2)
FIRST, SECOND = (named(name, ONE) for name in ("first", "second"))


def test_runs_that_are_driven_at_the_same_time_share_every_answer(tmp_path: Path) -> None:
    with lab(tmp_path) as bench, ExitStack() as stack:
        for text in (FIRST, SECOND):
            bench.plan_only(text)  # each has files with the same questions before anybody sends
        runs = [stack.enter_context(bench.open(text)) for text in (FIRST, SECOND)]
        for _ in range(200):
            moved = [advance(run) for run in runs]
            if all(map(is_finished, runs)):
                break
            if not any(moved):
                moments = [moment for run in runs if (moment := next_due(run)) is not None]
                bench.clock.sleep(max(min(moments) - bench.clock.now(), 0.02))
        statuses = [read_status(run.store) for run in runs]
        assert sorted(bench.billed().values()) == [1] * 4
        assert {(status.state, status.unanswered) for status in statuses} == {(RunState.DONE, 0)}
        assert sum(status.spent_usd for status in statuses) == bench.server.ledger().total_usd
        boards = [bench.table(text, "leaderboard") for text in (FIRST, SECOND)]
        assert boards[0].equals(boards[1])


def test_a_run_waits_for_one_that_has_stopped_in_the_middle_and_pays_nothing(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.begin(FIRST)
        status = bench.begin(SECOND, ticks=5, seconds=600.0)
        assert (status.unanswered, status.spent_usd, status.batches) == (0, 0, ())
        assert len(bench.events(SECOND, "waits_for_run")) == 1
        bench.finish(FIRST)
        assert bench.finish(SECOND).spent_usd == 0
        assert set(bench.billed().values()) == {1}


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_run_says_which_other_run_it_waits_for_in_vain(tmp_path: Path, is_lost: bool) -> None:
    small = several(1, "xai")
    first, second = named("first", small), named("second", small)
    with lab(tmp_path, *[Fault(on="create", action="drop", provider="xai", times=1)] * is_lost) as bench:
        bench.begin(first)
        if is_lost:
            assert bench.finish(first).batches[0].state is Lifecycle.LOST
        waiting = bench.finish(second, max_hours=1.0)
        assert waiting.state is (RunState.NEEDS_PERSON if is_lost else RunState.RUNNING)
        waiting = bench.finish(second)
        assert waiting.state is RunState.NEEDS_PERSON
        assert "run first" in str(waiting.reason)
        assert ("resolve first predict-" in str(waiting.reason)) is is_lost
        if not is_lost:
            bench.finish(first)
            assert bench.finish(second).spent_usd == 0
