"""Made-up models answer what they are asked, at the strength of their profile; recordings come back as they were."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from layton_batch.commands.known_items import bundled_answerer, replayed
from layton_batch.errors import DataError
from layton_batch.files.sources import stream_rows
from layton_batch.records import Item, Prediction, Response
from layton_batch.sandbox import Answerer, ModelReply, Question
from layton_batch.sandbox.answerers.replay import UnknownRequestError
from layton_batch.states import FinishReason, RequestOutcome
from layton_batch.tasks import load_task
from layton_batch.tasks.protocol import Task, TaskOptions
from tests.support.lab import MODELS, answerer

ANSWER: Mapping[str, object] = {"type": "object", "properties": {"justification": {}, "answer": {}}}
VERDICT: Mapping[str, object] = {"properties": {"is_answer_correct": {}, "is_justification_correct": {}}}
STRONG, MIDDLING = "larch-2-large", "sirocco-large"
LAYTON = load_task("layton", TaskOptions("llm"))


def items_of(task: Task) -> list[Item]:
    return list(task.items(list(stream_rows(task.bundled("llm")))))


RIDDLES = items_of(LAYTON)


def ask(text: str, model: str, reasoning: str | int | None = None, *, limit: int | None = None) -> Question:
    return Question("openai", model, "Solve.", text, (), ANSWER, reasoning, limit, "c")


def parsed(task: Task, item: Item, question: Question) -> tuple[ModelReply, Prediction]:
    """The reply to a question about an item, and what the task reads in it."""
    told = answerer().answer(question)
    reply = Response("c", RequestOutcome.SUCCEEDED, told.text, FinishReason(told.finish))
    return told, task.parse(item, question.model, reply)


# ---- participants ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mcq_idk", "zebralogic", "rome"])
def test_bundled_items_are_answered_as_their_task_asks_within_the_output_limit(name: str) -> None:
    task = load_task(name, TaskOptions("llm"))
    kinds: Counter[str] = Counter()
    for item in items_of(task)[:6]:
        prompt = task.prompt(item)
        text = "\n".join(part for part in prompt.parts if isinstance(part, str))
        question = Question("openai", STRONG, prompt.system, text, (), None, None, 30_000, "c")
        kinds[parsed(task, item, question)[1].kind] += 1
        assert answerer().answer(replace(question, max_output_tokens=20)).output_tokens <= 20
    assert kinds["answered"] >= 4


def test_the_same_question_gets_the_same_reply_in_any_order_and_from_any_answerer() -> None:
    questions = [ask(item.question, model) for item in RIDDLES[:20] for model in (STRONG, "gpt-9", "x/y")]
    again = bundled_answerer()
    replies = [again.answer(question) for question in reversed(questions)]
    assert [answerer().answer(question) for question in questions] == replies[::-1]


def test_models_are_well_apart_hints_never_spoil_an_answer_and_replies_go_wrong_in_several_ways() -> None:
    def said(model: str, hints: int = 0, reasoning: str | None = None) -> list[tuple[ModelReply, bool]]:
        """Each reply, and whether the answer is right."""
        found = []
        for item in RIDDLES:
            text = "\n".join([item.question, *filter(None, item.hints[:hints])])
            told, prediction = parsed(LAYTON, item, ask(text, model, reasoning))
            ends[told.finish, prediction.kind] += 1
            found.append((told, prediction.answer == item.answer))
        return found

    ends: Counter[tuple[str, str]] = Counter()
    shares = [sum(right for _, right in said(model)) / len(RIDDLES) for model in (*MODELS.values(), STRONG)]
    assert max(shares) - min(shares) > 0.4
    assert ends.keys() >= {("stop", "answered"), ("stop", "unparsed"), ("length", "unparsed")}
    levels = [[right for _, right in said(MIDDLING, hints, "high")] for hints in range(4)]
    for fewer, more in pairwise(levels):
        assert all(b or not a for a, b in zip(fewer, more, strict=True))
    assert sum(levels[3]) > sum(levels[0])
    cut = answerer().answer(ask(RIDDLES[0].question, STRONG, "high", limit=12))
    assert (cut.finish, cut.output_tokens <= 12) == ("length", True)


# ---- recordings ------------------------------------------------------------------------------------------------------

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
        with pytest.raises(UnknownRequestError):
            known.answer(question)
    with pytest.raises(DataError, match="row 2"):
        replay(tmp_path, {"id": "x", "text": "y"})
