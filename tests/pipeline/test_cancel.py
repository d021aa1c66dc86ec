"""Cancel: whatever a provider says to it the first time, paying stops, and what was answered is kept."""

from __future__ import annotations

from pathlib import Path

from layton_batch.batches.cancel import cancel_run
from layton_batch.loop import drive
from layton_batch.pipeline import advance, is_finished
from layton_batch.runs.folders import find_run
from layton_batch.runs.open import open_folder
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.lab import Lab, lab, manifest_text, quiz_text

TWO = ("openai", "mistral")
LONG = 4000.0


def failing(action: str = "status", *, times: int = 1, status: int = 503, provider: str = "openai") -> Fault:
    return Fault(on="cancel", action=action, status=status, provider=provider, times=times)


def cancelled_in_flight(bench: Lab, text: str) -> tuple[int, Status]:
    """A run cancelled when all its batches have just been sent, and driven to its end; how many cancels failed."""
    with bench.open(text) as run:
        advance(run)
        assert {batch.state for batch in run.store.batches()} == {Lifecycle.IN_FLIGHT}
        failed = cancel_run(run)
        status = drive(run, once=False, stop_at=bench.clock.now() + 100 * 3600)
    return len(failed), status


def test_a_provider_that_refuses_every_cancel_is_waited_for_and_what_it_answers_is_collected(tmp_path: Path) -> None:
    with lab(tmp_path, failing(times=0, status=409), batch_seconds=300.0) as bench:
        failed, status = cancelled_in_flight(bench, manifest_text())
        assert (failed, status.state) == (1, RunState.CANCELLED)
        assert status.jobs[0].succeeded == 4
        assert set(bench.billed().values()) == {1}
        assert status.spent_usd == bench.server.ledger().total_usd > 0
        assert bench.server.request_counts().keys() == {"openai"}  # its answers go before no jury


def test_cancelling_again_asks_again_at_once_and_says_what_goes_on(tmp_path: Path) -> None:
    with lab(tmp_path, failing(times=2), batch_seconds=LONG) as bench, bench.open(quiz_text(TWO)) as run:
        advance(run)
        for _ in range(2):
            (going_on,) = cancel_run(run)
            assert (going_on.batch.provider, "503" in going_on.reason) == ("openai", True)
        assert cancel_run(run) == []
        assert {batch.state for batch in run.store.batches()} == {Lifecycle.CANCELLING}


def test_what_was_never_sent_is_withdrawn_and_no_call_is_made_for_it(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path) as bench, bench.open(text) as run:
        cancel_run(run)
        for _ in range(3):
            advance(run)
        assert is_finished(run)
        assert read_status(run.store).state is RunState.CANCELLED
        assert bench.server.request_counts() == {}


def test_a_run_that_is_done_is_not_cancelled(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path) as bench:
        done = bench.finish(text)
        with bench.open(text) as run:
            before = run.store.events()[-1]
            assert cancel_run(run) == []
            assert run.store.events()[-1] == before
        assert bench.finish(text) == done
        assert done.state is RunState.DONE


def test_a_run_whose_edit_was_cut_short_is_cancelled_and_goes_on_later(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        with bench.open(quiz_text()) as run:
            advance(run)
            run.freeze(run.items[:-1])  # and then the program was killed, before it planned anew
        with open_folder(find_run("lab", bench.runs), bench.settings, bench.clock) as run:
            cancel_run(run)
            drive(run, once=False, stop_at=bench.clock.now() + 100 * 3600)
            assert [batch.state for batch in run.store.batches()] == [Lifecycle.COLLECTED]
            assert [event.kind for event in run.store.events()][-1] == "table_damaged"
        assert bench.finish(quiz_text()).state is RunState.CANCELLED


def test_a_run_that_is_cancelled_before_it_planned_anything_is_over(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        for text in (quiz_text(), quiz_text(limit=2)):  # begun, edited, and killed before it planned
            with bench.open(text):
                pass
        began = bench.clock.now()
        with open_folder(find_run("lab", bench.runs), bench.settings, bench.clock) as run:
            cancel_run(run)
            assert drive(run, once=False, stop_at=began + 100 * 3600).state is RunState.CANCELLED
        assert bench.clock.now() - began < 3600
