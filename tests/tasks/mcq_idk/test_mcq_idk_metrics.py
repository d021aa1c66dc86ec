"""Marks, means and standard errors, what abstaining is worth, and intervals."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from itertools import product
from math import comb, isclose

import numpy as np
import pytest

from layton_batch.tasks.mcq_idk_rules.metrics import (
    METRICS,
    UNREAD,
    AbstentionCounts,
    Estimate,
    McqGrade,
    McqOutcome,
    McqTally,
    best_of,
    intervals,
    mark,
    selective,
    share_bounds,
)

RIGHT, WRONG, ABSTAINED = McqGrade(1, 1, 0, 0), McqGrade(0, -1, 0, 0), McqGrade(0, 0, 1, 0)


def tally(marks: Iterable[McqGrade]) -> McqTally:
    result = McqTally()
    for one in marks:
        result.add(one)
    return result


def some_marks(n: int, seed: int = 0) -> list[McqGrade]:
    return random.Random(seed).choices([RIGHT, WRONG, ABSTAINED, UNREAD], [6, 3, 2, 1], k=n)


# ---- marks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letter", "n_options", "marks", "outcome"),
    [
        (None, 4, (0, -1, 0, 1), McqOutcome.NO_LETTER),
        ("B", 4, (1, 1, 0, 0), McqOutcome.CORRECT),
        ("A", 4, (0, -1, 0, 0), McqOutcome.WRONG),
        ("E", 4, (0, 0, 1, 0), McqOutcome.ABSTAINED),
        ("E", 10, (0, -1, 0, 0), McqOutcome.WRONG),
        ("K", 10, (0, 0, 1, 0), McqOutcome.ABSTAINED),
        ("F", 4, (0, -1, 0, 0), McqOutcome.WRONG),
        ("C", 2, (0, 0, 1, 0), McqOutcome.ABSTAINED),
    ],
)
def test_a_letter_gets_its_marks(
    letter: str | None, n_options: int, marks: tuple[int, ...], outcome: McqOutcome
) -> None:
    found = mark(letter, "B", n_options)
    assert found.values() == marks
    assert found.outcome is outcome


def test_of_several_replies_the_best_counts_and_only_all_unreadable_ones_are_unreadable() -> None:
    assert best_of([UNREAD, WRONG]) == WRONG
    assert best_of([WRONG, ABSTAINED]) == McqGrade(0, 0, 1, 0)
    assert best_of([UNREAD, ABSTAINED, RIGHT]) == McqGrade(1, 1, 1, 0)
    assert best_of([UNREAD, UNREAD]) == best_of([]) == UNREAD


@pytest.mark.parametrize("letter", [None, *"ABCDEFK"])
def test_a_single_letter_obeys_the_identity(letter: str | None) -> None:
    marks = mark(letter, "B", 4)
    assert marks.idk_score == 2 * marks.trad_score - 1 + marks.idk_freq


# ---- means ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 198, 619])
def test_means_and_standard_errors_are_the_samples(n: int) -> None:
    marks = some_marks(n)
    estimates = tally(marks).estimates()
    for i, name in enumerate(METRICS):
        values = np.array([one.values()[i] for one in marks], dtype=float)
        se = estimates[name].se
        assert estimates[name].mean == values.mean()
        assert se is not None
        assert isclose(se, values.std(ddof=1) / np.sqrt(n), abs_tol=1e-15)


def test_one_observation_has_no_standard_error_and_none_has_no_mean() -> None:
    assert tally([WRONG]).estimates()["idk_score"] == Estimate(-1.0, None)
    assert tally([]).estimates() == {}


# ---- abstaining ----------------------------------------------------------------------------------------------------


def test_the_abstention_aware_view_counts_what_was_answered() -> None:
    view = selective(tally([RIGHT] * 6 + [WRONG] * 2 + [ABSTAINED] * 3 + [UNREAD]))
    assert (view.correct, view.wrong, view.abstained, view.no_letter, view.n) == (6, 2, 3, 1, 12)
    assert (view.coverage, view.accuracy, view.risk) == (8 / 12, 6 / 8, 2 / 8)
    assert view.break_even_penalty == 6 / 3


def test_the_break_even_penalty_is_where_the_score_is_zero() -> None:
    view = AbstentionCounts(correct=6, wrong=2, abstained=3, no_letter=1)
    assert view.break_even_penalty is not None
    assert view.correct - view.break_even_penalty * (view.wrong + view.no_letter) == 0


def test_a_model_without_mistakes_breaks_even_at_no_penalty_and_one_without_answers_has_no_accuracy() -> None:
    assert AbstentionCounts(3, 0, 1, 0).break_even_penalty is None
    assert AbstentionCounts(0, 0, 4, 0).accuracy is AbstentionCounts(0, 0, 4, 0).risk is None
    assert AbstentionCounts(0, 0, 0, 0).coverage is None


# ---- intervals -----------------------------------------------------------------------------------------------------


def test_the_bootstrap_interval_is_close_to_the_normal_one_for_many_items() -> None:
    marks = some_marks(2_000)
    found, estimates = intervals(Counter(marks), seed=1), tally(marks).estimates()
    for name in METRICS:
        se = estimates[name].se or 0
        assert found[name][0] == pytest.approx(estimates[name].mean - 1.96 * se, abs=0.12 * se + 1e-3)
        assert found[name][1] == pytest.approx(estimates[name].mean + 1.96 * se, abs=0.12 * se + 1e-3)


def test_the_same_seed_gives_the_same_interval() -> None:
    counts = Counter(some_marks(5_000))
    assert intervals(counts, seed=3) == intervals(counts, seed=3) != intervals(counts, seed=4)


def test_where_all_items_agree_the_interval_is_exact_and_not_a_point() -> None:
    found = intervals({RIGHT: 10}, level=0.95)
    unseen = 1 - 0.025 ** (1 / 10)  # the Clopper-Pearson bound for 0 of 10
    assert found["trad_score"][0] == pytest.approx(1 - unseen)
    assert found["trad_score"][1] == 1
    assert found["idk_score"][0] == pytest.approx(1 - 2 * unseen)
    assert found["extract_fail"][0] == 0
    assert found["extract_fail"][1] == pytest.approx(unseen)
    assert intervals({}) == {}


def test_several_replies_never_beat_the_sum_of_their_parts() -> None:
    for letters in product("ABE", repeat=2):
        one, two = (mark(letter, "B", 4) for letter in letters)
        assert best_of([one, two]).idk_score == max(one.idk_score, two.idk_score)


# ---- exact bounds --------------------------------------------------------------------------------------------------


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
    view = AbstentionCounts(correct=60, wrong=20, abstained=15, no_letter=5)
    bounds = view.bounds()
    right, wrong, odds = bounds["accuracy_answered"], bounds["risk"], bounds["break_even_penalty"]
    assert right is not None
    assert wrong == pytest.approx((1 - (right[1] or 0), 1 - right[0]))
    assert odds is not None
    assert odds[0] < (view.break_even_penalty or 0) == 60 / 25 < (odds[1] or 0)


def test_without_mistakes_the_penalty_has_no_upper_bound_and_without_answers_none_at_all() -> None:
    faultless = AbstentionCounts(5, 0, 1, 0).bounds()["break_even_penalty"]
    assert faultless is not None
    assert faultless[0] > 0
    assert faultless[1] is None
    silent = AbstentionCounts(0, 0, 4, 0).bounds()
    assert [name for name, one in silent.items() if one is None] == ["accuracy_answered", "risk", "break_even_penalty"]
