"""The labelling app beside a run whose answers have no justification: one verdict labels an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.labels.app_desk import opened
from tests.support.cli_harness import call

QUIZ = "question,answer\nWhat is 12 times 12?,144\nHow many legs has a spider?,8\n"


def test_an_answer_alone_is_labelled_by_one_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    monkeypatch.delenv("LAYTON_BATCH_RUNS", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("quiz.csv").write_text(QUIZ, encoding="utf-8")
    assert call("run", "quiz.csv", "--model", "openai:gpt-5.2", "--sandbox").code == 0
    with opened(Path("runs-sandbox/quiz")) as app:
        page = app.get().text
        assert 'name="answer"' in page
        assert 'name="justification"' not in page
        assert app.post("/label", id=app.shown(), answer="right").status_code == 303
    assert "own" in call("leaderboard", "runs-sandbox/quiz").out
