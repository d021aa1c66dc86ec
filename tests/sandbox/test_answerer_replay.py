"""Recorded predictions and verdicts come back for the requests they belong to, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from layton_batch.sandbox.answerers.from_files import answerer_from_files
from layton_batch.sandbox.answerers.questions import Question
from layton_batch.sandbox.answerers.replay import ReplayAnswerer, UnknownRequestError
from layton_batch.sandbox.answerers.riddle_lookup import HINT_COLUMNS, UnreadableRows
from tests.support.paths import SHARED_DATA

Row = dict[str, object]
Quote = Callable[[str], str]

SHARED = SHARED_DATA / "layton"
ANSWER_SCHEMA: Mapping[str, object] = {"type": "object", "properties": {"justification": {}, "answer": {}}}
VERDICT_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {"is_answer_correct": {}, "is_justification_correct": {}},
}
QUOTES: Mapping[str, Quote] = {
    "raw": str,
    "re-wrapped": lambda text: " ".join(text.split()),
    "JSON": lambda text: json.dumps(text, ensure_ascii=False),
    "ASCII JSON": json.dumps,
}
RIDDLE: Row = {
    "id": "r1",
    "description": 'Ann says: "Bob lies."\nWho tells the truth?',
    "first_hint": "Try both.",
    "second_hint": "One of them is consistent.",
    "solution": "Ann, as $\\frac{1}{1}$ shows.",
    "answer": "Ann",
    "justification": "If Bob told the truth,\nAnn would contradict $\\frac{1}{2}$ of herself.",
}


def prediction(model: str, answer: str, justification: str, /, **more: object) -> Row:
    row: Row = {"riddle_id": "r1", "provider": "openai", "model": model, "n_hints": 0}
    row |= {"answer": answer, "justification": justification}
    for judge in ("umpire-1", "umpire-2-preview"):
        row |= {f"is_answer_correct_{judge}": True, f"is_justification_correct_{judge}": False}
    return row | more


def replay(tmp_path: Path, rows: Iterable[Row], riddles: Iterable[Row] = (RIDDLE,)) -> ReplayAnswerer:
    path = tmp_path / "recorded.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (*riddles, *rows)), encoding="utf-8")
    return ReplayAnswerer([path])


def ask(text: str, model: str = "fir-1", reasoning: str | int | None = None, provider: str = "openai") -> Question:
    return Question(provider, model, "Solve.", text, (), ANSWER_SCHEMA, reasoning, None, "c1")


def published(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SHARED / name).read_bytes().splitlines()]


def judge_text(riddle: Row, answer: str, justification: str, quote: Quote, *, reference: bool = True) -> str:
    shown = [str(riddle["description"])]
    if reference:
        shown += [str(riddle.get(column) or "") for column in (*HINT_COLUMNS, "answer", "solution", "justification")]
    return "\n".join([*shown, f"answer: {quote(answer)}", f"justification: {quote(justification)}"])


def judge(text: str, model: str = "umpire-1", provider: str = "openai") -> Question:
    return Question(provider, model, "Judge. " * 50, text, (), VERDICT_SCHEMA, None, None, "c2")


def test_the_row_of_riddle_model_and_setting_is_replied(tmp_path: Path) -> None:
    known = replay(tmp_path, [prediction("fir-1-high", "Ann", "Because é."), prediction("fir-1-low", "Bob", "Why not")])
    reply = known.answer(ask(f"Riddle:\n{RIDDLE['description']}", reasoning="high"))
    assert json.loads(reply.text) == {"justification": "Because é.", "answer": "Ann"}
    assert list(json.loads(reply.text)) == ["justification", "answer"]
    assert reply.finish == "stop"


def test_a_row_of_the_requests_provider_comes_before_one_of_another(tmp_path: Path) -> None:
    rows = [prediction("fir-1", "Bob", "b", provider="together"), prediction("fir-1", "Ann", "a")]
    known = replay(tmp_path, rows)
    text = str(RIDDLE["description"])
    assert json.loads(known.answer(ask(text)).text)["answer"] == "Ann"
    assert json.loads(known.answer(ask(text, provider="groq")).text)["answer"] == "Bob"


def test_rows_of_several_hint_levels_are_told_apart_by_the_hints_shown(tmp_path: Path) -> None:
    known = replay(tmp_path, [prediction("fir-1", str(level), "j", n_hints=level) for level in (0, 1, 2)])
    text = str(RIDDLE["description"])
    for level, column in enumerate(("solution", "first_hint", "second_hint")):
        text += f"\n{RIDDLE[column]}" if level else ""
        assert json.loads(known.answer(ask(text)).text)["answer"] == str(level)


@pytest.mark.parametrize("quote", QUOTES.values(), ids=QUOTES.keys())
def test_a_verdict_is_that_of_the_row_the_judge_is_shown(tmp_path: Path, quote: Quote) -> None:
    texts = {
        "a": ("Ann", "She says\nso, and “that” is\tthat – \\frac{1}{2}."),
        "b": ("Ann", "She says\nso, and “that” is\tthat – \\frac{1}{2}. And Bob agrees."),
        "c": ("Ann", str(RIDDLE["justification"])),
        "d": ("Anna", "She says so."),
        "e": ("", "Nothing but reasons, and no answer at all."),
        "f": ("12", "Twelve is the number of the clock."),
        "g": ("123", "Twelve is the number of the clock."),
    }
    rows = [
        prediction(
            name,
            *text,
            **{"is_answer_correct_umpire-1": number % 2 == 0, "is_justification_correct_umpire-1": number < 3},
        )
        for number, (name, text) in enumerate(texts.items())
    ]
    known = replay(tmp_path, rows)
    for number, text in enumerate(texts.values()):
        verdict = json.loads(known.answer(judge(judge_text(RIDDLE, *text, quote))).text)
        assert verdict == {"is_answer_correct": number % 2 == 0, "is_justification_correct": number < 3}, text


def test_empty_and_tiny_submissions_are_told_apart_when_quoted(tmp_path: Path) -> None:
    rows = [
        prediction("a", "", "", **{"is_answer_correct_umpire-1": False}),
        prediction("b", "", "?"),
        prediction("c", "5", "A long justification that has a ? in it."),
    ]
    known = replay(tmp_path, rows)
    for row, right in zip(rows, (False, True, True), strict=True):
        text = judge_text(RIDDLE, str(row["answer"]), str(row["justification"]), json.dumps)
        assert json.loads(known.answer(judge(text)).text)["is_answer_correct"] is right


def test_a_submission_that_equals_an_unshown_reference_is_still_found(tmp_path: Path) -> None:
    known = replay(tmp_path, [prediction("a", "Ann", str(RIDDLE["justification"]))])
    text = judge_text(RIDDLE, "Ann", str(RIDDLE["justification"]), json.dumps, reference=False)
    assert json.loads(known.answer(judge(text)).text) == {"is_answer_correct": True, "is_justification_correct": False}


def test_a_judge_is_named_exactly_or_by_likeness(tmp_path: Path) -> None:
    known = replay(tmp_path, [prediction("a", "Ann", "Because.")])
    text = judge_text(RIDDLE, "Ann", "Because.", json.dumps)
    for model in ("umpire-2-preview", "Umpire_2", "league/umpire-1"):
        assert json.loads(known.answer(judge(text, model)).text)["is_answer_correct"] is True


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (ask("What is the time?"), "no recorded riddle's description is in the text"),
        (
            ask(str(RIDDLE["description"]), model="oak"),
            "openai model 'oak', reasoning None: none of the recorded models",
        ),
        (
            ask(str(RIDDLE["description"]), reasoning="low"),
            "reasoning 'low': none of the recorded models (fir-1-high, twin)",
        ),
        (judge(judge_text(RIDDLE, "Bob", "Never said.", str)), "no recorded answer with its justification"),
        (
            judge(judge_text(RIDDLE, "Ann", "Because.", str), "vicar"),
            "judge 'vicar': none of the recorded judges (umpire-1",
        ),
        (
            judge(judge_text(RIDDLE, "Ann", "Because.", str), "umpire-2"),
            "umpire-2-preview gave no verdict on the answer of",
        ),
        (
            judge(judge_text(RIDDLE, "Bo", "Same words.", str)),
            "umpire-1 judged the same answer of fir-1-high, twin differently",
        ),
        (Question("openai", "fir-1", "", "Hello", (), None, None, None, "c"), "asks neither for an answer"),
    ],
)
def test_what_is_not_recorded_is_refused_with_what_was_looked_for(
    tmp_path: Path, question: Question, message: str
) -> None:
    recused: Row = {"is_answer_correct_umpire-2-preview": None, "is_justification_correct_umpire-2-preview": None}
    rows = [
        prediction("fir-1-high", "Ann", "Because.", **recused),
        prediction("fir-1-high", "Bo", "Same words."),
        prediction("twin", "Bo", "Same words.", **{"is_answer_correct_umpire-1": False}),
    ]
    with pytest.raises(UnknownRequestError) as refusal:
        replay(tmp_path, rows).answer(question)
    assert message in str(refusal.value)


def test_half_a_surrogate_pair_costs_no_reply(tmp_path: Path) -> None:
    """A recorded text that cannot be encoded comes back with a replacement character, and is judged as that."""
    known = replay(tmp_path, [prediction("fir-1", "Ann \ud83d", "Because \ude00 it is so.")])
    text = known.answer(ask(str(RIDDLE["description"]))).text
    said = json.loads(text.encode("utf-8"))
    assert said == {"justification": "Because \ufffd it is so.", "answer": "Ann \ufffd"}
    question = judge(judge_text(RIDDLE, said["answer"], said["justification"], json.dumps))
    assert json.loads(known.answer(question).text)["is_answer_correct"] is True


def test_two_models_with_the_same_answer_and_verdict_are_no_conflict(tmp_path: Path) -> None:
    known = replay(tmp_path, [prediction("a", "Ann", "Same."), prediction("b", "Ann", "Same.")])
    assert json.loads(known.answer(judge(judge_text(RIDDLE, "Ann", "Same.", str))).text)["is_answer_correct"] is True


def test_indistinguishable_riddles_are_refused(tmp_path: Path) -> None:
    known = replay(tmp_path, [prediction("fir-1", "Ann", "x")], [RIDDLE, RIDDLE | {"id": "r2"}])
    with pytest.raises(UnknownRequestError, match="riddles r1, r2 have the same description"):
        known.answer(ask(str(RIDDLE["description"])))


def test_tokens_are_estimated_with_reasoning_and_none_is_cached(tmp_path: Path) -> None:
    known = replay(
        tmp_path, [prediction("fir-1", "Ann", "Because it is so, plainly."), prediction("fir-1-high", "Ann", "x")]
    )
    plain = known.answer(ask(str(RIDDLE["description"])))
    assert plain.input_tokens == 1 + (1 + len("Solve.")) // 4 + -(-len(str(RIDDLE["description"])) // 4)
    assert (plain.reasoning_tokens, plain.cached_input_tokens) == (0, 0)
    thinking = known.answer(ask(str(RIDDLE["description"]), reasoning="high"))
    assert thinking.output_tokens > thinking.reasoning_tokens > 0
    text = judge_text(RIDDLE, "Ann", "Because it is so, plainly.", str)
    cached = [known.answer(judge(text, provider=provider)).cached_input_tokens for provider in ("openai", "anthropic")]
    assert cached == [0, 0]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"id": "x", "text": "y"}, "neither a riddle (id, description) nor a prediction"),
        (prediction("a", "b", "c", n_hints="two"), "n_hints is 'two'"),
        (
            prediction("a", "b", "c", **{"is_answer_correct_umpire-1": "yes"}),
            "the verdict of umpire-1 is not true or false",
        ),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, row: Row, reason: str) -> None:
    with pytest.raises(UnreadableRows) as refusal:
        replay(tmp_path, [row])
    assert f"line 2: {reason}" in str(refusal.value)


@pytest.mark.shared_data
@pytest.mark.nightly
@pytest.mark.parametrize("quote", [str, json.dumps], ids=["raw", "JSON"])
def test_every_published_verdict_comes_back_through_a_judges_prompt(quote: Quote) -> None:
    """5,022 verdicts of 4 judges on 1,674 predictions; the gold justifications are models' own, word for word."""
    known = answerer_from_files([SHARED / "riddles_llm.jsonl", SHARED / "ppi_llm.jsonl"])
    riddles = {row["id"]: row for row in published("riddles_llm.jsonl")}
    judged = 0
    for row in published("ppi_llm.jsonl"):
        text = judge_text(riddles[row["riddle_id"]], row["answer"], row["justification"], quote)
        for column in row:
            if not column.startswith("is_answer_correct_") or row[column] is None:
                continue
            name = column.removeprefix("is_answer_correct_")
            expected = {part: row[f"{part}_{name}"] for part in ("is_answer_correct", "is_justification_correct")}
            assert json.loads(known.answer(judge(text, name)).text) == expected
            judged += 1
    assert judged == 5022


@pytest.mark.shared_data
def test_every_published_prediction_comes_back_for_its_providers_model() -> None:
    known = answerer_from_files([SHARED / "riddles_llm.jsonl", SHARED / "ppi_llm.jsonl"])
    asked: dict[str, tuple[str, str | int | None]] = {
        "claude-opus-4-5-20251101-thinking-32k": ("claude-opus-4-5-20251101", 32000),
        "claude-opus-4-5-20251101-no-thinking": ("claude-opus-4-5-20251101", None),
        "gemini-3-flash-high": ("gemini-3-flash-preview", "high"),
        "gemini-3-pro-high": ("gemini-3-pro-preview", "high"),
        "moonshotai-kimi-k2-thinking": ("moonshotai/Kimi-K2-Thinking", None),
        "moonshotai-kimi-k2.5-thinking": ("moonshotai/Kimi-K2.5", None),
        "gpt-5.1-2025-11-13-high": ("gpt-5.1-2025-11-13", "high"),
        "gpt-5.2-2025-12-11-high": ("gpt-5.2-2025-12-11", "high"),
        "mistral-large-2512": ("mistral-large-2512", None),
    }
    riddles = {row["id"]: row for row in published("riddles_llm.jsonl")}
    for row in published("ppi_llm.jsonl"):
        model, reasoning = asked[row["model"]]
        question = ask(riddles[row["riddle_id"]]["description"], model, reasoning, row["provider"])
        assert json.loads(known.answer(question).text) == {name: row[name] for name in ("answer", "justification")}
