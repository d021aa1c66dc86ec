"""Where the answers of a run are found, and what is said of those that are gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

import layton_batch as lb
from layton_batch.batches.answers import locate_responses
from layton_batch.errors import DamagedTableError, NotAgreedError
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import JsonValue
from layton_batch.runs.open import open_folder
from layton_batch.settings import Settings
from layton_batch.states import Role
from tests.support.cli_harness import desk
from tests.support.lab import BUNDLED, quiz_text

PANEL: list[dict[str, JsonValue]] = [
    {"name": "referee", "provider": "openai", "model": "larch-2-referee", "max_output_tokens": 2000}
]


def test_a_runs_own_answers_that_are_gone_are_damage_and_not_asked_for_again_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pl.DataFrame({"model": ["finch"], "item_id": ["lb-t-001"], "answer": ["7"], "justification": ["so"]})
    with desk(tmp_path, monkeypatch) as there:
        with monkeypatch.context() as patch:
            patch.setattr(Settings, "is_on_this_machine", lambda *_: False)  # so that somebody has to agree first
            with pytest.raises(NotAgreedError):
                lb.judge(frame, panel=PANEL, items=BUNDLED / "riddles_llm.jsonl")
        for imported in (tmp_path / "runs" / "batches" / "answers-judged").glob("predict-*"):
            shutil.rmtree(imported)
        with open_folder(RunFolder(tmp_path / "runs" / "answers-judged"), there.lab.settings) as run:
            (job,) = (job for job in run.store.jobs() if job.role is Role.PREDICT)
            with pytest.raises(DamagedTableError, match="put it back"):
                locate_responses(run, job.id)


def test_a_part_that_somebody_put_beside_the_answers_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.lab.finish(quiz_text(limit=2))
        (part,) = (tmp_path / "runs" / "batches" / "lab").glob("predict-*/answers/*.parquet")
        shutil.copy(part, part.with_name("00000 (conflicted copy).parquet"))
        with open_folder(RunFolder(tmp_path / "runs" / "lab"), there.lab.settings) as run:
            (job,) = run.store.jobs()
            assert locate_responses(run, job.id)["request_id"].is_unique().all()
        assert len(list(part.parent.glob("*.parquet"))) == 1  # the answers were made again from the raw results
