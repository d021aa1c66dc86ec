"""Files in trouble while something else of their batch is due: that job or batch waits, and the rest is served."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from layton_batch.pipeline import advance
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.hostile.test_damaged_tables import HURT, TEXT, cut, go_on, until
from tests.support.lab import lab, quiz_text
from tests.support.tiers import tiered


def first_batch(run: Run) -> Path:
    return run.folder.workspace.root / next(one.path for one in run.store.batches() if one.job_id == HURT)


def changed(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"?", b"!", 1))


@pytest.mark.parametrize("damage", tiered((Path.unlink, cut, changed), ci=(changed,)), ids=["gone", "cut", "changed"])
def test_rows_of_a_batch_whose_file_is_no_more_what_was_sent_go_again_as_they_were(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    with lab(tmp_path, Fault(on="batch", action="expire", provider="openai", times=1, share=0.5)) as there:
        with there.open(TEXT) as run:
            advance(run)
            path = first_batch(run)
            kept = path.read_bytes()
            damage(path)
        status, trouble = go_on(there)
        assert (status.state, status.unanswered, trouble) == (RunState.DONE, 0, {})
        assert set(there.billed().values()) == {1}
        again = next(one for one in status.batches if one.parent_id is not None)
        assert set((there.runs / again.path).read_bytes().splitlines()) < set(kept.splitlines())


def test_a_download_that_the_disk_has_damaged_is_named_and_once_it_is_deleted_comes_again(tmp_path: Path) -> None:
    text = quiz_text(("openai",), limit=3)
    short = Fault(on="results", action="short", provider="openai", times=1)
    with lab(tmp_path, short) as there:
        with there.open(text) as run:
            until(run, there, lambda: any(run.folder.batches.glob("*/*.zst")))
            assert run.store.batches({Lifecycle.ENDED})
            (copy,) = run.folder.batches.glob("*/*.zst")
            copy.write_bytes(bytes(4) + copy.read_bytes()[4:])
        assert there.finish(text).state is RunState.RUNNING
        with there.open(text) as run:
            assert any(event.kind == "table_damaged" and copy.name in event.detail for event in run.store.events())
        copy.unlink()
        there.finish_paid_once(text)
