"""How long a batch may take, where the manifest says it."""

from __future__ import annotations

from pathlib import Path

from layton_batch.batches.decisions import at
from layton_batch.batches.reconcile import submission
from layton_batch.runs.status import RunState
from layton_batch.stages.plan import plan
from tests.support.lab import lab, quiz_text

DAY = 86_400.0


def windowed(window: str) -> str:
    """A manifest of one model of Groq and one of Doubleword, the first with a window."""
    text = quiz_text(("groq", "doubleword"), limit=2)
    return text.replace('provider = "groq"\n', f'provider = "groq"\nwindow = "{window}"\n', 1)


def test_a_models_window_is_asked_for_and_is_what_its_deadline_counts_from(tmp_path: Path) -> None:
    with lab(tmp_path) as bench, bench.open(windowed("7d")) as run:
        plan(run)
        found = {batch.provider: (submission(run, batch).window, at(run, batch)) for batch in run.store.batches()}
    assert found["groq"][0] == "7d"
    assert (found["groq"][1].window, found["groq"][1].deadline) == (7 * DAY, 8 * DAY)
    assert found["doubleword"][0] is None
    assert (found["doubleword"][1].window, found["doubleword"][1].deadline) == (DAY, 2 * DAY)


def test_a_window_changed_in_mid_run_holds_for_what_is_not_yet_sent_and_nothing_is_paid_twice(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        with bench.open(windowed("24h")) as run:
            plan(run)
        status = bench.finish(windowed("48h"))
        assert status.state is RunState.DONE
        assert set(bench.billed().values()) == {1}
        assert len(list(bench.runs.glob("*/run.json"))) == 1
