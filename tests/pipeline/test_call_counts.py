"""Calls to providers: as many as there is open work, none twice, and all that can be done now is done now."""

from __future__ import annotations

from pathlib import Path

from layton_batch.runs.status import read_status
from layton_batch.states import Lifecycle, Role
from tests.support.lab import Lab, RunState, Status, drive, lab, manifest_text, several

ENDED = 120.0


def added(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {kind: after[kind] - before.get(kind, 0) for kind in after}


def test_batches_that_go_together_need_one_list_and_each_is_read_once_in_a_tick(tmp_path: Path) -> None:
    text = several(5, "anthropic")
    with lab(tmp_path) as bench:
        bench.begin(text)
        before = dict(bench.server.request_counts()["anthropic"])
        assert (before["create"], before["list"]) == (5, 1)
        bench.clock.sleep(3600.0)
        assert {batch.state for batch in bench.begin(text).batches} == {Lifecycle.COLLECTED}
        assert added(before, dict(bench.server.request_counts()["anthropic"]))["poll"] == 5


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
