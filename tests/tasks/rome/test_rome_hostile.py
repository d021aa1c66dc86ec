"""Text made to be slow or to crash takes time in proportion to its length, by every rule."""

from __future__ import annotations

import time

import pytest

from layton_batch.tasks.rome_rules.grades import PROTOCOLS
from layton_batch.tasks.rome_rules.judging import judgement, published_judgement
from tests.tasks.rome.grading import grade_answer

MEGABYTE, SECONDS = 1_000_000, 20.0
"""The slowest megabyte takes two seconds for all five rules."""
SHORT, SHORT_SECONDS = 20_000, 2.0
"""The slowest short text takes a fifteenth of a second; quadratic time would be ten seconds or more."""
GAP = 200_000
ARGUMENTS = {
    "key_items_matching": {"key_items": [["a" * 50 + "b"], ["1"]]},
    "choices_matching": {"label": "A"},
    "ordered_list_matching": {"order": ["C", "D", "A", "B"]},
    "number_matching": {"value_to_match": 1},
    "location_matching": {"location_fine_grained": ["x"], "location_coarse_grained": ["a"]},
}
PIECES = (
    "\\boxed{", "\\boxed{a}", "Answer: ", "answer is ", "Answer (a", "# answer\n", "<answer>", "答案", "9",
    "1,", "1 234 ",
    "1.2.", "-", "one ", "one-", "一", "\\frac{", "1/", "10^", "A ", "A, ", "(A", "(A) ", "A.", "AB",
    "A\n", "option A not ",
    "C, ", "1. C\n", "C\n\n", "then ", ": ", "is ", "a:\n\n", " ", "\n", "\n \n", ">", "(", "(\n", "*_",
    "**", "_a", "`",
    "```a\n", "$", "\\\\", "a\\", "<i>", "<sup", "<|", "[INST]", "not ", "not a b ", "n't", "</think>",
    "aA", "is not the ",
    "é ", "\u0316\u0301", "\u00bd", "\r\n", "\x00", "\ud800", "Judgement: ", "100 of ", "3=4=",
)  # fmt: skip


def seconds(text: str, protocol: str) -> float:
    began = time.process_time()
    for evaluator, arguments in ARGUMENTS.items():
        assert grade_answer(evaluator, arguments, text, protocol).error is None  # type: ignore[arg-type]
    published_judgement(text)
    judgement(text)
    return time.process_time() - began


@pytest.mark.parametrize("piece", PIECES, ids=ascii)
def test_bait_of_any_kind_is_graded_in_linear_time(piece: str) -> None:
    for protocol in PROTOCOLS:
        assert seconds(piece * (SHORT // len(piece)), protocol) < SHORT_SECONDS


@pytest.mark.nightly
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "piece", ["Answer: ", "\\boxed{", "1,", "not a b ", "\u0316\u0301", "(A) ", "1. C\n"], ids=ascii
)
def test_a_megabyte_of_the_worst_is_graded_in_seconds(piece: str, protocol: str) -> None:
    assert seconds(piece * (MEGABYTE // len(piece)), protocol) < SECONDS


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "text",
    [
        "{" * 10_000 + "\\boxed{3}" + "}" * 10_000,
        "\\boxed{" * 20_000 + "3" + "}" * 20_000,
        "Answer:" + "\n \n" * 60_000 + "x",
        "answer" + " " * GAP + "is 3",
        "Answer: " + "(" * GAP + "3",
        "Answer: A and B" + ", A and B" * 20_000,
        "Answer: C, D, A, B" + "\n" * GAP + "x",
    ],
    ids=["deep braces", "deep boxes", "empty lines", "blanks", "brackets", "a list", "a list and its end"],
)
def test_deep_nesting_and_long_gaps_are_no_trouble(text: str, protocol: str) -> None:
    assert seconds(text, protocol) < SHORT_SECONDS
