"""Made-up models answer what they are asked, at the strength of their profile; recordings come back as they were."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from layton_batch.commands.known_items import bundled_answerer, known_items, replayed
from layton_batch.errors import DataError
from layton_batch.files.sources import stream_rows
from layton_batch.records import Response
from layton_batch.sandbox import Answerer, Question
from layton_batch.sandbox.answerers.known_items import KnownItem
from layton_batch.sandbox.answerers.profiles import bundled_profiles
from layton_batch.sandbox.answerers.replay import UnknownRequestError
from layton_batch.sandbox.answerers.reply_forms import ReplyForm
from layton_batch.sandbox.answerers.simulate import SimulateAnswerer
from layton_batch.sandbox.answerers.stock_reasoning import Truth
from layton_batch.states import FinishReason, RequestOutcome
from layton_batch.tasks import load_task
from layton_batch.tasks.protocol import TaskOptions

ANSWER: Mapping[str, object] = {"type": "object", "properties": {"justification": {}, "answer": {}}}
VERDICT: Mapping[str, object] = {"properties": {"is_answer_correct": {}, "is_justification_correct": {}}}
STRONG, MIDDLING, WEAK = "larch-2-large", "sirocco-large", "Fieldstone/Sedge-32B"
ITEMS = [
    KnownItem(
        f"m-{number}",
        f'Puzzle {number:03d}: "Where did it go?"\nSay it in a word.',
        str(number) if number % 2 else f"behind door {number:03d}",
        reasons=f"The text of {number:03d} leaves no room. So it is this.",
        hints=(f"Hint one of {number:03d}.", f"Hint two of {number:03d}."),
        category=("Logic", "Wordplay", "Lateral")[number % 3],
        picarats=(10, 30, 50, None)[number % 4],
    )
    for number in range(200)
]


def ask(text: str, model: str, reasoning: str | int | None = None, *, limit: int | None = None) -> Question:
    return Question("openai", model, "Solve.", text, (), ANSWER, reasoning, limit, "c")


def judging(item: KnownItem, answer: str, justification: str, judge: str = "wagtail-5-referee") -> Question:
    shown = (item.question, *item.hints, item.right, item.reasons)
    submitted = json.dumps({"answer": answer, "justification": justification})
    return Question("anthropic", judge, "Judge.", "\n".join((*shown, submitted)), (), VERDICT, None, None, "c")


def verdict(answerer: Answerer, question: Question) -> tuple[bool, bool]:
    value = json.loads(answerer.answer(question).text)
    return value["is_answer_correct"], value["is_justification_correct"]


# ---- participants ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mcq_idk", "zebralogic", "rome"])
def test_bundled_items_are_answered_as_their_task_asks_within_the_output_limit(name: str) -> None:
    task = load_task(name, TaskOptions("llm"))
    items = task.items(list(stream_rows(task.bundled("llm"))))[:6]
    kinds: Counter[str] = Counter()
    for item in items:
        prompt = task.prompt(item)
        text = "\n".join(part for part in prompt.parts if isinstance(part, str))
        question = Question("openai", STRONG, prompt.system, text, (), None, None, 30_000, "c")
        told = bundled_answerer().answer(question)
        reply = Response("c", RequestOutcome.SUCCEEDED, told.text, FinishReason(told.finish))
        kinds[task.parse(item, STRONG, reply).kind] += 1
        assert bundled_answerer().answer(replace(question, max_output_tokens=20)).output_tokens <= 20
    assert kinds["answered"] >= 4


def test_the_same_question_gets_the_same_reply_in_any_order_and_from_any_answerer() -> None:
    questions = [ask(item.question, model) for item in ITEMS[:20] for model in (WEAK, "gpt-9", "x/y")]
    replies = [SimulateAnswerer(ITEMS, 7).answer(question) for question in questions]
    again = SimulateAnswerer(ITEMS, 7)
    assert [again.answer(question) for question in reversed(questions)] == replies[::-1]
    assert [SimulateAnswerer(ITEMS, 8).answer(question) for question in questions] != replies


def test_profiles_are_well_apart_hints_never_spoil_an_answer_and_replies_go_wrong_in_every_way() -> None:
    answerer, profiles = SimulateAnswerer(ITEMS), bundled_profiles()
    said = {
        profile.model: [answerer.participate(profile.model, item, 0, profile.reasoning) for item in ITEMS]
        for profile in profiles.participants
    }
    shares = [sum(one.span.truth is not Truth.WRONG for one in each) / len(each) for each in said.values()]
    assert max(shares) - min(shares) > 0.4
    assert {one.form for each in said.values() for one in each} == set(ReplyForm)
    for each in said.values():
        assert all(
            one.answer != item.right for one, item in zip(each, ITEMS, strict=True) if one.span.truth is Truth.WRONG
        )
    levels = [[answerer.participate(MIDDLING, item, hints, "high") for item in ITEMS] for hints in range(4)]
    right = [[one.span.truth is not Truth.WRONG for one in level] for level in levels]
    for fewer, more in pairwise(right):
        assert all(b or not a for a, b in zip(fewer, more, strict=True))
    assert sum(right[3]) > sum(right[0])
    cut = answerer.answer(ask(ITEMS[0].question, STRONG, "high", limit=12))
    assert (cut.finish, cut.output_tokens <= 12) == ("length", True)


# ---- recordings ------------------------------------------------------------------------------------------------------

RIDDLE = {
    "id": "r1", "split": "llm", "category": "Logic", "first_hint": "Try both.",
    "description": 'Ann says: "Bob lies."\nWho tells the truth?', "second_hint": "One of them is consistent.",
    "solution": "Ann.", "answer": "Ann", "justification": "If Bob told the truth, Ann would contradict herself.",
}  # fmt: skip
KNOWN = known_items(load_task("layton", TaskOptions("llm")).items([RIDDLE]), "layton")[0]


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
            assert verdict(known, judging(KNOWN, *text, judge)) == (number % 2 == 0, False)
    for question in (
        ask("What is the time?", "fir-1", "high"), ask(KNOWN.question, "oak"), ask(KNOWN.question, "fir-1", "low"),
        judging(KNOWN, "Bob", "Never said.", "umpire-1"), judging(KNOWN, "Ann", "Because.", "vicar"),
        judging(KNOWN, "Ann", "Because.", "umpire-2"),
    ):  # fmt: skip
        with pytest.raises(UnknownRequestError):
            known.answer(question)
    with pytest.raises(DataError, match="row 2"):
        replay(tmp_path, {"id": "x", "text": "y"})
