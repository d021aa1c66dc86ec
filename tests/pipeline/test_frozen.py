"""A process that was frozen or asleep, and goes on with what it knew before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from layton_batch.loop import drive
from layton_batch.pipeline import advance
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState
from layton_batch.stages import submit as submitting
from layton_batch.states import Lifecycle
from tests.support.lab import lab, manifest_text


def test_who_slept_between_its_intent_and_the_call_looks_instead_of_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = manifest_text()
    with lab(tmp_path) as bench, bench.open(text) as run:
        create = submitting._create

        def drowsy(run: Run, provider: Any, batch: Batch) -> bool:
            monkeypatch.undo()
            bench.clock.sleep(700.0)
            return create(run, provider, batch)

        monkeypatch.setattr(submitting, "_create", drowsy)
        advance(run)
        assert all("create" not in counts for counts in bench.server.request_counts().values())
        assert [str(batch.reason) for batch in run.store.batches({Lifecycle.SUBMITTING})] == [
            (
                "the process was suspended, or the clock changed, before the create. "
                "Another process may have sent the batch"
            )
        ]
        assert drive(run, once=False, stop_at=None).state is RunState.DONE
        assert set(bench.billed().values()) == {1}
