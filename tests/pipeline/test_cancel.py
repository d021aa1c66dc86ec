"""Cancel of a run that was begun or edited and not planned anew."""

from __future__ import annotations

from pathlib import Path

from layton_batch.batches.cancel import cancel_run
from layton_batch.loop import drive
from layton_batch.pipeline import advance
from layton_batch.runs.folders import find_run
from layton_batch.runs.open import open_folder
from layton_batch.runs.status import RunState
from layton_batch.states import Lifecycle
from tests.support.lab import lab, quiz_text


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
