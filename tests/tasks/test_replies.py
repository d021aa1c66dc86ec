"""Every reply is one prediction with a kind, and every failure has one tag, in each benchmark and protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from layton_batch.records import Item, JsonValue, Response
from layton_batch.states import FinishReason, RequestOutcome
from layton_batch.tasks import load_task
from layton_batch.tasks.protocol import RuleTask, TaskOptions

from .zebralogic.grids import GRID, SOLUTION, WRONG, reply

CUT, REFUSED = {"finish_reason": FinishReason.LENGTH}, {"finish_reason": FinishReason.REFUSAL}
EXPIRED, FAILED = {"outcome": RequestOutcome.EXPIRED}, {"outcome": RequestOutcome.ERRORED, "error_message": "boom\n!"}
SAID_NO = {"refusal": "I will\nnot."}
OPTIONS: JsonValue = ["argon", "helium", "neon", "xenon"]
ROWS: Mapping[str, dict[str, JsonValue]] = {
    "mcq_idk": {"id": "i", "question": "Which gas?", "options": OPTIONS, "answer": "neon"},
    "zebralogic": {"id": "i", "puzzle": "Three houses …", "solution": SOLUTION},
    "rome": {"question_id": "i", "question": "How many?", "evaluator": "number_matching",
             "evaluator_kwargs": {"value_to_match": 3}},
}  # fmt: skip


def rule_task(name: str, protocol: str) -> tuple[RuleTask, Item]:
    task = load_task(name, TaskOptions("llm"), {"protocol": protocol})
    assert not task.uses_jury
    (item,) = task.items([ROWS[name]])
    return task, item


GOLD = str(rule_task("mcq_idk", "corrected")[1].payload["gold"])
WRONG_LETTER = "ABCD".replace(GOLD, "")[0]

Case = tuple[str, str, str | None, Mapping[str, object], str, str | None]
"""Task, protocol, text, how it ended, the prediction's kind and the grade's tag."""
CASES: list[Case] = [
    ("mcq_idk", "corrected", f"Because.\n\nAnswer: {GOLD}", {}, "answered", None),
    ("mcq_idk", "corrected", f"Answer: {WRONG_LETTER}", {}, "answered", "wrong"),
    ("mcq_idk", "corrected", "Answer: E", {}, "abstained", "abstained"),
    *(("mcq_idk", "corrected", text, {}, "unparsed", "no_letter")
      for text in ("It depends.", "Answer: F", "", None, "Answer: A or B")),
    ("mcq_idk", "corrected", "The answer is", CUT, "unparsed", "truncated"),
    ("mcq_idk", "corrected", f"Answer: {GOLD}\nfor", CUT, "answered", None),
    *(("mcq_idk", "corrected", f"Answer: {GOLD}", ended, "unparsed", "refused") for ended in (SAID_NO, REFUSED)),
    *(("mcq_idk", "original", f"The answer is {GOLD}.", ended, "answered", None) for ended in (SAID_NO, CUT, {})),
    ("zebralogic", "corrected", reply()[:-9], CUT, "unparsed", "truncated"),
    *(("zebralogic", protocol, reply()[:-9], CUT, "unparsed", "no_answer") for protocol in ("original", "zeroeval")),
    *(("zebralogic", "corrected", text, CUT, "answered", None)
      for text in (f"```json\n{reply()}\n```", f"<think>{reply(WRONG)}</think>{reply()}")),
    *(("zebralogic", "corrected", text, CUT, "unparsed", "truncated") for text in (
        f"{reply()} As a ch", f"Perhaps {reply()}", f"<think>{reply()}", f"{reply()} Correction: {{")),
    ("zebralogic", "original", f"```\n{reply()}\n``` As a ch", CUT, "answered", None),
    *(("zebralogic", "corrected", None, ended, "unparsed", "refused") for ended in (SAID_NO, REFUSED)),
    *(("zebralogic", "original", None, ended, "unparsed", "no_answer") for ended in (SAID_NO, REFUSED)),
    ("rome", "corrected", "Final Answer: 3", {}, "answered", None),
    ("rome", "corrected", "Final Answer: 4", {}, "answered", "wrong_answer"),
    *(("rome", "corrected", text, {}, "unparsed", "no_answer") for text in ("", None)),
    ("rome", "corrected", "First I count 3", CUT, "unparsed", "truncated"),
    ("rome", "corrected", "Final Answer: 3 and so", CUT, "answered", None),
    ("rome", "corrected", "Final Answer: 1", CUT, "answered", "truncated"),
    *(("rome", "corrected", "3", ended, "unparsed", "refused") for ended in (SAID_NO, REFUSED)),
    *((name, "corrected", None, ended, "missing", "adapter_error" if name == "zebralogic" else "missing")
      for name in ROWS for ended in (EXPIRED, FAILED)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "protocol", "text", "ended", "kind", "tag"), CASES)
def test_every_reply_has_a_kind_and_every_failure_one_tag(
    name: str, protocol: str, text: str | None, ended: Mapping[str, object], kind: str, tag: str | None
) -> None:
    task, item = rule_task(name, protocol)
    fields = {"outcome": RequestOutcome.SUCCEEDED, "finish_reason": FinishReason.STOP, **ended}
    prediction = task.parse(item, "m", Response("c", text=text, **fields))  # type: ignore[arg-type]
    grade = task.grade(item, prediction)
    assert (prediction.kind, prediction.raw_text, grade.tag) == (kind, text, tag)
    assert (grade.item_id, grade.model, list(grade.marks)) == ("i", "m", list(task.metrics))
    assert grade.marks[task.metrics[0]] == (1.0 if tag is None else 0.0)
    assert prediction.note or kind != "unparsed"
    if ended is FAILED:
        assert prediction.note == "errored: boom !"


@pytest.mark.parametrize("protocol", ["corrected", "original", "zeroeval"])
def test_a_grid_is_kept_as_json_with_its_reasoning(protocol: str) -> None:
    task, item = rule_task("zebralogic", protocol)
    said = Response("c", RequestOutcome.SUCCEEDED, reply(reasoning="because"), FinishReason.STOP)
    prediction = task.parse(item, "m", said)
    assert (json.loads(prediction.answer or ""), prediction.justification) == (GRID, "because")
