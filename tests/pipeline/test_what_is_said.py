"""What `retry`, `resolve` and `run` say is going to happen is what happens."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from layton_batch.pipeline import advance
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.cli_harness import Desk, call, desk
from tests.support.lab import lab, manifest_text, quiz_text

LOST = "predict-larch-2-mini.s0001.a1"
NOT_LISTED = (
    Fault(on="create", action="drop", provider="openai", times=1),
    Fault(on="list", action="status", status=403, provider="openai", after=1, times=20),
)
"""The list is read before the batch is sent, and not while it is looked for."""


def tick_until_collected(bench: Desk, text: str) -> None:
    with bench.lab.open(text) as run:
        for _ in range(100):
            advance(run)
            if run.store.batches({Lifecycle.COLLECTED}):
                return
            bench.lab.clock.sleep(7)
    raise AssertionError("nothing was collected")


def lines(*arguments: str | Path) -> list[str]:
    """What a command that succeeds says on stderr."""
    end = call(*arguments)
    assert end.code == 0
    return end.err.strip().splitlines()


def lines_at_last(*arguments: str | Path) -> list[str]:
    """The same of a command that is refused while the provider's list is in trouble."""
    for _ in range(40):
        if (end := call(*arguments)).code == 0:
            return end.err.strip().splitlines()
        assert "cannot be read" in end.err or "403" in end.err, end.err
    raise AssertionError("never")


def test_a_lost_batch_is_a_persons_and_is_not_sent_while_the_run_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, *NOT_LISTED) as bench:
        path = bench.write(quiz_text(limit=2))
        assert call("run", path).code == 4
        nothing, lost = lines("retry", "lab")
        assert nothing == "Nothing to retry."
        assert lost.startswith(f"1 batch is lost, such as {LOST}. `run` does not touch a lost batch; ")
        assert "`layton-batch resolve`" in lost
        assert call("run", path).code == 4
        assert call("cancel", "lab").code == 4
        addresses, *said = lines_at_last("resolve", "lab", LOST, "--resubmit")
        assert addresses.endswith("not at its own address")
        assert said == [f"{LOST}: not sent, because the run is cancelled. `retry` and then `run` send it."]
        assert bench.lab.billed() == {}
        assert lines("retry", "lab") == [
            "Nothing to retry; 1 batch is still open. `run` continues.",
            "The run was cancelled. The next `run` continues it, and sends and pays for the remaining requests.",
        ]
        assert call("run", path).code == 0
        assert set(bench.lab.billed().values()) == {1}


def test_retry_of_a_run_cancelled_before_its_judges_were_asked_says_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = manifest_text(limit=2)
    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(text)
        tick_until_collected(bench, text)
        assert call("cancel", "lab").code == 0
        assert lines("retry", "lab") == [
            "Nothing to retry; every request so far has an answer. `run` sends the remaining requests.",
            "The run was cancelled. The next `run` continues it, and sends and pays for the remaining requests.",
        ]
        assert call("run", path).code == 0
        assert lines("retry", "lab")[0].startswith("Nothing to retry; every request has an answer, and")


def test_a_budget_that_lets_one_batch_go_at_a_time_stops_the_run_once(tmp_path: Path) -> None:
    text = manifest_text(limit=3, top='[budget]\nmax_usd = "0.0065"\n[limits.openai]\nmax_requests = 1\n')
    with lab(tmp_path) as bench:
        status = bench.finish(text)
        with bench.open(text) as run:
            kinds = Counter(event.kind for event in run.store.events())
    assert status.state is RunState.OVER_BUDGET  # the verdicts do not fit
    assert status.jobs[0].succeeded == 3
    assert (kinds["run_stopped"], kinds["run_goes_on"]) == (1, 0)
