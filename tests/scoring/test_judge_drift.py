"""Whether judges still judge as they did when people labelled: by the answers that they judged twice."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from layton_batch.scoring.board import rank_board
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.judge_quality import JudgeDrift, diagnose, is_drift
from layton_batch.scoring.judges_told import diagnosis_told
from layton_batch.scoring.jury_board import JuryBoard
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.distributions import exact_sign_test
from tests.support.evidence import Ballot, Judged, Label, Rows, frames, judged_frame

WHO = Entrant("finch", "birds", 0)


def judged(before: list[bool], now: list[bool]) -> pl.DataFrame:
    return judged_frame(
        [
            Judged(WHO, "birds", f"i{number}", {"owl": later}, human=None, recorded={"owl": first})
            for number, (first, later) in enumerate(zip(before, now, strict=True))
        ]
    )


def drift(before: list[bool], now: list[bool]) -> JudgeDrift:
    (found,) = diagnose(judged(before, now), JuryBoard(*frames([]), ScoringRules())).drift
    return found


@pytest.mark.parametrize("first", [0, 1, 3, 9])
@pytest.mark.parametrize("second", [0, 2, 8])
def test_the_p_value_is_that_of_the_exact_test(first: int, second: int) -> None:
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert exact_sign_test(first, second) == pytest.approx(expected)


def test_a_judge_that_became_stricter_is_named_with_its_counts() -> None:
    before, now = [True] * 80, [number >= 12 for number in range(80)]
    found = drift(before, now)
    assert (found.judge, found.answers, found.more_yes, found.fewer_yes) == ("owl", 80, 0, 12)
    assert found.p_value < 0.001
    (section,) = [
        one
        for one in diagnosis_told(diagnose(judged(before, now), JuryBoard(*frames([]), ScoringRules())))
        if one.key == "drift"
    ]
    assert "yes to 0 more and 12 fewer (p 0.000): its votes may not mean" in section.parts[0].text  # type: ignore[union-attr]


def test_where_nothing_is_seen_it_is_said_what_would_have_been() -> None:
    few, many = drift([True, False] * 10, [True, False] * 10), drift([True, False] * 200, [True, False] * 200)
    assert (few.p_value, many.p_value) == (1.0, 1.0)
    assert few.detectable > 3 * many.detectable > 0
    told = diagnosis_told(diagnose(judged([True] * 20, [True] * 20), JuryBoard(*frames([]), ScoringRules())))
    (section,) = [one for one in told if one.key == "drift"]
    assert "no drift; one of ±" in section.parts[0].text  # type: ignore[union-attr]


def test_nothing_is_said_of_drift_where_no_answer_was_judged_twice() -> None:
    rows = [Judged(WHO, "birds", "i1", {"owl": True}, human=None, recorded={"hawk": True})]
    found = diagnose(judged_frame(rows), JuryBoard(*frames([]), ScoringRules()))
    assert found.drift == ()
    assert "drift" not in {section.key for section in diagnosis_told(found)}


def test_the_detectable_shift_is_found_about_as_often_as_is_said() -> None:
    rng, answers, share = np.random.default_rng(7), 400, 0.08
    shift = drift([True] * answers, [number >= share * answers for number in range(answers)]).detectable
    up, down = (share - shift) / 2, (share + shift) / 2
    found = 0
    for _ in range(400):
        moved = rng.random(answers)
        found += exact_sign_test(int((moved < up).sum()), int((moved > 1 - down).sum())) <= 0.05
    assert 0.68 < found / 400 < 0.88  # the exact test is cautious, the shift is by the normal approximation


def changes(more: int, fewer: int, more_right: int, fewer_right: int) -> JudgeDrift:
    return JudgeDrift("owl", 60, more, fewer, more_right, fewer_right, 1.0, 0.1)


@pytest.mark.parametrize(
    ("drift", "expected"),
    [
        ([], False),
        ([changes(0, 0, 0, 0)], False),
        ([changes(3, 3, 3, 3)], False),
        ([changes(0, 12, 6, 6)], True),  # stricter
        ([changes(6, 6, 0, 12)], True),  # worse on right and on wrong answers alike
        ([changes(0, 3, 0, 3)], False),
        ([changes(0, 3, 0, 3)] * 3, True),  # all judges together
    ],
)
def test_judges_drifted_where_all_together_changed_one_way(drift: list[JudgeDrift], expected: bool) -> None:
    assert is_drift(drift) is expected


def test_a_board_of_judges_who_drifted_says_so_in_each_row_and_promises_less() -> None:
    ballots = [Ballot(WHO, f"i{number}", 3 * (number % 3 > 0), 3) for number in range(60)]
    labels = [Label(WHO, one.item_id, one.yes, one.total, one.yes == 3) for one in ballots[:20]]
    plain, drifted = (
        Rows(rank_board(JuryBoard(*frames(ballots, labels), ScoringRules(drifted=drifted))))[0]
        for drifted in (False, True)
    )
    assert "judges_drifted" in drifted.flags
    assert "judges_drifted" not in plain.flags
    assert drifted.this_set.half_width > plain.this_set.half_width
