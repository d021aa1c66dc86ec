"""Results that are not there yet, or something else in their place: waited for, and never bought again unasked.

``tests/batches/test_machine_ending.py`` and ``test_batch_results.py`` have a table of each decision. These are whole
runs: one of each kind in every change, the others nightly.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.providers.openai import FileBatches
from layton_batch.records import Response, Snapshot
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from layton_batch.verification.verify import verify_run
from tests.pipeline.test_outages import HOUR, first, ticks
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


@pytest.mark.parametrize("provider", tiered(("openai", "anthropic", "gemini"), ci=("anthropic",)))
def test_a_page_of_html_in_place_of_the_results_is_a_download_that_failed(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=3)
    with lab(tmp_path, page(provider, times=12)) as bench:
        collect_first(bench, text)
        bench.finish_paid_once(text)


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
