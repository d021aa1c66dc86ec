"""`role = "justify"`: models write explanations, the jury verifies them, people confirm them, a file has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Prediction
from layton_batch.states import PredictionKind
from layton_batch.tasks import load_task
from layton_batch.tasks.protocol import Candidate, TaskOptions, juried
from layton_batch.testing.tasks import text_of
from tests.labels.label_runs import board
from tests.labels.opened_app import opened
from tests.support.cli_harness import call, desk, refused
from tests.support.lab import manifest_text

ROLE = '[task_options]\nrole = "justify"\n'
ROW = {
    "id": "a", "description": "How many eggs?", "first_hint": "Count.", "special_hint": "Count twice.", "answer": "7",
    "justification": "The old explanation.", "solution": "There are seven.",
}  # fmt: skip


def test_the_writer_and_the_verifier_see_answer_solution_and_hints_and_no_earlier_explanation() -> None:
    task = juried(load_task("layton", TaskOptions("llm"), {"role": "justify"}))
    (item,) = task.items([ROW])
    asked = text_of(task.prompt(item))
    said = Prediction("a", "m", PredictionKind.ANSWERED, "7", "One, two, …")
    judged = text_of(task.judge_prompt(Candidate(item, said)))
    (without,) = task.items([ROW | {"solution": None}])
    assert "The old explanation." not in text_of(task.prompt(without))
    for words in ("How many eggs?", "Count.", "Count twice.", "7", "There are seven."):
        assert words in asked
        assert words in judged
    assert "The old explanation." not in asked + judged
    assert "One, two, …" in judged


def test_what_cannot_be_explained_or_asked_so_is_refused() -> None:
    task = load_task("layton", TaskOptions("llm"), {"role": "justify"})
    with pytest.raises(DataError, match="neither an answer nor a solution"):
        task.items([ROW | {"answer": None, "solution": None, "justification": None}])
    original = {"role": "justify", "protocol": "original"}
    for options, words in (({"role": "write"}, "'answer' or 'justify'"), (original, "only by the protocol")):
        with pytest.raises(ManifestError, match=words):
            load_task("layton", TaskOptions("llm"), options)


def test_explanations_that_people_confirm_are_a_file_of_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as at:
        told = call("run", at.write(manifest_text(("openai", "anthropic"), limit=4) + ROLE))
        assert told.code == 0, told.err
        root, out = at.run_root(), tmp_path / "items.jsonl"
        export = ("export", root.name, "--to", "items", "--out", out)
        assert {row["metric"] for row in board(root)} == {"justification_correct"}
        assert "nobody confirmed" in refused(*export)
        with opened(root) as app:
            confirmed = {app.key(app.label("right", "right"))[0] for _ in range(3)}
            app.label("right", "wrong")
        assert call(*export).code == 0
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        assert {row["id"] for row in rows} == confirmed
        assert {tuple(row["confirmed_by"]) for row in rows} == {("ada",)}
        assert all(row["justification"] and (row["answer"] or row["solution"]) for row in rows)
        assert call("check", out, "--json").table()["fits"] == {"llm": len(rows)}
