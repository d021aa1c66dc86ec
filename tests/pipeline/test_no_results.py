"""Results that are not there yet, or something else in their place: waited for, and never bought again unasked.

``tests/batches/test_machine_ending.py`` and ``test_batch_results.py`` have a table of each decision. These are whole
runs: one of each kind in every change, the others nightly.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.errors import NotFoundError, ProviderError, RequestRefusedError, TransientProviderError
from layton_batch.providers.openai_files import FileBatches
from layton_batch.records import Response, Snapshot
from layton_batch.runs.folders import find_run
from layton_batch.runs.open import open_folder
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.states import ErrorClass, Lifecycle
from layton_batch.store.reopening import retry
from layton_batch.verification.verify import verify_run
from tests.pipeline.test_outages import HOUR, first, ticks
from tests.support.asked import error_classes
from tests.support.lab import START, Lab, lab, quiz_text
from tests.support.tiers import tiered

DAY = 24 * HOUR


def page(provider: str, times: int = 0) -> Fault:
    """A page of HTML, with status 200, in place of results."""
    return Fault(on="results", action="not_json", provider=provider, times=times)


def nothing_shown_for(bench: Lab, patch: pytest.MonkeyPatch, seconds: float, *, counts: bool) -> None:
    """Until then an ended batch names no files, and, without ``counts``, tells never how many rows were answered."""
    until, real = START + seconds, FileBatches.snapshot

    def snapshot(self: FileBatches, provider_id: str) -> Snapshot:
        found = real(self, provider_id)
        if not counts:
            found = replace(found, total=None, succeeded=None, failed=None)
        return found if bench.clock.now() >= until else replace(found, results_ref=None, errors_ref=None)

    patch.setattr(FileBatches, "snapshot", snapshot)


def collect_first(bench: Lab, text: str) -> None:
    """Drive the run until its first batch is collected, half an hour a tick."""
    ticks(bench, text, lambda run: first(run).state is Lifecycle.COLLECTED, seconds=1800.0)


@pytest.mark.parametrize(
    ("provider", "counts"),
    [pytest.param("together", False, marks=pytest.mark.nightly), ("openai", True)],
)
def test_a_completed_batch_that_does_not_name_its_files_yet_is_waited_for_and_paid_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, counts: bool
) -> None:
    text = quiz_text((provider,), limit=3)
    with lab(tmp_path) as bench:
        nothing_shown_for(bench, monkeypatch, 5 * HOUR, counts=counts)
        collect_first(bench, text)
        assert len(bench.finish_paid_once(text).batches) == 1


@pytest.mark.nightly
def test_so_is_a_file_that_reads_empty_at_first(tmp_path: Path) -> None:
    text = quiz_text(("together",), limit=3)
    empty = Fault(on="results", action="short", share=0.0, provider="together", times=12)
    with lab(tmp_path, empty) as bench:
        collect_first(bench, text)
        bench.finish_paid_once(text)


@pytest.mark.parametrize("provider", tiered(("openai", "anthropic", "gemini"), ci=("anthropic",)))
def test_a_page_of_html_in_place_of_the_results_is_a_download_that_failed(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=3)
    with lab(tmp_path, page(provider, times=12)) as bench:
        collect_first(bench, text)
        bench.finish_paid_once(text)


@pytest.mark.nightly
def test_so_it_is_for_a_batch_that_did_not_complete_and_has_no_counts(tmp_path: Path) -> None:
    text = quiz_text(("together",), limit=4)
    ended = Fault(on="batch", action="expire", provider="together", share=0.8, times=1)
    empty = Fault(on="results", action="short", share=0.0, provider="together", times=6)
    with lab(tmp_path, ended, page("together", times=6), empty) as bench:
        collect_first(bench, text)
        bench.finish_paid_once(text)


def test_a_batch_that_the_provider_counts_as_failed_row_by_row_is_not_waited_for(tmp_path: Path) -> None:
    text = quiz_text(("openai",), limit=3)
    failed = Fault(on="row", action="error", provider="openai", status=500, times=3)
    with lab(tmp_path, failed, page("openai", times=1)) as bench:
        status = bench.finish(text)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert bench.clock.now() - START < HOUR


@pytest.mark.nightly
def test_results_that_never_come_are_out_of_reach_and_bought_again_only_by_a_person(tmp_path: Path) -> None:
    text = quiz_text(("mistral",), limit=3)
    with lab(tmp_path, page("mistral", times=20)) as bench:
        ticks(bench, text, lambda run: first(run).state is Lifecycle.ENDED and first(run).failures > 10, 900.0)
        bench.clock.sleep(15 * DAY)
        collect_first(bench, text)
        status = bench.finish(text)
        assert set(bench.billed().values()) == {1}
        assert (status.jobs[0].succeeded, status.jobs[0].unanswered) == (0, 3)
        with open_folder(find_run("lab", bench.runs), bench.settings, bench.clock) as run:
            assert ErrorClass.OUT_OF_REACH in error_classes(run.store)
            assert retry(run.store, run.clock.now()) == 3
        assert bench.finish(text).unanswered == 0


def test_the_results_of_another_batch_buy_nothing_and_ask_whether_it_is_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, real = quiz_text(("openai",), limit=3), FileBatches.decode

    def decode(self: FileBatches, line: bytes) -> Response:
        found = real(self, line)
        return replace(found, custom_id=f"another-{found.custom_id}") if self.name == "openai" else found

    monkeypatch.setattr(FileBatches, "decode", decode)
    with lab(tmp_path) as bench:
        collect_first(bench, text)
        status = bench.finish(text)
        assert (status.state, status.unanswered, len(status.batches)) == (RunState.DONE, 3, 1)
        assert set(bench.billed().values()) == {1}
        responses = bench.table(text, "responses")
        assert set(responses["error_class"]) == {"out_of_reach"}
        assert "is it the right batch?" in (status.batches[0].reason or "")
        assert verify_run(bench.run_folder(text), bench.settings).differences == []


@pytest.mark.nightly
def test_a_provider_that_counts_no_answer_for_a_day_is_believed(tmp_path: Path) -> None:
    text = quiz_text(("openai",), limit=1)
    with lab(tmp_path, Fault(on="row", action="missing", provider="openai", times=1)) as bench:
        collect_first(bench, text)
        bench.finish_paid_once(text)
        assert DAY < bench.clock.now() - START < 2 * DAY


def test_a_request_left_out_alone_where_nothing_is_counted_is_a_persons_to_repeat_after_a_day(tmp_path: Path) -> None:
    text = quiz_text(("together",), limit=3)
    with lab(tmp_path, Fault(on="row", action="missing", provider="together", match=r"-000001\b", times=2)) as bench:
        collected = {Lifecycle.COLLECTED}
        ticks(bench, text, lambda run: len(run.store.batches(collected)) == 2, seconds=2 * HOUR)
        status = bench.finish(text)
        assert (status.state, status.unanswered) == (RunState.DONE, 1)
        assert bench.clock.now() - START < 3 * DAY
        assert bench.retry() == 1
        bench.finish_paid_once(text)


@pytest.mark.nightly
def test_answers_that_are_counted_and_named_in_no_file_are_out_of_reach_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text(("openai",), limit=3)
    with lab(tmp_path) as bench:
        nothing_shown_for(bench, monkeypatch, 900 * DAY, counts=True)
        ticks(bench, text, lambda run: first(run).state is Lifecycle.COLLECTED, seconds=1800.0)
        assert DAY < bench.clock.now() - START < 3 * DAY
        status = bench.finish(text)
        assert (status.jobs[0].succeeded, status.jobs[0].unanswered) == (0, 3)
        assert status.unknown_cost_usd > 0
        assert set(bench.billed().values()) == {1}


def not_asked_for(bench: Lab, patch: pytest.MonkeyPatch, seconds: float, error: ProviderError) -> None:
    """Until then nobody says a second time of an ended batch how it ended, and how many rows were answered."""
    until, real = START + seconds, FileBatches.snapshot
    told: set[str] = set()

    def snapshot(self: FileBatches, provider_id: str) -> Snapshot:
        found = real(self, provider_id)
        if found.state is Lifecycle.ENDED and provider_id in told and bench.clock.now() < until:
            raise error
        if found.state is Lifecycle.ENDED:
            told.add(provider_id)
        return found

    patch.setattr(FileBatches, "snapshot", snapshot)


SHORT_OF_AN_EXPIRED_BATCH = (
    Fault(on="batch", action="expire", provider="openai", share=0.7, times=1),
    Fault(on="results", action="short", provider="openai", share=0.4, times=1),
)
UNKNOWN_COST = [
    TransientProviderError("openai: poll: HTTP 500", status=500),
    NotFoundError("openai: no such batch", status=404),
    RequestRefusedError("openai: another project's key", status=403),
]


@pytest.mark.nightly
@pytest.mark.parametrize("error", UNKNOWN_COST, ids=str)
def test_requests_that_a_file_lacks_while_nobody_counts_answers_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ProviderError
) -> None:
    text = quiz_text(("openai",), limit=3)
    with lab(tmp_path, *SHORT_OF_AN_EXPIRED_BATCH) as bench:
        not_asked_for(bench, monkeypatch, 5 * HOUR, error)
        collect_first(bench, text)
        bench.finish_paid_once(text)


@pytest.mark.parametrize("error", tiered(UNKNOWN_COST, ci=UNKNOWN_COST[1:2]), ids=str)
def test_where_nobody_ever_does_they_are_a_persons_to_buy_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ProviderError
) -> None:
    text = quiz_text(("openai",), limit=3)
    for_ever = replace(SHORT_OF_AN_EXPIRED_BATCH[1], times=0)
    with lab(tmp_path, SHORT_OF_AN_EXPIRED_BATCH[0], for_ever) as bench:
        not_asked_for(bench, monkeypatch, 900 * DAY, error)
        ticks(bench, text, lambda run: first(run).state is Lifecycle.ENDED and first(run).failures > 10, 900.0)
        bench.clock.sleep(100 * DAY)
        ticks(bench, text, lambda run: first(run).state is Lifecycle.COLLECTED, 900.0)
        with open_folder(find_run("lab", bench.runs), bench.settings, bench.clock) as run:
            assert ErrorClass.OUT_OF_REACH in error_classes(run.store)
            assert len(run.store.batches({Lifecycle.PLANNED})) == 0
        assert set(bench.billed().values()) == {1}
