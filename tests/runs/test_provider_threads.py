"""Provider threads: providers side by side, none waiting for another; the creates of one take turns."""

from __future__ import annotations

import threading
from pathlib import Path

from layton_batch.pipeline import advance
from layton_batch.runs.context import Run
from layton_batch.states import Lifecycle
from tests.support.lab import Lab, quiz_text, several
from tests.support.tampering import Answer, hostile

SOON, LONG = 0.2, 30.0


def states(run: Run) -> dict[str, Lifecycle]:
    return {batch.provider: batch.state for batch in run.store.batches()}


def calls(bench: Lab, provider: str, kind: str) -> int:
    return bench.server.request_counts().get(provider, {}).get(kind, 0)


def test_a_provider_that_is_slow_holds_nobody_up_and_a_later_tick_says_what_it_moved(tmp_path: Path) -> None:
    let_go = threading.Event()

    def tamper(provider: str, kind: str, _path: str, answer: Answer) -> Answer:
        if (provider, kind) == ("mistral", "create"):
            let_go.wait(LONG)
        return answer

    with hostile(tmp_path) as (bench, between), bench.open(quiz_text(("openai", "mistral"), limit=2)) as run:
        between.tamper = tamper
        while states(run).get("openai") is not Lifecycle.COLLECTED:
            advance(run, SOON)
            bench.clock.sleep(60.0)
        assert states(run)["mistral"] is Lifecycle.SUBMITTING  # and no second thread looks for it
        assert (run.threads.are_busy, calls(bench, "mistral", "create")) == (True, 1)
        let_go.set()
        assert advance(run)
        assert states(run)["mistral"] is Lifecycle.IN_FLIGHT
        assert not run.threads.are_busy
        assert calls(bench, "mistral", "create") == 1


def test_batches_of_a_provider_are_created_one_after_another_and_polled_side_by_side(tmp_path: Path) -> None:
    """As many are polled at once as the provider is called at once, and no more."""
    with hostile(tmp_path) as (bench, between):
        with bench.open(several(2)) as run:
            at_once = run.providers.dialect("openai").limits.calls_at_once
        together, lock = threading.Barrier(at_once), threading.Lock()
        active, polls, most = 0, 0, {"create": 0, "poll": 0}

        def tamper(_provider: str, kind: str, _path: str, answer: Answer) -> Answer:
            nonlocal active, polls
            if kind in most:
                with lock:
                    active, polls = active + 1, polls + (kind == "poll")
                    most[kind] = max(most[kind], active)
                    is_gathering = 1 < polls <= 1 + at_once  # the first one finds out whether anybody answers
                if kind == "create":
                    threading.Event().wait(SOON / 10)
                elif is_gathering:
                    together.wait(LONG)
                with lock:
                    active -= 1
            return answer

        between.tamper = tamper
        bench.begin(several(2 * at_once))
        assert most["create"] == 1
        bench.clock.sleep(60.0)
        status = bench.begin(several(2 * at_once))
        assert {batch.state for batch in status.batches} == {Lifecycle.COLLECTED}
        assert most == {"create": 1, "poll": at_once}
