"""Results that are not there yet, are something else, or never come: waited for, and never bought again unasked.

``tests/batches/test_machine_ending.py`` and ``test_batch_results.py`` have a table of each decision. These are whole
runs: one of each kind in every change, the others nightly.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.providers.openai import FileBatches
from layton_batch.records import Snapshot
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.lab import START, Lab, RunState, lab, quiz_text
from tests.support.tiers import tiered

HOUR = 3600.0
DAY = 24 * HOUR
OPENAI = quiz_text(("openai",))


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
    """Drive the run until its first batch is collected."""
    bench.tick_until(text, lambda now: now.batches[0].state is Lifecycle.COLLECTED, HOUR / 2)


def is_out_of_reach(bench: Lab, text: str) -> bool:
    """Whether the run is done, and its answers were bought once and are all out of reach."""
    status = bench.finish(text)
    responses = bench.table(text, "responses")
    ended = (status.state, status.unanswered, len(status.batches)) == (RunState.DONE, 3, 1)
    return ended and set(responses["error_class"]) == {"out_of_reach"} and status.unknown_cost_usd > 0


@pytest.mark.parametrize(
    ("provider", "counts"),
    [pytest.param("together", False, marks=pytest.mark.nightly), ("openai", True)],
)
def test_a_completed_batch_that_does_not_name_its_files_yet_is_waited_for_and_paid_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, counts: bool
) -> None:
    text = quiz_text((provider,))
    with lab(tmp_path) as bench:
        nothing_shown_for(bench, monkeypatch, 5 * HOUR, counts=counts)
        collect_first(bench, text)
        assert len(bench.finish_paid_once(text).batches) == 1


@pytest.mark.parametrize("provider", tiered(("openai", "anthropic", "gemini"), ci=("anthropic",)))
def test_a_page_of_html_in_place_of_the_results_is_a_download_that_failed(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,))
    with lab(tmp_path, Fault(on="results", action="not_json", provider=provider, times=12)) as bench:
        collect_first(bench, text)
        bench.finish_paid_once(text)


def test_results_that_are_gone_are_not_bought_again_until_a_person_says_so(tmp_path: Path) -> None:
    text = quiz_text(("mistral",))
    gone = Fault(on="results", action="status", status=404, provider="mistral", times=12)
    with lab(tmp_path, gone) as bench:
        bench.tick_until(text, lambda now: now.batches[0].failures == 1, seconds=5.0)
        bench.clock.sleep(25 * HOUR)
        assert is_out_of_reach(bench, text)
        assert set(bench.billed().values()) == {1}
        assert bench.retry() == 3
        assert bench.finish(text).unanswered == 0


@pytest.mark.nightly
def test_answers_that_are_counted_and_named_in_no_file_are_out_of_reach_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lab(tmp_path) as bench:
        nothing_shown_for(bench, monkeypatch, 900 * DAY, counts=True)
        collect_first(bench, OPENAI)
        assert DAY < bench.clock.now() - START < 3 * DAY
        assert is_out_of_reach(bench, OPENAI)
        assert set(bench.billed().values()) == {1}
