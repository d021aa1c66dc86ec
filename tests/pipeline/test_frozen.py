"""A process that was frozen or asleep, and goes on with what it knew before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from layton_batch.batches.decisions import StageDecision
from layton_batch.errors import AnotherDriverError
from layton_batch.loop import drive
from layton_batch.pipeline import advance
from layton_batch.records import Batch, Collect, Wait
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState
from layton_batch.stages import collect
from layton_batch.stages import submit as submitting
from layton_batch.states import Lifecycle
from tests.support.lab import MODELS, lab, manifest_text, quiz_text


def test_a_file_that_is_damaged_before_the_create_that_carries_it_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text(("anthropic",), limit=2)
    with lab(tmp_path) as bench:
        create, asked = submitting._create, dict[Path, bytes]()

        def damaged(run: Run, provider: Any, batch: Batch) -> StageDecision:
            path = run.folder.workspace.root / batch.path
            asked[path] = path.read_bytes()
            path.write_bytes(asked[path].replace(b"question", b"riddle", 1))
            return create(run, provider, batch)

        with monkeypatch.context() as patched, bench.open(text) as run:
            patched.setattr(submitting, "_create", damaged)
            advance(run)
        assert bench.finish(text).state is RunState.NEEDS_PERSON
        assert bench.billed() == {}
        for path, content in asked.items():
            path.write_bytes(content)
        assert bench.finish(text).unanswered == 0
        assert set(bench.billed().values()) == {1}


def test_who_slept_between_its_intent_and_the_call_looks_instead_of_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = manifest_text()
    with lab(tmp_path) as bench, bench.open(text) as run:
        create = submitting._create

        def drowsy(run: Run, provider: Any, batch: Batch) -> StageDecision:
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


def test_who_is_suspended_while_it_collects_keeps_the_others_out_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = manifest_text(("openai",), limit=3)
    decided = collect._decided
    with lab(tmp_path) as bench:

        def suspended(*reading: Any) -> Wait | Collect:
            monkeypatch.setattr(collect, "_decided", decided)
            bench.clock.sleep(100_000.0)
            with pytest.raises(AnotherDriverError):
                bench.finish(text)
            return decided(*reading)

        monkeypatch.setattr(collect, "_decided", suspended)
        bench.finish_paid_once(text)
        answers = bench.table(text, "responses").filter(pl.col("job_id") == f"predict-{MODELS['openai']}")
        assert answers["outcome"].to_list() == ["succeeded"] * 3
