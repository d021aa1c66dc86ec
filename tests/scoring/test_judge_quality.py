"""Diagnostics of judges and juries equal the recorded ones; what the data cannot show is not estimated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import layton_batch as lb
from layton_batch.scoring.board import rank_board
from layton_batch.scoring.boards import JuryBoard
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.judge_quality import JudgeDrift, drift_of, is_drift
from layton_batch.scoring.leaderboard import ScoringRules
from layton_batch.stats.distributions import exact_sign_test
from tests.scoring.gold_tables import Answer, gold_table
from tests.stats.boards import LAYTON, read_json
from tests.support.evidence import Ballot, Label, Rows, frames

METRICS = {
    "both_correct": "both_correct",
    "answer_correct": "is_answer_correct",
    "justification_correct": "is_justification_correct",
}
"""The recorded diagnostics' name of each metric."""
ACCURACY = {
    "mistral-large-2512": (0.974, 0.995),
    "claude-opus-4-5-20251101": (0.983, 0.998),
    "gpt-5.1-2025-11-13": (0.973, 0.995),
    "gemini-3-pro-preview": (0.976, 0.996),
}
"""Recorded ends of the accuracy's interval on `both_correct`."""


Diagnosis = Mapping[str, Any]


@cache
def real(metric: str) -> tuple[Diagnosis, dict[str, Any]]:
    """The diagnosis of the real verdicts, and the recorded one."""
    found: Any = lb.judges(str(LAYTON / "ppi_llm.jsonl"), metric=metric).as_json()
    return found, read_json("diagnostics_llm.json")[f"llm/{METRICS[metric]}"]


def made(*answers: tuple[str, dict[str, bool], bool | None], items: int = 1000) -> Diagnosis:
    """The diagnosis of answers by (family, verdicts by judge, label), which are to so many items at most."""
    table = gold_table([
        Answer(Entrant(f"{family}-{number // items}", family, 0), f"i{number % items}", verdicts, human)
        for number, (family, verdicts, human) in enumerate(answers)
    ])  # fmt: skip
    found: Any = lb.judges(table).as_json()
    return found  # type: ignore[no-any-return]


# ---- as recorded ---------------------------------------------------------------------------------------------------


@pytest.mark.shared_data
@pytest.mark.parametrize("metric", METRICS)
def test_judges_and_jury_against_people_as_recorded(metric: str) -> None:
    diagnosis, recorded = real(metric)
    for finding in diagnosis["judges"]:
        report, want = finding["report"], recorded["judges"][finding["judge"]]
        names = ("labels", "true_positives", "true_negatives", "false_positives", "false_negatives")
        assert [report[name] for name in names] == [want[name] for name in ("n", "tp", "tn", "fp", "fn")]
        ours = [report[name] for name in ("accuracy", "kappa", "sensitivity", "specificity")]
        theirs = [want[name] for name in ("accuracy", "cohen_kappa", "sensitivity", "specificity")]
        assert ours == pytest.approx(theirs, abs=6e-5)
        assert 100 * report["leniency"] == pytest.approx(want["leniency_pts"], abs=0.0051)
        if metric == "both_correct":
            assert (report["lower"], report["upper"]) == pytest.approx(ACCURACY[finding["judge"]], abs=6e-4)
    jury, agree = diagnosis["jury"], diagnosis["agreement"]
    assert (jury["labels"], agree["items"]) == (recorded["n_labels"], recorded["agreement"]["items"])
    for name in ("majority_accuracy", "majority_kappa"):
        assert jury[name] == pytest.approx(recorded["jury"][name], abs=6e-5)
    for name, theirs_is in (("unanimous", "unanimous_rate"), ("fleiss_kappa",) * 2, ("krippendorff_alpha",) * 2):
        assert agree[name] == pytest.approx(recorded["agreement"][theirs_is], abs=6e-5)
    assert 100 * jury["bias"] == pytest.approx(recorded["jury"]["bias_pts"], abs=0.0051)
    rates = {f"{b['yes'] / b['total']:.4f}".rstrip("0"): [b["positives"], b["labels"]] for b in diagnosis["bins"]}
    assert rates == {f"{float(k):.4f}".rstrip("0"): v for k, v in recorded["calibration"].items()}


@pytest.mark.shared_data
def test_what_the_jury_gets_wrong_is_listed_item_by_item() -> None:
    diagnosis, _ = real("answer_correct")
    mistakes, jury = diagnosis["mistakes"], diagnosis["jury"]
    assert jury["majority_accuracy"] == pytest.approx(1 - len(mistakes) / jury["labels"])
    contested = [mistake["contested"] for mistake in mistakes]
    assert contested == sorted(contested)
    # two answers that all judges took
    assert [mistake["human"] for mistake in mistakes if not mistake["contested"]] == [False, False]


# ---- made up -------------------------------------------------------------------------------------------------------


def test_leniency_by_family() -> None:
    diagnosis = made(
        ("a", {"owl": True, "hawk": True, "jay": False}, True),
        ("a", {"owl": True, "hawk": False}, False),
        ("b", {"owl": False, "hawk": False}, False),
        ("b", {"hawk": True, "jay": True}, None),
    )
    table = {
        (finding["judge"], group["family"]): (group["labels"], group["leniency"])
        for finding in diagnosis["judges"]
        for group in finding["by_family"]
    }
    assert table == {
        ("owl", "a"): (2, 0.5), ("owl", "b"): (1, 0.0), ("hawk", "a"): (2, 0.0), ("hawk", "b"): (1, 0.0),
        ("jay", "a"): (1, -1.0),
    }  # fmt: skip
    (finding,) = made(*[("a", {"owl": True}, True)] * 50)["judges"]  # verdicts that never err leave an error open
    assert finding["by_family"][0]["standard_error"] == pytest.approx(0.02, abs=0.002)


def test_answers_to_one_item_count_as_one_piece_of_evidence() -> None:
    def half_width(items: int) -> float:
        answers = [("acme", {"owl": True}, number % 5 > 0) for number in range(100)]
        (found,) = made(*answers, items=items)["jury_by_family"]
        assert (found["labels"], found["leniency"]) == (100, pytest.approx(0.2))
        return float(found["half_width"])

    assert half_width(5) > 3 * half_width(100)


# ---- drift ---------------------------------------------------------------------------------------------------------

WHO = Entrant("finch", "birds", 0)


def judged_again(before: list[bool], now: list[bool]) -> JudgeDrift:
    pairs = {"judge": ["owl"] * len(now), "recorded": before, "verdict": now, "human": [None] * len(now)}
    (found,) = drift_of(pl.DataFrame(pairs, schema_overrides={"human": pl.Boolean}), 0.95)
    return found


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 2), (1, 0), (3, 8), (9, 8)])
def test_the_p_value_is_that_of_the_exact_test(first: int, second: int) -> None:
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert exact_sign_test(first, second) == pytest.approx(expected)


def test_a_judge_that_became_stricter_is_named_with_its_counts() -> None:
    found = judged_again([True] * 80, [number >= 12 for number in range(80)])
    assert (found.judge, found.answers, found.more_yes, found.fewer_yes) == ("owl", 80, 0, 12)
    assert found.p_value < 0.001


def test_the_detectable_shift_is_found_about_as_often_as_is_told() -> None:
    rng, answers, share = np.random.default_rng(7), 400, 0.08
    drift = judged_again([True] * answers, [number >= share * answers for number in range(answers)])
    up, down = (share - drift.detectable) / 2, (share + drift.detectable) / 2
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
    labels = [Label(WHO, ballot.item_id, ballot.yes, ballot.total, ballot.yes == 3) for ballot in ballots[:20]]
    plain, drifted = (
        Rows(rank_board(JuryBoard(*frames(ballots, labels), ScoringRules(drifted=drifted))))[0]
        for drifted in (False, True)
    )
    assert [row.flags.count("judges_drifted") for row in (plain, drifted)] == [0, 1]
    assert drifted.this_set.half_width > plain.this_set.half_width
