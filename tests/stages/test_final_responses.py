"""Where the answers of a run are found, and what is said of those that are gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

import layton_batch as lb
from layton_batch.errors import NotAgreedError
from layton_batch.files.run_folder import RunFolder
from layton_batch.pipeline import advance
from layton_batch.records import JsonValue
from layton_batch.runs.open import open_folder
from layton_batch.settings import Settings
from tests.support.cli_harness import desk
from tests.support.lab import BUNDLED, quiz_text

QUIZ = quiz_text(limit=2)
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
        folder = RunFolder(tmp_path / "runs" / "answers-judged")
        shutil.rmtree(folder.tables / "predictions")
        with open_folder(folder, there.lab.settings) as run:
            for _ in range(3):
                advance(run)
            (damage,) = (event.detail for event in run.store.events() if event.kind == "table_damaged")
            assert "put it back" in damage
            assert run.store.requests_to_ask("predict-finch") == []


def test_a_part_that_somebody_put_beside_the_answers_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        there.lab.finish(QUIZ)
        (part,) = (tmp_path / "runs" / "batches" / "lab").glob("predict-*/answers/*.parquet")
        shutil.copy(part, part.with_name("00000 (conflicted copy).parquet"))
        shutil.rmtree(there.lab.run_folder(QUIZ).tables / "predictions")
        there.lab.finish_paid_once(QUIZ)
        assert there.lab.table(QUIZ, "predictions")["item_id"].is_unique().all()
        assert list(part.parent.glob("*.parquet")) == [part]  # the answers were made again from the raw results
