"""Simulated models are repeatable, of the strength their profiles say, and judged by what they really said."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from layton_batch.sandbox.answerers.from_files import answerer_from_files, default_answerer
from layton_batch.sandbox.answerers.profiles import BadProfiles, bundled_profiles, profiles_from
from layton_batch.sandbox.answerers.questions import Answerer, ModelReply, Question
from layton_batch.sandbox.answerers.reply_forms import ReplyForm
from layton_batch.sandbox.answerers.riddle_lookup import Riddle
from layton_batch.sandbox.answerers.simulate import SimulateAnswerer
from layton_batch.sandbox.answerers.stock_reasoning import CLOSINGS, OPENINGS, Truth
from layton_batch.sandbox.answerers.wrong_answers import WrongAnswers, plain_words
from tests.support.paths import ROOT
from tools.simulated_gold import READABLE

ANSWER_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {"justification": {"type": "string"}, "answer": {"type": "string"}},
}
VERDICT_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {"is_answer_correct": {"type": "boolean"}, "is_justification_correct": {"type": "boolean"}},
}
WORDS = [
    "anchor",
    "barrel",
    "candle",
    "drawer",
    "engine",
    "feather",
    "goblet",
    "hammer",
    "island",
    "jacket",
    "kettle",
    "ladder",
    "mirror",
    "needle",
    "orchard",
]


def made_up(number: int) -> Riddle:
    """A riddle whose wording no other has; answers are numbers, words and phrases in turn."""
    word = WORDS[number % len(WORDS)]
    answer = (str(number + 2), word.title(), f"Under the {word}")[number % 3]
    return Riddle(
        id=f"m-{number}",
        category=("Logic", "Wordplay", "Lateral")[number % 3],
        picarats=(10, 30, 50, None)[number % 4],
        description=f'Puzzle {number:03d}: "Where did the {word} go?"\nSay it in a word.',
        hints=(f"Hint one of {number:03d}.", f"Hint two of {number:03d}."),
        answer=answer,
        solution=f"It is {answer}, since puzzle {number:03d} says so.",
        justification=f"The text of {number:03d} leaves no room. Hence the {word} decides. So it is {answer}.",
        image="",
    )


ITEMS = tuple(made_up(number) for number in range(400))


def ask(text: str, model: str, reasoning: str | int | None = None, *, limit: int | None = None) -> Question:
    return Question("openai", model, "Solve.", text, (), ANSWER_SCHEMA, reasoning, limit, "c")


def judge_of(riddle: Riddle, answer: str, justification: str, model: str = "wagtail-5-referee") -> Question:
    submission = json.dumps({"answer": answer, "justification": justification})
    shown = (riddle.description, *riddle.hints, riddle.answer, riddle.solution, riddle.justification, submission)
    return Question("anthropic", model, "Judge.", "\n".join(shown), (), VERDICT_SCHEMA, None, None, "c")


def verdict(answerer: Answerer, question: Question) -> tuple[bool, bool]:
    value = json.loads(answerer.answer(question).text)
    return value["is_answer_correct"], value["is_justification_correct"]


def test_the_same_question_gets_the_same_reply_in_any_order_and_any_answerer() -> None:
    questions = [ask(riddle.description, model) for riddle in ITEMS[:20] for model in ("larch-2-mini", "gpt-9", "x/y")]
    answerer = SimulateAnswerer(ITEMS, 7)
    replies = [answerer.answer(question) for question in questions]
    order = list(range(len(questions)))
    random.Random(1).shuffle(order)
    again = SimulateAnswerer(ITEMS, 7)
    assert {i: again.answer(questions[i]) for i in order} == dict(enumerate(replies))


def test_the_same_question_gets_the_same_reply_in_another_process() -> None:
    program = """
from layton_batch.sandbox.answerers.questions import Question
from layton_batch.sandbox.answerers.simulate import SimulateAnswerer
schema = {"properties": {"answer": {}, "justification": {}}}
question = Question("groq", "any-model", "", "What has 4 legs?", (), schema, None, None, "c")
print(ascii(SimulateAnswerer().answer(question).text))
"""
    root = ROOT
    texts = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=root, env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert texts[0] == texts[1] != ""


def test_another_seed_gives_other_replies() -> None:
    one, other = SimulateAnswerer(ITEMS, 0), SimulateAnswerer(ITEMS, 1)
    assert any(one.participate("m", riddle, 0, None) != other.participate("m", riddle, 0, None) for riddle in ITEMS)


def test_the_prompts_wording_changes_nothing_the_participant_says() -> None:
    answerer, riddle = SimulateAnswerer(ITEMS), ITEMS[3]
    plain = answerer.answer(ask(riddle.description, "larch-2-large"))
    wordy = answerer.answer(ask(f"Dear model,\n> {json.dumps(riddle.description)}\nThank you.", "larch-2-large"))
    assert plain.text == wordy.text


@pytest.mark.parametrize("reasoning", [None, "high", 32000])
def test_more_hints_and_more_reasoning_never_spoil_a_right_answer(reasoning: str | int | None) -> None:
    answerer = SimulateAnswerer(ITEMS)
    levels = [[answerer.participate("sirocco-large", r, hints, reasoning) for r in ITEMS] for hints in range(5)]
    right = [[said.span.truth is not Truth.WRONG for said in level] for level in levels]
    for fewer, more in pairwise(right):
        assert all(b or not a for a, b in zip(fewer, more, strict=True))
    assert sum(right[4]) > sum(right[0])
    unaided = [answerer.participate("sirocco-large", r, 0, None).span.truth is not Truth.WRONG for r in ITEMS]
    assert all(b or not a for a, b in zip(unaided, right[0], strict=True))


def test_hints_in_the_prompt_are_what_counts_as_shown() -> None:
    answerer = SimulateAnswerer(ITEMS)
    for riddle in ITEMS[:30]:
        text = "\n".join((riddle.description, *riddle.hints))
        said = answerer.participate("Fieldstone/Sedge-32B", riddle, 2, None)
        if said.form is ReplyForm.PLAIN:
            assert json.loads(answerer.answer(ask(text, "Fieldstone/Sedge-32B")).text)["answer"] == said.answer


def test_strengths_lie_where_the_profiles_put_them() -> None:
    """Shares of right answers over 400 items with the demonstration's reasoning settings; strong models first."""
    answerer = SimulateAnswerer(ITEMS)
    shares = []
    for profile in bundled_profiles().participants.values():
        said = [answerer.participate(profile.model, riddle, 0, profile.reasoning) for riddle in ITEMS]
        shares.append(sum(s.span.truth is not Truth.WRONG for s in said) / len(said))
    assert len(shares) >= 8
    assert 0.88 < max(shares) < 0.97
    assert 0.28 < min(shares) < 0.45
    gaps = [b - a for a, b in pairwise(sorted(shares))]
    assert max(gaps) < 0.2


def test_every_provider_has_a_participant_and_the_panel_is_of_four_families_at_least() -> None:
    profiles = bundled_profiles()
    providers = {profile.provider for profile in profiles.participants.values()}
    assert providers == {"openai", "anthropic", "gemini", "mistral", "together", "groq", "doubleword"}
    assert Counter(judge.substitute for judge in profiles.judges.values()) == {False: 4, True: 1}
    assert len({judge.provider for judge in profiles.judges.values()}) >= 4


def test_judges_are_about_as_accurate_as_real_ones_and_differ_in_leniency() -> None:
    answerer, profiles = SimulateAnswerer(ITEMS), bundled_profiles()
    leniency = {}
    said = [
        (riddle.id, answerer.participate(profile.model, riddle, 0, profile.reasoning).span)
        for profile in profiles.participants.values()
        for riddle in ITEMS
    ]
    truths = [all(mark.truth.value) for _, mark in said]
    for judge in profiles.judges:
        verdicts = [all(answerer.verdict(judge, item, mark)) for item, mark in said]
        accuracy = sum(v is t for v, t in zip(verdicts, truths, strict=True)) / len(said)
        assert 0.93 < accuracy < 0.985, judge
        leniency[judge] = (sum(verdicts) - sum(truths)) / len(said)
    assert max(leniency, key=lambda judge: leniency[judge]) == "tern-3-referee"
    assert min(leniency, key=lambda judge: leniency[judge]) == "larch-2-referee"
    assert leniency["tern-3-referee"] > 0.01 > -0.01 > leniency["larch-2-referee"]


def test_a_judge_knows_from_the_words_alone_whose_truth_it_reads() -> None:
    """The verdict through a prompt is the verdict on the truth, for right, flawed and wrong submissions alike."""
    answerer, seen = SimulateAnswerer(ITEMS), Counter[Truth]()
    for riddle in ITEMS[:150]:
        for model in ("larch-2-large", "alderworks/pebble-20b"):
            said = answerer.participate(model, riddle, 0, None)
            question = judge_of(riddle, said.answer, said.justification)
            if answerer.answer(question).text.startswith("{"):
                assert verdict(answerer, question) == answerer.verdict("wagtail-5-referee", riddle.id, said.span)
                seen[said.span.truth] += 1
    assert set(seen) == set(Truth)


@pytest.mark.parametrize(
    ("answer", "justification", "truth"),
    [
        ("{right}", "I went through all the conditions one by one and this is what they leave open.", (True, True)),
        (
            "**{right}**.",
            "I went through all the conditions one by one and this is what they leave open.",
            (True, True),
        ),
        ("{right}", "Obvious.", (True, False)),
        (
            "Something else",
            "Even though {right} would be tempting, I think it must be something else here.",
            (False, False),
        ),
        ("", "The answer is {right}, because of everything that the puzzle says about it.", (False, False)),
    ],
)
def test_words_of_nobody_we_know_are_compared_with_the_reference(
    answer: str, justification: str, truth: tuple[bool, bool]
) -> None:
    judge = profiles_from(
        'participants = []\n[[judges]]\nprovider = "openai"\nmodel = "sure"\nlenient_answer = 0\n'
        "lenient_justification = 0\nstrict_answer = 0\nstrict_justification = 0"
    )
    answerer, riddle = SimulateAnswerer(ITEMS, profiles=judge), ITEMS[4]
    said = [text.format(right=riddle.answer) for text in (answer, justification)]
    assert verdict(answerer, judge_of(riddle, said[0], said[1], "sure")) == truth


def test_wrong_answers_are_never_the_right_one_and_mostly_of_its_shape() -> None:
    wrong = WrongAnswers(ITEMS)
    for riddle in ITEMS:
        for model in ("a", "b"):
            answer = wrong.draw(riddle, model, riddle.id)
            assert plain_words(answer) != plain_words(riddle.answer)
            assert any(letter.isdigit() for letter in answer) == riddle.answer.isdigit()


def test_a_lone_item_still_gets_a_wrong_answer() -> None:
    for answer in ("", "?", "None of them", "9" * 6000, "C"):
        lone = Riddle("x", "", None, "?", (), answer, "", "", "")
        assert plain_words(WrongAnswers([lone]).draw(lone, "m")) != plain_words(answer)


def test_stock_sentences_belong_to_one_truth_each() -> None:
    sentences = [sentence for stock in (OPENINGS, CLOSINGS) for truth in Truth for sentence in stock[truth]]
    assert len(set(sentences)) == len(sentences)


def all_forms() -> SimulateAnswerer:
    rates = ", ".join(f"{form.value} = 0.15" for form in ReplyForm if form is not ReplyForm.PLAIN)
    clumsy = f'provider = "groq"\nmodel = "clumsy"\nskill = 0\nflawed = 0\nforms = {{ {rates} }}'
    return SimulateAnswerer(ITEMS, profiles=profiles_from(f"judges = []\n[[participants]]\n{clumsy}"))


def test_replies_go_wrong_in_every_way_a_real_one_does() -> None:
    answerer, seen = all_forms(), Counter[ReplyForm]()
    for riddle in ITEMS[:120]:
        said = answerer.participate("clumsy", riddle, 0, None)
        reply = answerer.answer(ask(riddle.description, "clumsy"))
        seen[said.form] += 1
        assert _looks_like(said.form, reply), (said.form, reply)
        assert said.answer in reply.text or said.form not in READABLE
    assert set(seen) == set(ReplyForm)


def _looks_like(form: ReplyForm, reply: ModelReply) -> bool:
    try:
        is_json = isinstance(json.loads(reply.text), dict)
    except ValueError:
        is_json = False
    finish = {ReplyForm.TRUNCATED: "length", ReplyForm.REFUSED: "refusal"}.get(form, "stop")
    fenced, braced = reply.text.startswith("```json"), "{" in reply.text
    return (
        reply.finish == finish
        and is_json == (form is ReplyForm.PLAIN)
        and fenced == (form is ReplyForm.FENCED)
        and (braced or form in {ReplyForm.UNSTRUCTURED, ReplyForm.REFUSED})
        and ('"answer"' not in reply.text or form is not ReplyForm.TRUNCATED)
    )


def test_an_output_limit_cuts_the_reply_and_bounds_the_tokens() -> None:
    reply = SimulateAnswerer(ITEMS).answer(ask(ITEMS[0].description, "larch-2-large", "high", limit=12))
    assert reply.finish == "length"
    assert reply.output_tokens <= 12
    roomy = SimulateAnswerer(ITEMS).answer(ask(ITEMS[0].description, "larch-2-large", 2000, limit=400))
    assert 0 < roomy.reasoning_tokens < roomy.output_tokens <= 400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Which is it?\nA) one\nB) two\nC) three", {"A", "B", "C"}),
        ("How many of the 40 are left?", {"40", "41", "42"}),
    ],
)
def test_an_unknown_item_gets_an_answer_of_the_kind_asked_for(text: str, expected: set[str]) -> None:
    answerer = default_answerer()
    for model in ("m1", "m2", "m3"):
        assert json.loads(answerer.answer(ask(text, model)).text)["answer"] in expected
        plain = Question("groq", model, "", text, (), None, None, None, "c")
        assert any(f"###{answer}###" in answerer.answer(plain).text for answer in expected)


def test_answers_to_unknown_items_are_judged_consistently() -> None:
    answerer = default_answerer()
    said = json.loads(answerer.answer(ask("What walks on three legs?", "m1")).text)
    question = judge_of(ITEMS[0], said["answer"], said["justification"])
    assert verdict(answerer, question) == verdict(default_answerer(), question)


def test_any_schema_is_filled() -> None:
    schema: Mapping[str, object] = {
        "type": "object",
        "properties": {
            "grid": {
                "type": "array",
                "items": {"type": "object", "properties": {"House 1": {"type": ["string", "null"]}}},
            },
            "ok": {"type": "boolean"},
            "score": {"type": "integer"},
            "share": {"type": "NUMBER"},
            "pick": {"enum": ["x", "y"]},
            "gold_justification": {"type": "string"},
            "odd": "not a schema",
        },
    }
    value = json.loads(default_answerer().answer(Question("gemini", "m", "", "?", (), schema, None, None, "c")).text)
    assert list(value) == list(schema["properties"])  # type: ignore[call-overload]
    assert [type(value[name]) for name in ("grid", "ok", "score", "share", "odd")] == [
        list,
        bool,
        int,
        float,
        type(None),
    ]
    assert value["pick"] in {"x", "y"}


def test_a_name_nobody_knows_gets_a_profile_of_its_own() -> None:
    profiles = bundled_profiles()
    skills = [profiles.participant(f"model-{number}").skill for number in range(200)]
    assert 0.9 < sum(skills) / len(skills) < 1.5
    assert len(set(skills)) == 200
    assert profiles.participant("gpt-5.1") == profiles.participant("gpt-5.1")
    assert profiles.judge("gpt-5.1") != profiles.judge("gpt-5.2")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("participants = [", "cannot be used"),
        ("participants = []\njudges = []\njugdes = []", "jugdes"),
        ('judges = []\n[[participants]]\nprovider = "x"\nmodel = "y"\nskill = 1\nflawed = 2', "flawed"),
        (
            (
                'judges = []\n[[participants]]\nprovider = "x"\nmodel = "y"\nskill = 1\nflawed = 0\n'
                "forms = { fenced = 0.9, prose = 0.2 }"
            ),
            "forms of 'y'",
        ),
    ],
)
def test_bad_profiles_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BadProfiles, match=reason):
        profiles_from(text)


def test_a_replay_never_makes_anything_up_and_items_alone_are_simulated(tmp_path: Path) -> None:
    path = tmp_path / "riddles.jsonl"
    path.write_text(json.dumps({"id": "a", "description": "Who?", "answer": "Me", "category": "x"}), encoding="utf-8")
    simulated = answerer_from_files([], [path], seed=3)
    assert simulated.answer(ask("Who?", "larch-2-large")).text
    with pytest.raises(LookupError):
        answerer_from_files([path], [path], seed=3).answer(ask("Who?", "larch-2-large"))
