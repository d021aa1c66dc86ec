"""Simulated models answer the benchmarks graded by rule, at the strength and with the failures of their profile.

Every claim is checked through the task itself: its prompt becomes a question, the reply is parsed and graded.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from layton_batch.records import Grade, Item, JsonValue, Prediction, Prompt, Response
from layton_batch.sandbox.answerers.from_files import answerer_from_files, load_items
from layton_batch.sandbox.answerers.profiles import bundled_profiles
from layton_batch.sandbox.answerers.questions import Answerer, ModelReply, Question
from layton_batch.sandbox.answerers.riddle_lookup import UnreadableRows
from layton_batch.sandbox.answerers.simulate import SimulateAnswerer
from layton_batch.sandbox.answerers.simulate_mcq import options_in
from layton_batch.sandbox.answerers.stock_reasoning import OPENINGS, Truth
from layton_batch.states import FinishReason, PredictionKind, RequestOutcome
from layton_batch.tasks import load_task
from layton_batch.tasks.protocol import Candidate, Task, TaskOptions

SPLITS = {"mcq_idk": "demo", "zebralogic": "all", "rome": "llm"}
FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "refusal": FinishReason.REFUSAL}
STRONG, MIDDLING, WEAK = "larch-2-large", "sirocco-large", "Fieldstone/Sedge-32B"

EVALUATORS: Mapping[str, Sequence[Mapping[str, JsonValue]]] = {
    "key_items_matching": ({"key_items": [["an oak", "oak"], ["a brook"]]}, {"key_items": ["violin", "fiddle"]}),
    "choices_matching": ({"label": "B"}, {"label": "AC"}),
    "ordered_list_matching": ({"order": ["B", "A", "D", "C"]}, {"order": "CAB"}),
    "number_matching": ({"value_to_match": 37}, {"value_to_match": 2.5}),
    "location_matching": (
        {"location_fine_grained": ["Tromsø"], "location_coarse_grained": ["Norway"]},
        {"location_fine_grained": ["Pier 9"], "coarse_grained_score": 0.25},
    ),
}
ONE_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=",
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==",
)


def rome_rows() -> list[dict[str, JsonValue]]:
    """Twelve items of every one of two annotations for each evaluator; no wording is there twice."""
    return [
        {
            "question_id": f"q-{evaluator}-{number}",
            "question": f"Case {number:03d} of {evaluator}: what is shown? A. w B. x C. y D. z",
            "reference": "see the annotation",
            "evaluator": evaluator,
            "evaluator_kwargs": arguments[number % 2],
            "task": "made up",
        }
        for evaluator, arguments in EVALUATORS.items()
        for number in range(24)
    ]


@pytest.fixture(scope="session")
def rome_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rome") / "questions.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rome_rows()), encoding="utf-8")
    return path


def task_of(name: str, protocol: str = "corrected", **settings: JsonValue) -> Task:
    return load_task(name, TaskOptions(SPLITS[name]), {"protocol": protocol, **settings})


def source_of(name: str, rome_file: Path) -> Path:
    return rome_file if name == "rome" else task_of(name).bundled(SPLITS[name])


def items_of(task: Task, source: Path) -> Sequence[Item]:
    return task.items([json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()])


def asked(prompt: Prompt, model: str, limit: int | None = 30_000) -> Question:
    """What a dialect makes of a prompt, whichever it is."""
    profile = bundled_profiles().participant(model)
    texts = [part for part in prompt.parts if isinstance(part, str)]
    images = tuple(base64.b64decode(part.base64) for part in prompt.parts if not isinstance(part, str))
    schema = prompt.response_schema.schema if prompt.response_schema else None
    return Question(
        profile.provider, model, prompt.system, "\n".join(texts), images, schema, profile.reasoning, limit, "c"
    )


def response(reply: ModelReply) -> Response:
    return Response("c", RequestOutcome.SUCCEEDED, text=reply.text, finish_reason=FINISH[reply.finish])


def play(task: Task, items: Sequence[Item], answerer: Answerer, model: str) -> list[tuple[Prediction, Grade]]:
    played = []
    for item in items:
        reply = answerer.answer(asked(task.prompt(item), model))
        prediction = task.parse(item, model, response(reply))
        played.append((prediction, task.grade(item, prediction)))
    return played


@cache
def season(name: str, protocol: str, rome_file: Path) -> Mapping[str, list[tuple[Prediction, Grade]]]:
    """Every made-up model at every item."""
    task, source = task_of(name, protocol), source_of(name, rome_file)
    items, answerer = items_of(task, source), answerer_from_files((), [source])
    return {model: play(task, items, answerer, model) for model in bundled_profiles().participants}


def mean(played: Sequence[tuple[Prediction, Grade]], metric: str) -> float:
    return sum(grade.marks[metric] for _, grade in played) / len(played)


# ---- strength ------------------------------------------------------------------------------------------------------

BOUNDS = {
    ("mcq_idk", "idk_score"): {STRONG: (0.75, 1.0), MIDDLING: (0.1, 0.6), WEAK: (-0.4, 0.15)},
    ("zebralogic", "puzzle_accuracy"): {STRONG: (0.7, 0.95), MIDDLING: (0.2, 0.6), WEAK: (0.02, 0.3)},
    ("zebralogic", "cell_accuracy"): {STRONG: (0.9, 1.0), MIDDLING: (0.6, 0.9), WEAK: (0.4, 0.75)},
    ("rome", "accuracy"): {STRONG: (0.75, 0.97), MIDDLING: (0.35, 0.7), WEAK: (0.1, 0.4)},
}


@pytest.mark.parametrize(("name", "metric"), BOUNDS)
def test_strengths_lie_where_the_profiles_put_them(name: str, metric: str, rome_file: Path) -> None:
    played = season(name, "corrected", rome_file)
    for model, (low, high) in BOUNDS[name, metric].items():
        assert low <= mean(played[model], metric) <= high, model


def test_weak_models_abstain_or_err_more(rome_file: Path) -> None:
    def lapses(model: str) -> int:
        return sum(grade.marks["trad_score"] < 1 for _, grade in season("mcq_idk", "corrected", rome_file)[model])

    assert lapses(STRONG) < lapses(MIDDLING) < lapses(WEAK)


def test_large_grids_are_solved_less_and_cut_off_more(rome_file: Path) -> None:
    solved, cut, seen = Counter[bool](), Counter[bool](), Counter[bool]()
    items = items_of(task_of("zebralogic"), source_of("zebralogic", rome_file))
    for played in season("zebralogic", "corrected", rome_file).values():
        for item, (_, grade) in zip(items, played, strict=True):
            houses, attributes = map(int, item.category.split("*"))
            large = houses * attributes > 12
            seen[large] += 1
            solved[large] += grade.marks["puzzle_accuracy"] == 1
            cut[large] += grade.tag == "truncated"
    assert solved[True] / seen[True] < 0.7 * solved[False] / seen[False]
    assert cut[True] / seen[True] > cut[False] / seen[False]


def test_wrong_grids_are_partly_right_and_use_every_value_once(rome_file: Path) -> None:
    played = season("zebralogic", "corrected", rome_file)
    wrong = [grade.marks["cell_accuracy"] for one in played.values() for _, grade in one if grade.tag == "wrong_answer"]
    assert 0.4 < sum(wrong) / len(wrong) < 0.95
    assert max(wrong) < 1.0


# ---- kinds of failure ----------------------------------------------------------------------------------------------

TAGS = {
    "mcq_idk": {None, "wrong", "abstained", "no_letter", "truncated", "refused"},
    "zebralogic": {None, "wrong_answer", "no_answer", "truncated", "refused"},
    "rome": {None, "wrong_answer", "coarse_location", "no_answer", "truncated", "refused"},
}


@pytest.mark.parametrize("name", TAGS)
def test_every_way_of_failing_happens_and_no_other(name: str, rome_file: Path) -> None:
    played = [grade for one in season(name, "corrected", rome_file).values() for _, grade in one]
    assert {grade.tag for grade in played} == TAGS[name]


@pytest.mark.parametrize("name", ["mcq_idk", "zebralogic"])
def test_most_replies_can_be_read_and_some_cannot(name: str, rome_file: Path) -> None:
    kinds = Counter(said.kind for one in season(name, "corrected", rome_file).values() for said, _ in one)
    assert 0.01 < kinds[PredictionKind.UNPARSED] / kinds.total() < 0.15
    assert (kinds[PredictionKind.ABSTAINED] > 0) is (name == "mcq_idk")


@pytest.mark.parametrize("name", SPLITS)
def test_some_answers_come_in_another_form_than_the_one_asked_for(name: str, rome_file: Path) -> None:
    asked_for = {"mcq_idk": "\nAnswer: ", "zebralogic": "\n```json\n", "rome": "\nFinal Answer: "}[name]
    said = [one for one, _ in season(name, "corrected", rome_file)[WEAK] if one.kind is PredictionKind.ANSWERED]
    other = sum(asked_for not in (one.raw_text or "") for one in said)
    assert 0 < other < len(said) / 2


@pytest.mark.parametrize("name", SPLITS)
def test_the_published_rules_agree_on_nearly_all_replies(name: str, rome_file: Path) -> None:
    """The protocols differ where a model is clumsy; on what was asked for they must not."""
    metric = task_of(name).metrics[0]
    for model in (STRONG, MIDDLING):
        ours, published = (season(name, protocol, rome_file)[model] for protocol in ("corrected", "original"))
        assert abs(mean(ours, metric) - mean(published, metric)) < 0.08


# ---- repeatable, and by content ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPLITS)
def test_the_same_question_gets_the_same_reply_in_any_order_and_any_answerer(name: str, rome_file: Path) -> None:
    task, source = task_of(name), source_of(name, rome_file)
    questions = [asked(task.prompt(item), model) for item in items_of(task, source)[:12] for model in (WEAK, "x/new-1")]
    first, again = (answerer_from_files((), [source], 3) for _ in range(2))
    replies = [first.answer(question) for question in questions]
    assert [again.answer(question) for question in reversed(questions)] == replies[::-1]
    other = answerer_from_files((), [source], 4)
    assert [other.answer(question) for question in questions] != replies


def test_options_shuffled_otherwise_change_the_letter_and_not_what_is_chosen(rome_file: Path) -> None:
    source = source_of("mcq_idk", rome_file)
    answerer, letters = answerer_from_files((), [source]), 0
    one, other = task_of("mcq_idk"), task_of("mcq_idk", seed=1)
    for item, shuffled in zip(items_of(one, source), items_of(other, source), strict=True):
        said = [
            (task.grade(each, prediction), prediction.answer)
            for task, each in ((one, item), (other, shuffled))
            for prediction in [task.parse(each, STRONG, response(answerer.answer(asked(task.prompt(each), STRONG))))]
        ]
        if said[0][0].tag is None:
            assert said[1][0].tag is None
            letters += said[0][1] != said[1][1]
    assert letters > 20


def test_options_are_read_from_the_prompt_whatever_stands_before_them() -> None:
    prompt = "Is E) a letter?\nA) no\nA) two\nlines\nB) x. Y\nD) out of turn\nC) I don't know\n\nThank you. D) is none."
    assert options_in(prompt) == {"A": "two\nlines", "B": "x. Y\nD) out of turn", "C": "I don't know"}
    assert options_in("Pick:\nA) 1\nB) 2\n\nThink first.") == {"A": "1", "B": "2"}
    assert options_in("Nothing to choose from") == {}


def test_a_question_whose_options_are_not_shown_is_answered_as_an_unknown_one(rome_file: Path) -> None:
    source = source_of("mcq_idk", rome_file)
    answerer, stranger = answerer_from_files((), [source]), SimulateAnswerer()
    text = json.loads(source.read_text(encoding="utf-8").splitlines()[0])["question"]
    question = Question("openai", STRONG, "", text, (), None, None, None, "c")
    assert answerer.answer(question) == stranger.answer(question)


def test_items_with_the_same_question_are_told_apart_by_their_picture(tmp_path: Path) -> None:
    rows: list[dict[str, JsonValue]] = [
        {
            "question_id": f"p{number}", "question": "Which number is on the door?", "split": "vlm", "img": picture,
            "evaluator": "number_matching", "evaluator_kwargs": {"value_to_match": 100 + number}, "reference": "n",
        }
        for number, picture in enumerate(ONE_PIXEL)
    ]  # fmt: skip
    path = tmp_path / "vision.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = load_task("rome", TaskOptions("vlm"))
    answerer = answerer_from_files((), [path])
    for number, item in enumerate(items_of(task, path)):
        texts = [answerer.answer(asked(task.prompt(item), f"m-{model}")).text for model in range(40)]
        assert sum(str(100 + number) in text for text in texts) > 10
        assert sum(str(101 - number) in text for text in texts) < 12


# ---- judges --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["corrected", "original"])
def test_simulated_judges_judge_what_was_really_said(protocol: str, rome_file: Path) -> None:
    task = task_of("rome", protocol, judge=True)
    answerer, judge, agreed = answerer_from_files((), [rome_file]), "wagtail-5-referee", Counter[bool]()
    for item in items_of(task, rome_file)[::3]:
        prediction = task.parse(item, MIDDLING, response(answerer.answer(asked(task.prompt(item), MIDDLING))))
        if not any(opening in (prediction.raw_text or "") for truth in Truth for opening in OPENINGS[truth]):
            continue  # nothing but an answer: no mark to judge by
        solved = any(opening in (prediction.raw_text or "") for opening in OPENINGS[Truth.RIGHT])
        reply = answerer.answer(asked(task.judge_prompt(Candidate(item, prediction)), judge))
        verdict = task.parse_verdict(item.id, MIDDLING, judge, response(reply))
        agreed[verdict.is_answer_correct is solved] += 1
    assert agreed[True] > 12 * agreed[False]


# ---- limits and files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPLITS)
def test_a_reply_never_outgrows_the_output_limit(name: str, rome_file: Path) -> None:
    task, source = task_of(name), source_of(name, rome_file)
    answerer = answerer_from_files((), [source])
    for item in items_of(task, source)[:15]:
        reply = answerer.answer(asked(task.prompt(item), STRONG, limit=20))
        assert reply.output_tokens <= 20
        assert len(reply.text.encode()) <= 80


def test_files_of_every_task_are_told_apart_by_their_columns(rome_file: Path) -> None:
    sources = [source_of(name, rome_file) for name in SPLITS]
    sources.append(sources[0].parents[1] / "layton" / "riddles_llm.jsonl")
    items = load_items(sources)
    assert Counter(item.kind for item in items.exercises) == {"mcq": 56, "grid": 50, "rule": 120}
    assert len(items.riddles) == 42


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"name": "x"}, "not an item of a known form"),
        ({"question": "?", "options": ["a", "b"], "answer": "c"}, "which of its options is right cannot be told"),
        ({"question": "?", "options": ["a", "b"], "answer": 2}, "which of its options is right cannot be told"),
        ({"question": "?", "options": "[" * 9000, "answer": 0}, "which of its options is right cannot be told"),
        ({"puzzle": "?", "solution": "no JSON"}, "Expecting value"),
        ({"puzzle": "?", "solution": {"header": ["House"], "rows": [["1"]]}}, "not as long as its header"),
        ({"puzzle": "?", "solution": {"header": ["House", "Name"], "rows": []}}, "no header and rows"),
    ],
)
def test_a_row_that_is_no_item_is_named(row: Mapping[str, object], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(f"\n{json.dumps(row)}\n", encoding="utf-8")
    with pytest.raises(UnreadableRows, match=rf"bad\.jsonl, line 2: .*{reason}"):
        load_items([path])


@pytest.mark.parametrize(
    "row",
    [
        {"evaluator": "interval_matching", "evaluator_kwargs": {"interval": [1, 2]}},
        {"evaluator": "key_items_matching", "evaluator_kwargs": {"key_items": [[]]}},
        {"evaluator": "number_matching", "evaluator_kwargs": {"value_to_match": "many"}},
        {"evaluator": "choices_matching", "evaluator_kwargs": {"label": " "}},
        {"evaluator": "ordered_list_matching", "evaluator_kwargs": None},
    ],
)
def test_an_annotation_nothing_can_be_graded_by_stops_nobody(row: Mapping[str, object], tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(json.dumps({"question": "What is odd here?", "question_id": 1, **row}), encoding="utf-8")
    question = Question("openai", STRONG, "", "What is odd here?", (), None, None, None, "c")
    assert answerer_from_files((), [path]).answer(question).text


@pytest.mark.parametrize(
    "row",
    [
        {"options": ["four", "five"], "answer_index": 1},
        {"choices": '["four", "five"]', "gold": "B"},
        {"Incorrect Answer 1": "four", "Correct Answer": "five"},
        {"options": ["four", "five"], "answer": "five"},
    ],
)
def test_multiple_choice_is_read_in_every_published_shape(row: Mapping[str, object], tmp_path: Path) -> None:
    path = tmp_path / "choices.jsonl"
    path.write_text(json.dumps({"question": "How many?", **row}), encoding="utf-8")
    question = asked(Prompt("", ("How many?\n\nA) four\nB) five\nC) I don't know",)), STRONG)
    texts = [answerer_from_files((), [path], seed).answer(question).text for seed in range(25)]
    assert sum(text.endswith("Answer: B") for text in texts) > 15
