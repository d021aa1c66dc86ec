"""Two runs of one workspace that want the same answers at the same time pay for each once."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from layton_batch.batches import machine
from layton_batch.pipeline import advance, is_finished, next_due
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState, read_status
from layton_batch.sandbox import Fault
from layton_batch.stages.plan import plan
from layton_batch.states import Lifecycle
from tests.pipeline.test_twins import twins
from tests.support.lab import Lab, lab, manifest_text, quiz_text

JUDGED, ONE = manifest_text(limit=2), quiz_text(("openai", "anthropic"))
SMALL = quiz_text(limit=1)
TICKS = 200


def named(name: str, text: str = ONE) -> str:
    return text.replace('name = "lab"', f'name = "{name}"', 1)


def in_turns(bench: Lab, runs: Sequence[Run]) -> None:
    """Tick all of them until each is over."""
    for _ in range(TICKS):
        moved = [advance(run) for run in runs]
        if all(map(is_finished, runs)):
            return
        if not any(moved):
            moments = [moment for run in runs if (moment := next_due(run)) is not None]
            bench.clock.sleep(max(min(moments) - bench.clock.now(), 0.02))
    raise AssertionError([read_status(run.store).state for run in runs])


def test_runs_that_are_driven_at_the_same_time_share_every_answer(tmp_path: Path) -> None:
    with lab(tmp_path) as bench, ExitStack() as stack:
        runs = [stack.enter_context(bench.open(named(name, JUDGED))) for name in ("first", "second")]
        for run in runs:
            plan(run)  # each has files with the same questions before anybody sends
        in_turns(bench, runs)
        assert set(bench.billed().values()) == {1}
        assert len(bench.billed()) == 4
        statuses = [read_status(run.store) for run in runs]
        assert {(status.state, status.unanswered) for status in statuses} == {(RunState.DONE, 0)}
        assert sum(status.spent_usd for status in statuses) == bench.server.ledger().total_usd
        boards = [bench.table(named(run.id, JUDGED), "leaderboard").drop("model") for run in runs]
        assert all(board.equals(boards[0]) for board in boards)


def test_a_run_waits_for_one_that_has_stopped_in_the_middle_and_pays_nothing(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        with bench.open(named("first")) as run:
            while not run.store.batches({Lifecycle.IN_FLIGHT}):
                advance(run)
        with bench.open(named("second")) as run:
            for _ in range(5):
                advance(run)
                bench.clock.sleep(600.0)
            assert not is_finished(run)
            assert next_due(run) is not None
            told = [event.detail for event in run.store.events() if event.kind == "waits_for_run"]
            assert told == ["run first asks for answers that are wanted here; they cost nothing here"]
        bench.finish(named("first"))
        assert bench.finish(named("second")).spent_usd == 0
        assert set(bench.billed().values()) == {1}


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_run_says_which_other_run_it_waits_for_in_vain(tmp_path: Path, is_lost: bool) -> None:
    with lab(tmp_path, batch_seconds=60.0) as bench:
        with bench.open(named("first", SMALL)) as run:
            while not run.store.batches({Lifecycle.IN_FLIGHT}):
                advance(run)
            if is_lost:
                (batch,) = run.store.batches({Lifecycle.IN_FLIGHT})
                run.store.apply(batch, machine.lost(batch, "gone"), bench.clock.now())
        waiting = bench.finish(named("second", SMALL), max_hours=1.0)
        assert waiting.state is (RunState.NEEDS_PERSON if is_lost else RunState.RUNNING)
        waiting = bench.finish(named("second", SMALL))
        assert waiting.state is RunState.NEEDS_PERSON
        assert "run first" in str(waiting.reason)
        assert ("resolve first predict-" in str(waiting.reason)) is is_lost
        if not is_lost:
            bench.finish(named("first", SMALL))
            assert bench.finish(named("second", SMALL)).spent_usd == 0


def test_what_another_run_could_not_get_is_asked_by_the_one_that_waited(tmp_path: Path) -> None:
    expired = Fault(on="batch", action="expire", provider="anthropic", times=3, share=0.0)
    with lab(tmp_path, expired) as bench, ExitStack() as stack:
        runs = [stack.enter_context(bench.open(named(name))) for name in ("first", "second")]
        in_turns(bench, runs)
        statuses = [read_status(run.store) for run in runs]
        assert statuses[1].unanswered == 0
        assert set(bench.billed().values()) == {1}


def test_an_answer_that_may_have_been_billed_is_not_bought_by_another_run(tmp_path: Path) -> None:
    with (
        lab(tmp_path, Fault(on="row", action="malformed_line", provider="openai", times=1)) as bench,
        ExitStack() as stack,
    ):
        text = quiz_text()
        runs = [stack.enter_context(bench.open(named(name, text))) for name in ("first", "second")]
        for run in runs:
            plan(run)
        in_turns(bench, runs)
        asked = [row for row in bench.server.ledger().rows if row.provider == "openai"]
        assert len(asked) == 3
        assert [read_status(run.store).unanswered for run in runs] == [1, 1]


def test_answers_whose_files_are_gone_are_named_and_not_bought_again(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        with bench.open(named("first")) as run:
            plan(run)
        bench.finish(named("second"))
        shutil.move(bench.runs / "batches" / "second", tmp_path / "elsewhere")
        billed = bench.billed()
        bench.finish(named("first"))
        with bench.open(named("first")) as run:
            damage = [event.detail for event in run.store.events() if event.kind == "table_damaged"]
        assert len(damage) == 2
        assert all("answers of run second are wanted, and" in detail for detail in damage)
        assert bench.billed() == billed


def test_a_planned_batch_of_a_retired_model_keeps_no_other_from_asking(tmp_path: Path) -> None:
    text = twins()
    start = text.index("[[models]]")
    without_first = text[:start] + text[text.index('[[models]]\nname = "twin"') :]
    with lab(tmp_path) as bench:
        with bench.open(text) as run:
            plan(run)
        bench.finish_paid_once(without_first)
