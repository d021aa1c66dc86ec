"""The published evaluators' anomalies, one by one: whoever reproduces published figures gets them all."""

from __future__ import annotations

import pytest

from layton_batch.records import JsonValue
from layton_batch.tasks.rome.published import grade, letters_of, prepare


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Final Answer: A", "A"),
        ("final answer: A", "final answer: A"),
        ("**Final Answer**: X", "**: X"),
        ("Answer: 1 Answer: 2", "2"),
        ("A. (Answered with care)", "ed with care)"),
        ("最终答案：甲", "甲"),
        ("Answer 答案：甲", "答案：甲"),
        ("\\boxed{\\text{A}}", "\\text{A"),
        ("\\boxed{} \\boxed{ B }", "B"),
        ("\\boxed{open", "\\boxed{open"),
        ("Final Answer: $\\boxed{42}$", "$\\boxed{42}$"),
        ("5\u20136 \u2032 \u2009x \u2014", "5-6 '  x \u2014"),
    ],
)
def test_the_answer_is_prepared_as_published(reply: str, answer: str) -> None:
    assert prepare(reply) == answer


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("B (Paris)", "BP"),
        ("D. Paris", "D"),
        ("The D", "D"),
        ("INST", ""),
        ("<Img>A.", "A"),
        ("option is A or answer is B", "B"),
        ("选择A，故选B", "B"),
    ],
)
def test_letters_are_whatever_capitals_are_left(text: str, letters: str) -> None:
    assert letters_of(text) == letters


@pytest.mark.parametrize(("evaluator", "reply", "arguments", "score"), [
    # key items are substrings, and the first element decides their form
    ("key_items", "Prometheus", {"key_items": [["Rome"]]}, 1),
    ("key_items", "a\tb", {"key_items": [["a b"]], "remove_space": True}, 0),
    ("key_items", "b", {"key_items": ["a", "b"]}, 1), ("key_items", "b", {"key_items": [["a"], ["b"]]}, 0),
    # one label is compared with the first letter, several with the sorted set
    ("choices", "A, C", {"label": "A"}, 1), ("choices", "C, A, A", {"label": "ac"}, 1),
    ("choices", "A, C", {"label": "A,C"}, 0), ("choices", "a", {"label": "A"}, 0), ("choices", "T", {"label": "T"}, 0),
    # a list is a subsequence of characters
    ("ordered_list", "Can do, all by", {"order": ["C", "D", "A", "B"]}, 0),
    ("ordered_list", "Cold, dry, arid, bare", {"order": ["C", "D", "A", "B"]}, 1),
    ("ordered_list", "C > D", {"order": ["C", "D"]}, 0), ("ordered_list", "C > D", {"order": "CD"}, 1),
    # the last number counts, and the type of the gold sets the tolerance
    ("number", "10-20", {"value_to_match": -20}, 1), ("number", "1,234", {"value_to_match": 234}, 1),
    ("number", "3.2", {"value_to_match": 3.0}, 1), ("number", "3.2", {"value_to_match": 3}, 0),
    ("number", "0", {"value_to_match": 0.0}, 0), ("number", "٣", {"value_to_match": 3}, 1),
    ("number", "none", {"value_to_match": 3}, 0),
    # a location given as a text counts letter by letter
    ("location", "Lapland", {"location_fine_grained": "Paris"}, 1.0),
    ("location", "Oslo", {"location_fine_grained": ["Oslo"], "fine_grained_score": 2}, 2),
    ("location", "Norway", {"location_fine_grained": ["Oslo"], "location_coarse_grained": ["Norway"]}, 0.5),
])  # fmt: skip
def test_each_evaluator_counts_as_published(
    evaluator: str, reply: str, arguments: dict[str, JsonValue], score: float
) -> None:
    mark = grade(f"{evaluator}_matching", arguments, reply)
    assert (mark.score, mark.error) == (score, None)


@pytest.mark.parametrize(
    ("evaluator", "arguments", "error"),
    [
        ("key_items_matching", {"key_items": []}, "IndexError"),
        ("key_items_matching", {"key_items": [5]}, "ValueError"),
        ("key_items_matching", {"key_items": [["a"], "a"]}, "AssertionError"),
        ("key_items_matching", {}, "TypeError"),
        ("choices_matching", {"label": 5}, "AttributeError"),
        ("ordered_list_matching", {"order": [1, 2]}, "TypeError"),
        ("number_matching", {"value_to_match": "42"}, "TypeError"),
        ("number_matching", {"value_to_match": 10**400}, "OverflowError"),
        ("location_matching", {"location_fine_grained": ["a"], "fine_grained_score": "x"}, "TypeError"),
        ("interval_matching", {}, "NameError"),
        ("telepathy", {}, "ValueError"),
    ],
)
def test_where_the_published_code_crashes_there_is_a_zero_and_the_exceptions_name(
    evaluator: str, arguments: dict[str, JsonValue], error: str
) -> None:
    mark = grade(evaluator, arguments, "a 42")
    assert (mark.score, (mark.error or "").partition(":")[0]) == (0, error)
