"""plan and run with a manifest's own prompts: what is told before anything is paid, and what is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_harness import Desk, call, desk
from tests.support.lab import manifest_text

NOT_FENCED = "a participant's text is not fenced in the judges' prompts"
ORIGINAL = """[task_options]
protocol = "original"
[prompts]
participant_system = "p.txt"
judge_system = "j.txt"
"""
UNFENCED = """[task_options]
fence = false
[prompts]
judge_submission = "s.txt"
"""


def written(bench: Desk, top: str) -> Path:
    bench.write("Solve it. Reply as JSON: justification, then answer.", "p.txt")
    bench.write("Judge it. Reply as JSON: is_answer_correct, is_justification_correct.", "j.txt")
    bench.write("Right: {answer} {solution} {justification}\nSaid: {submission}", "s.txt")
    return bench.write(manifest_text(top=top))


@pytest.mark.parametrize("top", [ORIGINAL, UNFENCED])
def test_plan_and_the_start_of_run_say_that_a_participants_text_is_not_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: str
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = written(bench, top)
        assert NOT_FENCED in str(call("plan", path, "--json").table()["caveats"])
        begun, goes_on = call("run", path, "--once"), call("run", path)
        assert NOT_FENCED in " ".join(begun.err.split())
        assert NOT_FENCED not in " ".join(goes_on.err.split())
        assert goes_on.code == 0


def test_where_words_are_fenced_nothing_is_said_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = written(bench, "")
        assert "not fenced" not in call("plan", path).out + call("run", path, "--once").err


def test_what_is_sent_by_the_original_protocol_is_the_published_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = written(bench, ORIGINAL)
        assert call("run", path).code == 0
        (bench.folder / "p.txt").unlink()
        sent = "".join(one.read_text(encoding="utf-8") for one in bench.lab.runs.glob("batches/*/*/request.jsonl"))
    assert "Riddle question: " in sent
    assert "Suggested justification: " in sent
    assert "Participant answer: " in sent
    assert "~~~~" not in sent
