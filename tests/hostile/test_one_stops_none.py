"""Files in trouble while something else of their batch is due: that job or batch waits, and the rest is served."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from layton_batch.loop import drive
from layton_batch.pipeline import advance, is_finished, next_due
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.states import BatchOutcome, Lifecycle
from tests.hostile.tampering import hostile
from tests.hostile.test_creates import never_listed
from tests.hostile.test_damaged_tables import HURT, TEXT, cut, go_on, until
from tests.pipeline.lab import MODELS, lab, manifest_text


def first_batch(run: Run) -> Path:
    return run.folder.root / next(one.path for one in run.store.batches() if one.job_id == HURT)


def changed(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"?", b"!", 1))


@pytest.mark.parametrize("damage", [Path.unlink, cut, changed], ids=["gone", "cut", "changed"])
def test_rows_of_a_batch_whose_file_is_not_what_was_sent_wait_for_it_and_the_rest_goes_on(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    with lab(tmp_path, Fault(on="batch", action="expire", provider="openai", times=1, share=0.4)) as there:
        with there.open(TEXT) as run:
            advance(run)
            path = first_batch(run)
            kept = path.read_bytes()
            damage(path)
        status, trouble = go_on(there)
        assert set(trouble) == {HURT}
        assert str(path) in trouble[HURT]
        assert [(one.job_id, one.outcome) for one in status.batches if one.state is Lifecycle.ENDED] == [
            (HURT, BatchOutcome.EXPIRED)
        ]
        assert set(there.table(TEXT, "leaderboard")["model"]) == {MODELS["anthropic"]}
        path.write_bytes(kept)
        status, trouble = go_on(there)
        assert (status.state, status.unanswered, trouble) == (RunState.DONE, 0, {})
        assert set(there.billed().values()) == {1}


def test_a_create_in_doubt_of_requests_that_nobody_can_read_is_lost_and_the_rest_goes_on(tmp_path: Path) -> None:
    with hostile(tmp_path) as (there, between):
        between.tamper = never_listed("openai")
        with there.open(TEXT) as run:
            advance(run)
            path = run.folder.part("requests", HURT)
            kept = path.read_bytes()
            cut(path)
            status = drive(run, once=False, stop_at=there.clock.now() + 200 * 3600)
        (lost,) = (one for one in status.batches if one.state is Lifecycle.LOST)
        assert (status.state, lost.job_id) == (RunState.NEEDS_PERSON, HURT)
        assert str(path) in str(lost.reason)
        assert status.reserved_usd == lost.max_cost
        assert set(there.table(TEXT, "leaderboard")["model"]) == {MODELS["anthropic"]}
        assert there.server.request_counts()["openai"]["create"] == 1
        path.write_bytes(kept)


def test_results_that_come_later_are_waited_for_beside_what_is_in_trouble(tmp_path: Path) -> None:
    text = manifest_text(("anthropic",), limit=3)
    late = Fault(on="results", action="status", provider="anthropic", status=503, times=3)
    with lab(tmp_path, late) as there, there.open(text) as run:
        until(run, there, lambda: bool(run.store.batches({Lifecycle.ENDED})))
        run.trouble["site"] = "a page that cannot be written"
        advance(run)
        (waiting,) = run.store.batches({Lifecycle.ENDED})
        assert there.clock.now() < waiting.due_at
        assert next_due(run) == waiting.due_at
        assert not is_finished(run)


def test_a_download_that_the_disk_has_damaged_is_repeated(tmp_path: Path) -> None:
    text = manifest_text(("openai",), limit=3)
    short = Fault(on="results", action="short", provider="openai", times=1)
    with lab(tmp_path, short) as there:
        with there.open(text) as run:
            until(run, there, lambda: any((run.folder.root / "raw").glob("*/*.zst")))
            assert run.store.batches({Lifecycle.ENDED})
            (copy,) = (run.folder.root / "raw").glob("*/*.zst")
            copy.write_bytes(bytes(4) + copy.read_bytes()[4:])
        status = there.finish(text)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert set(there.billed().values()) == {1}
