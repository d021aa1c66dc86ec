"""What can be done now is done now: answers that were collected go to the judges without a pause."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.loop import drive
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.states import Lifecycle
from tests.support.lab import Lab, lab, manifest_text

TEXT = manifest_text(("openai", "mistral"), limit=2)


def moments(run: Run, kind: str, role: str) -> list[float]:
    """When events of a kind happened to batches of a role, by our clock."""
    roles = {job.id: job.role for job in run.store.jobs()}
    batches = {batch.id: roles[batch.job_id] for batch in run.store.batches()}
    return [
        event.at for event in run.store.events() if event.kind == kind and batches.get(event.batch_id or "") == role
    ]


def waited(run: Run) -> float:
    """Seconds between the last collection of predictions and the last creation of a judge's batch."""
    return max(moments(run, "submitted", "judge")) - max(moments(run, "collected", "predict"))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Lab]:
    with lab(tmp_path) as found:
        yield found


def step(bench: Lab, run: Run) -> RunState:
    """Drive the run once, which takes no time, and let the batches end."""
    now = bench.clock.now()
    state = drive(run, once=True, stop_at=None).state
    assert bench.clock.now() == now
    bench.clock.sleep(120.0)
    return state


def test_one_call_does_what_needs_no_waiting_and_the_next_does_the_rest(bench: Lab) -> None:
    with bench.open(TEXT) as run:
        assert step(bench, run) is RunState.RUNNING
        assert {batch.state for batch in run.store.batches()} == {Lifecycle.IN_FLIGHT}
        assert step(bench, run) is RunState.RUNNING
        assert {batch.state for batch in run.store.batches()} == {Lifecycle.COLLECTED, Lifecycle.IN_FLIGHT}
        assert waited(run) == 0.0
        assert step(bench, run) is RunState.DONE  # with votes, board and pages


def test_every_status_that_is_shown_counts_the_requests_as_they_are(bench: Lab) -> None:
    idle = 0
    with bench.open(TEXT) as run:

        def check(status: Status) -> None:
            nonlocal idle
            if run.threads.are_busy:
                return
            now = read_status(run.store)
            assert (status.state, status.jobs) == (now.state, now.jobs)
            idle += any(batch.state is Lifecycle.IN_FLIGHT for batch in now.batches)

        drive(run, once=False, stop_at=None, progress=check)
    assert idle > 1
