"""Recorded answers and verdicts come back as they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.commands.known_items import replayed
from layton_batch.errors import DataError
from layton_batch.sandbox import Answerer, Question
from layton_batch.tasks import load_task
from layton_batch.tasks.protocol import TaskOptions

ANSWER: Mapping[str, object] = {"type": "object", "properties": {"justification": {}, "answer": {}}}
VERDICT: Mapping[str, object] = {"properties": {"is_answer_correct": {}, "is_justification_correct": {}}}
LAYTON = load_task("layton", TaskOptions("llm"))


def ask(text: str, model: str, reasoning: str | None = None) -> Question:
    return Question("openai", model, "Solve.", text, (), ANSWER, reasoning, None, "c")


RIDDLE = {
    "id": "r1", "split": "llm", "category": "Logic", "first_hint": "Try both.",
    "description": 'Ann says: "Bob lies."\nWho tells the truth?', "second_hint": "One of them is consistent.",
    "solution": "Ann.", "answer": "Ann", "justification": "If Bob told the truth, Ann would contradict herself.",
}  # fmt: skip
(KNOWN,) = LAYTON.items([RIDDLE])


def judging(answer: str, justification: str, judge: str = "umpire-1") -> Question:
    shown = (KNOWN.question, *filter(None, KNOWN.hints), KNOWN.answer, KNOWN.justification)
    submitted = json.dumps({"answer": answer, "justification": justification})
    text = "\n".join((*map(str, shown), submitted))
    return Question("anthropic", judge, "Judge.", text, (), VERDICT, None, None, "c")


def recorded(model: str, answer: str, justification: str, **more: object) -> dict[str, object]:
    row: dict[str, object] = {"riddle_id": "r1", "provider": "openai", "model": model, "n_hints": 0}
    row |= {"answer": answer, "justification": justification}
    for judge in ("umpire-1", "umpire-2-preview"):
        row |= {f"is_answer_correct_{judge}": True, f"is_justification_correct_{judge}": False}
    return row | more


def replay(folder: Path, *rows: Mapping[str, object]) -> Answerer:
    path = folder / "recorded.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (RIDDLE, *rows)), encoding="utf-8")
    return replayed([path])


def test_the_recording_of_model_setting_provider_and_hints_is_replied(tmp_path: Path) -> None:
    known = replay(
        tmp_path,
        recorded("fir-1-high", "Ann", "Because é."),
        recorded("fir-1-low", "Bob", "Why not"),
        recorded("fir-1-low", "Bo", "", provider="together"),
        recorded("fir-1-low", "one", "h", n_hints=1),
    )
    reply = known.answer(ask(KNOWN.question, "fir-1", "high"))
    assert list(json.loads(reply.text).items()) == [("justification", "Because é."), ("answer", "Ann")]
    low = ask(KNOWN.question, "fir-1", "low")
    hinted = replace(low, text=f"{KNOWN.question}\n{KNOWN.hints[0]}")
    for question, answer in ((low, "Bob"), (replace(low, provider="together"), "Bo"), (hinted, "one")):
        assert json.loads(known.answer(question).text)["answer"] == answer


def test_a_verdict_is_that_of_the_recording_the_judge_is_shown_and_nothing_else_is_replied(tmp_path: Path) -> None:
    texts = (("Ann", "She says\nso, “that” is\tthat."), ("Ann", "She says so."), ("", "No answer at all."), ("", ""))
    rows = [recorded(f"m-{n}", *text, **{"is_answer_correct_umpire-1": n % 2 == 0}) for n, text in enumerate(texts)]
    recused = recorded("fir-1-high", "Ann", "Because.", **{"is_answer_correct_umpire-2-preview": None})
    known = replay(tmp_path, *rows, recused)
    for number, text in enumerate(texts):
        for judge in ("umpire-1", "league/Umpire_1"):
            value = json.loads(known.answer(judging(*text, judge)).text)
            assert value == {"is_answer_correct": number % 2 == 0, "is_justification_correct": False}
    for question in (
        ask("What is the time?", "fir-1", "high"), ask(KNOWN.question, "oak"), ask(KNOWN.question, "fir-1", "low"),
        judging("Bob", "Never said.", "umpire-1"), judging("Ann", "Because.", "vicar"),
        judging("Ann", "Because.", "umpire-2"),
    ):  # fmt: skip
        with pytest.raises(LookupError, match=r"recorded|submission"):
            known.answer(question)
    with pytest.raises(DataError, match="row 2"):
        replay(tmp_path, {"id": "x", "text": "y"})
