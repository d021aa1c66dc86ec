"""Calls to providers: as many as there is open work, none twice, and all that can be done now is done now."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest

from layton_batch.errors import AmbiguousCallError, TransientProviderError
from layton_batch.providers.anthropic import Anthropic
from layton_batch.providers.openai import FileBatches
from layton_batch.records import Snapshot, Submission
from layton_batch.runs.status import read_status
from layton_batch.states import Lifecycle, Role
from tests.support.lab import Lab, RunState, Status, advance, drive, lab, manifest_text, named, quiz_text, several

ENDED = 120.0


def added(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {kind: after[kind] - before.get(kind, 0) for kind in after}


def test_one_model_more_costs_as_many_calls_whatever_has_ended_at_the_provider(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        counts: list[dict[str, int]] = [{}]
        for text in (several(1, "anthropic"), several(2, "anthropic"), named("another", several(3, "anthropic"))):
            bench.finish(text)
            counts.append(dict(bench.server.request_counts()["anthropic"]))
            bench.clock.sleep(3600.0)
    first, *others = [added(*pair) for pair in pairwise(counts)]
    assert others == [first] * 2
    assert first["list"] == first["create"] == first["results"] == 1


def test_batches_that_go_together_need_one_list_and_each_is_read_once_in_a_tick(tmp_path: Path) -> None:
    text = several(5, "anthropic")
    with lab(tmp_path) as bench:
        bench.begin(text)
        before = dict(bench.server.request_counts()["anthropic"])
        assert (before["create"], before["list"]) == (5, 1)
        bench.clock.sleep(3600.0)
        assert {batch.state for batch in bench.begin(text).batches} == {Lifecycle.COLLECTED}
        assert added(before, dict(bench.server.request_counts()["anthropic"]))["poll"] == 5


def test_a_create_without_an_answer_is_the_last_of_a_provider_that_is_asked_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, created = Anthropic.create, [0]

    def hanging(provider: Anthropic, submission: Submission) -> str:
        created[0] += 1
        if created[0] == 1:
            return create(provider, submission)
        raise AmbiguousCallError("anthropic: no answer within 600 seconds")

    monkeypatch.setattr(Anthropic, "create", hanging)
    with lab(tmp_path) as bench:
        states = sorted(batch.state for batch in bench.begin(several(4, "anthropic")).batches)
        assert states == [Lifecycle.IN_FLIGHT, Lifecycle.PLANNED, Lifecycle.PLANNED, Lifecycle.SUBMITTING]
    assert created == [2]


def test_a_provider_that_does_not_answer_is_asked_once_a_tick_and_for_results_once_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text(("openai",), limit=10, top="[limits.openai]\nmax_requests = 1")
    asked: list[str] = []

    def silent(_: object, about: str | Snapshot) -> NoReturn:
        asked.append(about if isinstance(about, str) else about.provider_id)
        raise TransientProviderError("openai: no answer within 600 seconds")

    with lab(tmp_path) as bench:
        with bench.open(text) as run:
            advance(run)
            bench.clock.sleep(ENDED)
            for call, first_tick, both_ticks in (("snapshot", 1, 2), ("results", 8, 10)):
                with monkeypatch.context() as patch:
                    patch.setattr(FileBatches, call, silent)
                    for most in (first_tick, both_ticks):
                        advance(run)
                        assert len(asked) == len(set(asked)) == most
                asked.clear()
                bench.clock.sleep(3600.0)
        bench.finish_paid_once(text)


# ---- nothing waits that need not -------------------------------------------------------------------------------------


def moments(bench: Lab, text: str, kind: str, role: Role) -> list[float]:
    """When events of a kind happened to batches of a role, by our clock."""
    return [event.at for event in bench.events(text, kind) if str(event.batch_id).startswith(str(role))]


def test_one_call_does_what_needs_no_waiting_and_every_status_on_the_way_counts_requests_as_they_are(
    tmp_path: Path,
) -> None:
    text = manifest_text(("openai", "mistral"), limit=2)
    seen: list[set[Lifecycle]] = []
    with lab(tmp_path) as bench, bench.open(text) as run:

        def check(status: Status) -> None:
            if not run.threads.are_busy:
                now = read_status(run.store)
                assert (status.state, status.jobs) == (now.state, now.jobs)

        for state in (RunState.RUNNING, RunState.RUNNING, RunState.DONE):  # the last with votes, board and pages
            now = bench.clock.now()
            assert drive(run, once=True, stop_at=None, progress=check).state is state
            assert bench.clock.now() == now
            seen.append({batch.state for batch in run.store.batches()})
            bench.clock.sleep(ENDED)
        assert seen == [
            {Lifecycle.IN_FLIGHT}, {Lifecycle.COLLECTED, Lifecycle.IN_FLIGHT}, {Lifecycle.COLLECTED}
        ]  # fmt: skip
        answered = max(moments(bench, text, "collected", Role.PREDICT))
        assert max(moments(bench, text, "submitted", Role.JUDGE)) == answered
