"""Exact bounds of what abstaining is worth; and what ends a reply, and options of one text, in predictions."""

from __future__ import annotations

from math import comb

import pytest

from layton_batch.tasks.mcq_idk_rules.metrics import Selective, share_bounds
from tests.tasks.offline_rows import form, grade_rows


def at_least(count: int, n: int, share: float) -> float:
    """The chance of ``count`` or more of ``n``, summed term by term."""
    return sum(comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(count, n + 1))


@pytest.mark.parametrize(("count", "n"), [(0, 5), (1, 1), (3, 7), (7, 7), (90, 198), (198, 198), (1, 400)])
def test_the_bounds_are_where_the_binomial_tails_hold_half_of_what_is_left(count: int, n: int) -> None:
    bounds = share_bounds(count, n, 0.9)
    assert bounds is not None
    lower, upper = bounds
    assert lower <= count / n <= upper
    assert at_least(count, n, lower) == pytest.approx(0.05 if count else 1.0, abs=1e-9)
    assert 1 - at_least(count + 1, n, upper) == pytest.approx(0.05 if count < n else 1.0, abs=1e-9)


def test_the_bounds_of_a_great_many_are_narrow_and_of_none_are_not_there() -> None:
    lower, upper = share_bounds(50_000, 100_000) or (0, 1)
    assert (round(lower, 4), round(upper, 4)) == (0.4969, 0.5031)
    assert share_bounds(0, 0) is None


def test_risk_and_accuracy_have_mirrored_bounds_and_the_penalty_the_odds() -> None:
    view = Selective(correct=60, wrong=20, abstained=15, no_letter=5)
    bounds = view.bounds()
    right, wrong, odds = bounds["accuracy_answered"], bounds["risk"], bounds["break_even_penalty"]
    assert right is not None
    assert wrong == pytest.approx((1 - (right[1] or 0), 1 - right[0]))
    assert odds is not None
    assert odds[0] < (view.break_even_penalty or 0) == 60 / 25 < (odds[1] or 0)


def test_without_mistakes_the_penalty_has_no_upper_bound_and_without_answers_none_at_all() -> None:
    faultless = Selective(5, 0, 1, 0).bounds()["break_even_penalty"]
    assert faultless is not None
    assert faultless[0] > 0
    assert faultless[1] is None
    silent = Selective(0, 0, 4, 0).bounds()
    assert [name for name, one in silent.items() if one is None] == ["accuracy_answered", "risk", "break_even_penalty"]


@pytest.mark.parametrize(("protocol", "right"), [("corrected", 1), ("original", 2)])
def test_a_refusal_answers_nothing_in_the_corrected_protocol_alone(protocol: str, right: int) -> None:
    rows = [
        {"item_id": f"q{i}", "gold": "A", "response": "Answer: A", "finish_reason": reason}
        for i, reason in enumerate(("stop", "refusal"))
    ]
    assert grade_rows(form("mcq_idk", protocol), None, rows).tally.sums[0] == right


@pytest.mark.parametrize(("protocol", "right"), [("corrected", 2), ("original", 1)])
def test_of_two_options_of_one_text_the_original_knows_one(protocol: str, right: int) -> None:
    items = [{"item_id": "q", "gold": "A", "options": ["same", "other", "same"]}]
    rows = [{"item_id": "q", "response": f"Answer: {letter}"} for letter in "ABC"]
    assert grade_rows(form("mcq_idk", protocol), items, rows).tally.sums[0] == right
