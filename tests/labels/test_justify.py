"""`role = "justify"`: models write explanations, the jury verifies them, people confirm them, a file has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Prediction
from layton_batch.states import PredictionKind
from layton_batch.tasks import load_task
from layton_batch.tasks.protocol import Candidate, TaskOptions, juried
from layton_batch.testing.tasks import text_of
from tests.labels.app_desk import opened
from tests.support.cli_harness import Desk, call, desk
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
    with pytest.raises(ManifestError, match="'answer' or 'justify'"):
        load_task("layton", TaskOptions("llm"), {"role": "write"})
    with pytest.raises(ManifestError, match="only by the protocol"):
        load_task("layton", TaskOptions("llm"), {"role": "justify", "protocol": "original"})


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[Desk]:
    with pytest.MonkeyPatch.context() as patch, desk(tmp_path, patch) as at:
        told = call("run", at.write(manifest_text(("openai", "anthropic"), limit=4) + ROLE))
        assert told.code == 0, told.err
        yield at


def test_explanations_that_people_confirm_are_a_file_of_items(ended: Desk, tmp_path: Path) -> None:
    root, out = ended.run_root(), tmp_path / "items.jsonl"
    board = call("leaderboard", root.name, "--format", "json")
    assert {row["metric"] for row in json.loads(board.out)} == {"justification_correct"}
    nothing = call("export", root.name, "--to", "items", "--out", str(out))
    assert (nothing.code, "nobody confirmed" in nothing.err) == (2, True)
    with opened(root) as app:
        confirmed = {key[0] for _ in range(3) if (key := app.session.answers.key_of(app.label("right", "right")))}
        refused = app.session.answers.key_of(app.label("right", "wrong"))
    assert refused is not None
    assert call("export", root.name, "--to", "items", "--out", str(out)).code == 0
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert {row["id"] for row in rows} == confirmed
    assert {tuple(row["confirmed_by"]) for row in rows} == {("ada",)}
    assert all(row["justification"] and (row["answer"] or row["solution"]) for row in rows)
    assert call("check", out, "--json").table()["fits"] == {"llm": len(rows)}
