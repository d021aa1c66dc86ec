"""The corrected number rule: what counts as a number, which of several is meant, and when it is near enough."""

from __future__ import annotations

import math

import pytest

from layton_batch.tasks.rome_rules.characters import spelled
from layton_batch.tasks.rome_rules.numerals import number_words, numerals
from layton_batch.tasks.rome_rules.quantity import gold_number, matches
from layton_batch.tasks.rome_rules.statement import plain
from tests.tasks.rome.grading import grade_answer


def values(text: str) -> list[tuple[float, ...]]:
    return [one.values for one in numerals(plain(spelled(text)))]


def right(reply: str, gold: object) -> bool:
    mark = grade_answer("number_matching", {"value_to_match": gold}, reply)  # type: ignore[dict-item]
    assert mark.error is None
    return bool(mark.score)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3), ("+3", 3), ("- 7", -7), ("−7", -7), ("minus 7", -7), ("负7", -7), ("零下5", -5), ("is -7", -7),
        ("(-7)", -7), ("42.", 42), (".5", 0.5), ("-.5", -0.5), ("1,234", 1234), ("1 234", 1234), ("1\u202f234", 1234),
        ("1'234", 1234), ("1_500", 1500), ("1.234.567", 1234567), ("1.234.567,89", 1234567.89), ("12,34,567", 1234567),
        ("1,5", 1.5), ("0,123", 0.123), ("1e6", 1e6), ("1.234e3", 1234), ("10^6", 1e6), ("10**6", 1e6), ("10⁶", 1e6),
        ("10⁻³", 1e-3), ("6.02 \\times 10^{23}", 6.02e23), ("6.02x10^23", 6.02e23), ("2^10", 1024), ("1/2", 0.5),
        ("22/7", 22 / 7), ("½", 0.5), ("1½", 1.5), ("1 1/2", 1.5), ("\\frac{1}{2}", 0.5), ("-\\dfrac{3}{4}", -0.75),
        ("\\frac12", 0.5), ("1\\frac{1}{2}", 1.5), ("π", math.pi), ("2\\pi", 2 * math.pi), ("π/2", math.pi / 2),
        ("\\frac{\\pi}{2}", math.pi / 2), ("\\sqrt{2}", math.sqrt(2)), ("2√3", 2 * math.sqrt(3)),
        ("1.2 million", 1.2e6),
        ("1.5万", 15000), ("3亿", 3e8), ("2 dozen", 24), ("$12.50", 12.5), ("USD12", 12), ("共3个", 3), ("１２", 12),
        ("٤٢", 42), ("12 km2", 12), ("12 m^2", 12), ("12 m²", 12), ("x_1 = 5", 5), ("x_{12}=5", 5), ("3rd", 3),
        ("100,000 km/h", 100000), ("x1: 5", 5),
    ],
)  # fmt: skip
def test_a_number_is_read_in_any_of_its_forms(text: str, value: float) -> None:
    found = values(text)
    assert len(found) == 1
    assert found[0][0] == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    ["2024-05-01", "05/06/2024", "12:30", "1:2", "1.2.12", "v1.2.12", "H2O", "a12b", "COVID-19", "1e400", "9" * 400],
)
def test_what_only_looks_like_a_number_is_none(text: str) -> None:
    assert values(text) == []


def test_percent_and_letters_of_scale_may_be_read_in_two_ways() -> None:
    assert values("50%") == [(50.0, 0.5)]
    assert values("3k") == [(3.0, 3000.0)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("three", 3), ("minus three", -3), ("twenty-one", 21), ("two hundred and five", 205), ("a dozen", 12),
        ("two dozen", 24), ("half", 0.5), ("three quarters", 0.75), ("two-thirds", 2 / 3), ("one and a half", 1.5),
        ("three point one four", 3.14), ("one million two hundred thousand", 1_200_000), ("twelve hundred", 1200),
        ("十二", 12), ("一百二十", 120), ("两万三千", 23000), ("二〇二四", 2024), ("负三", -3),
        ("三点一四", 3.14), ("一亿", 1e8),
    ],
)  # fmt: skip
def test_numbers_in_words_are_read(text: str, value: float) -> None:
    assert [one.values[0] for one in number_words(text)] == [pytest.approx(value)]


@pytest.mark.parametrize("text", ["this one", "the third", "none", "tone", "sevenths"])
def test_words_that_are_no_numbers_are_passed_over(text: str) -> None:
    assert list(number_words(text)) == []


@pytest.mark.parametrize(
    "reply",
    [
        "There are 7 birds.", "I see 3 on the left, 4 on the right: 7 in total", "Total = 3 + 4 = 7", "seven", "七",
        "Final Answer: 7 (3 red and 4 blue)", "Final Answer: 7 of the 10 birds", "7 (out of 10)", "7 out of 10",
        "Final Answer: There are 3 red and 4 blue, so 7", "Final Answer: 7 birds are in 2 rows", "7, not 8.",
        "The answer is 7, not 8.", "I counted 7. I am 90% sure.", "Final Answer: seven (7)", "7 ± 0.5",
        "Step 1. Look. Final Answer: 7. Step 2", "The number is 7 since 3 + 4 is that", "**Final Answer**\n\n7",
        "Answer:\n\nThe total is:\n\n**7**", "Let me count: 1, 2, 3, 4, 5, 6, 7. So there are 7.", "约7个", "x=7",
    ],
)  # fmt: skip
def test_the_number_that_is_meant_is_found(reply: str) -> None:
    assert right(reply, 7)


@pytest.mark.parametrize(
    "reply",
    [
        "", "unknown", "Infinity", "8", "-7", "3 + 4", "7-8", "7 to 9", "between 7 and 9", "7 or 8", "x = 7 or x = 8",
        "Final Answer: 7, 8", "Final Answer: not 7", "Final Answer: >7", "more than 7",
        "Final Answer: 7/10", "H7", "VII",
        "Final Answer: 8\n\nI first thought of 7", "\\boxed{8}, though some say 7",
    ],
)  # fmt: skip
def test_other_numbers_ranges_and_alternatives_are_wrong(reply: str) -> None:
    assert not right(reply, 7)


def test_the_type_of_the_gold_value_sets_the_tolerance() -> None:
    assert right("7.0009", 7)
    assert not right("7.01", 7)
    assert right("7.6", 7.0)
    assert not right("7.8", 7.0)
    assert right("0.0", 0.0)
    assert not right("0.05", 0.0)
    assert matches(90.01, 100.0)
    assert not matches(90, 100.0)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("3 rows of 4 make 12.", 12),
        ("Answer: 3 rows of 4 make a total of 12", 12),
        ("Answer: 12, which makes 3 rows of 4", 12),
        ("There are 12 in total: 3 rows of 4", 12),
        ("So it makes 12 apples in all from 3 rows of 4", 12),
        ("Answer: half a dozen", 6),
        ("Answer: half a million", 500_000),
        ("Answer: a quarter of a million", 250_000),
        ("Answer: two and a half million", 2_500_000),
    ],
)
def test_what_numbers_come_to_counts_and_not_the_numbers(reply: str, value: int) -> None:
    assert right(reply, value)
    assert not right(reply, 3)
    assert not right(reply, 4)


def test_nothing_counted_is_zero() -> None:
    assert right("There are none.", 0)
    assert not right("There are none.", 1)


@pytest.mark.parametrize(("gold", "value"), [("42", 42), (" 1e3 ", 1000.0), (3, 3), (2.5, 2.5)])
def test_gold_numbers_written_as_text_are_numbers(gold: object, value: float) -> None:
    assert gold_number(gold) == value
    assert type(gold_number(gold)) is type(value)


@pytest.mark.parametrize("gold", ["x", "", True, None, [3], math.nan, math.inf, "1e999", 10**400])
def test_other_gold_values_cannot_be_graded_by(gold: object) -> None:
    mark = grade_answer("number_matching", {"value_to_match": gold}, "3")  # type: ignore[dict-item]
    assert (mark.score, mark.error) == (0, "value_to_match must be a finite number")
