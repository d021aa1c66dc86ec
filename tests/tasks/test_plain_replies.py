"""What a task reads of many replies at once is what it reads of each, and where that is in doubt it says nothing."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from layton_batch.records import Item, Prediction, Response, Verdict
from layton_batch.states import FinishReason, PredictionKind, RequestOutcome
from layton_batch.tasks.layton import LaytonTask
from layton_batch.tasks.layton_roles import JustifyTask
from layton_batch.tasks.protocol import TaskOptions, reads_together

TASK = LaytonTask(TaskOptions("llm"))
ITEM = Item("i", "llm", "c", "q")
ENDS = (FinishReason.STOP, FinishReason.LENGTH, FinishReason.OTHER, None)

STRINGS = st.text(
    st.sampled_from('ab1"\\\n\t {}[]:,é漢🧩\x00\x1c\u00a0\u2028') | st.characters(codec="utf-8"), max_size=12
)
VALUES = st.recursive(
    STRINGS
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["42", "true", "-1.50", "[", "null"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["answer", "x"]), inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from(["answer", "justification", "is_answer_correct", "is_justification_correct", "x", "Answer", ""])
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=5)
SPACE = st.sampled_from(["", " ", "\n", "\t ", "\u00a0", "\x0b"])
RAW = st.sampled_from(
    ["NaN", "1.50", "-0", "1e999", "01", "tru", "'x'", '"\\ud83d"', '"a\tb"', "1" * 40, '"\\u0061"', "true"]
)


@st.composite
def replies(draw: st.DrawFn) -> str:
    """An object as a model may write it, with keys in escapes, values that are no JSON, and words around it."""
    parts = []
    for name, value in draw(FIELDS):
        key = draw(st.sampled_from([json.dumps(name), json.dumps(name).replace("a", "\\u0061", 1)]))
        said = draw(st.just(json.dumps(value, ensure_ascii=draw(st.booleans()))) | RAW)
        parts.append(f"{draw(SPACE)}{key}{draw(SPACE)}:{draw(SPACE)}{said}")
    text = draw(SPACE) + "{" + ",".join(parts) + "}" + draw(SPACE)
    return draw(
        st.sampled_from(
            [text, text, text, f"[{text}]", f"{text},{text}", f"```json\n{text}\n```", text[:-1], f"\ufeff{text}"]
        )
    )


def plainly(answer: str, justification: str, text: str) -> Prediction:
    return Prediction("i", "m", PredictionKind.ANSWERED, answer, justification, text, None)


@settings(max_examples=400, deadline=None)
@example(['{"answer": "x"},{"answer": "INJECTED"', '"justification": "j"}'])
@example(['{"answer": 1.50, "justification": "j"}', '{"\\u0061nswer": 1.50, "justification": "j"}'])
@example(['{"answer": "1.50", "justification": "j"}', '{"answer": "x", "answer": 1.50, "justification": "j"}'])
@example(['{"answer": "[1]", "justification": ""}', '{"answer": " ", "justification": "j"}', "", '"answer"'])
@given(st.lists(replies() | STRINGS, max_size=6))
def test_answers_read_at_once_are_those_read_one_by_one(texts: list[str]) -> None:
    found = TASK.plain_answers(pl.Series(values=texts, dtype=pl.String))
    assert found.height == len(texts)
    for text, (answer, justification) in zip(texts, found.iter_rows(), strict=True):
        assert (answer is None) == (justification is None)
        for end in ENDS if answer is not None else ():
            one = TASK.parse(ITEM, "m", Response("c", RequestOutcome.SUCCEEDED, text, end))
            assert one == plainly(answer, justification, text)


@settings(max_examples=400, deadline=None)
@example(['{"is_answer_correct": true, "is_justification_correct": false, "is_answer_correct": false}'])
@given(st.lists(replies(), max_size=6))
def test_verdicts_read_at_once_are_those_read_one_by_one(texts: list[str]) -> None:
    found = TASK.plain_verdicts(pl.Series(values=texts, dtype=pl.String))
    assert found.height == len(texts)
    for text, (answer, justification) in zip(texts, found.iter_rows(), strict=True):
        assert (answer is None) == (justification is None)
        for end in ENDS if answer is not None else ():
            one = TASK.parse_verdict("i", "m", "j", Response("c", RequestOutcome.SUCCEEDED, text, end))
            assert one == Verdict("i", "m", "j", answer, justification)


def test_what_keeps_to_the_form_is_read_at_once() -> None:
    said = ["a piano", "42", "-1", "[1, 2]", "true", 'é漢\n"said"']
    texts = [json.dumps({"justification": "j", "answer": one}, ensure_ascii=False) for one in said]
    assert TASK.plain_answers(pl.Series(texts))["answer"].to_list() == said
    marks = [
        json.dumps(dict(zip(("is_answer_correct", "is_justification_correct"), (one, not one), strict=True)))
        for one in (True, False)
    ]
    assert TASK.plain_verdicts(pl.Series(marks)).rows() == [(True, False), (False, True)]


@pytest.mark.parametrize("name", ["parse", "parse_verdict"])
def test_a_task_that_reads_replies_in_its_own_way_reads_each_by_itself(name: str) -> None:
    assert reads_together(JustifyTask(TaskOptions("llm"))) is not None
    own = type("Own", (LaytonTask,), {name: getattr(LaytonTask, name)})
    assert reads_together(own(TaskOptions("llm"))) is None
