"""Text made to be slow or to crash takes every reader time in proportion to its length, and never an exception."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest

from layton_batch.records import Item, Response
from layton_batch.states import FinishReason, RequestOutcome
from layton_batch.tasks.layton import LaytonTask
from layton_batch.tasks.mcq_idk.task import CORRECTED, ORIGINAL, read_letter
from layton_batch.tasks.protocol import TaskOptions
from layton_batch.tasks.rome import published, reader
from layton_batch.tasks.rome.published import judgement
from layton_batch.tasks.zebralogic.protocols import PROTOCOLS

from .zebralogic.grids import GOLD

Reader = Callable[[str], object]
LAYTON, RIDDLE = LaytonTask(TaskOptions("llm")), Item("i", "llm", "c", "Q?", (), ("hint",), "A", "J", "S")
ARGUMENTS: Mapping[str, dict[str, object]] = {
    "key_items_matching": {"key_items": [["a" * 50 + "b"], ["1"]]},
    "choices_matching": {"label": "A"},
    "ordered_list_matching": {"order": ["C", "D", "A", "B"]},
    "number_matching": {"value_to_match": 1},
    "location_matching": {"location_fine_grained": ["x"], "location_coarse_grained": ["a"]},
}


def rome(text: str) -> None:
    for rules in (published, reader):
        for evaluator, arguments in ARGUMENTS.items():
            assert rules.grade(evaluator, arguments, text).error is None  # type: ignore[attr-defined]
    judgement(text)


def layton(text: str) -> None:
    for finish in (FinishReason.STOP, FinishReason.LENGTH):
        said = Response("c", RequestOutcome.SUCCEEDED, text, finish)
        LAYTON.parse(RIDDLE, "m", said)
        LAYTON.parse_verdict("i", "m", "j", said)


def letters(text: str) -> None:
    for protocol in (ORIGINAL, CORRECTED):
        letter = read_letter(text, protocol, 25)
        assert letter is None or len(letter) == 1


def grids(text: str) -> None:
    for rules in PROTOCOLS.values():
        assert rules.grade(text, GOLD).score == 0.0


READERS: Mapping[str, Reader] = {"layton": layton, "mcq_idk": letters, "rome": rome, "zebralogic": grids}
PIECES: Mapping[str, tuple[str, ...]] = {
    "layton": (
        "{", "[", '{"answer":', '{"a":[', "[[", "```", "```json\n{", "</think>{", "{'", "}'", "\x00",
        '{"a":', '{"a": "', "is_answer_correct", '{"is_answer_correct": true, "is_justification_correct": true}',
    ),
    "mcq_idk": (
        "answer ", "answer: ", "Answer is ", "final answer ", "final answer is is ", "answer****",
        "answer: ((((((((((((", "answer: \\boxed{", "\\boxed{\\text{", "Answer: A or ", "Answer: A x ", "<think>",
        "</think>", "<think></think>", "<thi<think></think>", "###", "\n# A", "\nA", "choice ", "answer：Ａ ", "\0",
        "final answer" * 8 + " " * 400,
    ),
    "rome": (
        "\\boxed{", "Answer: ", "answer is ", "Answer (a", "# answer\n", "<answer>", "答案", "9", "1,",
        "1 234 ", "1.2.", "-", "one ", "one-", "一", "\\frac{", "1/", "10^", "A ", "A, ", "(A", "(A) ", "A.", "AB",
        "option A not ", "C, ", "1. C\n", "C\n\n", "then ", ": ", "a:\n\n", " ", "\n \n", "(\n", "*_", "**", "_a", "`",
        "```a\n", "$", "\\\\", "<i>", "<sup", "<|", "[INST]", "not a b ", "n't", "</think>", "aA", "\u0316\u0301",
        "Judgement: ", "100 of ", "3=4=",
    ),
    "zebralogic": (
        "{", "}", "{}", '{"', '{"a":x', '{"a":', "```json\n", "```\n\n\n\n\n", '"', '{"k":"{",1:,":"{", ', "{     ",
        '{"House 1": {"Name": "x"}} ', '{"a":"\\q",', "\ud800{",
    ),
}  # fmt: skip
"""By reader: what its patterns begin with, or go back over."""
SIZES = {"layton": 50_000, "mcq_idk": 50_000, "rome": 10_000, "zebralogic": 50_000}
LONGEST_SECONDS = 10.0
"""The slowest text of these sizes takes a second of an idle core; quadratic time would be minutes."""


RUNS: Mapping[str, tuple[str, ...]] = {
    "layton": ('{"answer": "' + "x" * 200_000, '{"answer": ' + '"' * 150_000, "{" + "}" * 190_000,
               '{"answer": "' + "\\" * 150_000, '{"answer": ' + "9" * 1_000_000 + "}"),
    "mcq_idk": ("answer" + " " * 1_000_000, "final answer" * 8 + " " * 1_000_000,
                "\\boxed" + " " * 500_000 + "{" + " " * 500_000, "\\boxed{" * 10_000 + "B" + "}" * 10_000),
    "rome": ("{" * 10_000 + "\\boxed{3}" + "}" * 10_000, "\\boxed{" * 20_000 + "3" + "}" * 20_000,
             "Answer:" + "\n \n" * 60_000 + "x", "answer" + " " * 200_000 + "is 3",
             "Answer: A and B" + ", A and B" * 20_000, "Answer: C, D, A, B" + "\n" * 200_000 + "x"),
    "zebralogic": ('{"a":' * 100_000 + "1" + "}" * 100_000, '{"a":' + "[" * 10_000 + "]" * 10_000 + "}",
                   '{"House 1": {"Name": ' + "[" * 980 + "]" * 980 + "}}", "```json" + "\n" * 100_000,
                   '{"' + '\\"' * 50_000, '{"' + "\\" * 100_000, '{"House 1": ' + "9" * 100_000 + "}",
                   '{"a":' * 900 + '{"k":[' + "1," * 50_000,
                   '{"a":' * 999 + '"k":1,' * 16_000 + '"z":' + '{"a":' * 3000, '{"house' + " " * 100_000 + '1": {}}',
                   "{" + '"House 1": {"Name": "x"}, ' * 4_000 + '"House 1": {}}'),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_bait_of_any_kind_deep_nesting_and_long_runs_are_read_in_linear_time(name: str) -> None:
    for text in (*(piece * (SIZES[name] // len(piece)) for piece in PIECES[name]), *RUNS[name]):
        began = time.process_time()
        READERS[name](text)
        assert time.process_time() - began < LONGEST_SECONDS, ascii(text[:40])
