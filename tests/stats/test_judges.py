"""Diagnostics of judges and juries equal the recorded ones; what the data cannot show is said, not estimated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layton_batch.stats.judges import (
    calibration,
    jeffreys_interval,
    judge_reports,
    jury_errors,
    jury_report,
    leniency_by_group,
)
from layton_batch.stats.raters import agreement, cohen_kappa

from .boards import FIELDS, JUDGES, Board


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


@pytest.mark.shared_data
@pytest.mark.parametrize("field", FIELDS)
def test_judges_against_people_as_recorded(boards: dict[str, Board], diagnostics: dict[str, Any], field: str) -> None:
    board = boards[field]
    for report in judge_reports(board.verdicts, board.human):
        want = diagnostics[f"llm/{field}"]["judges"][JUDGES[report.judge]]
        counts = (
            report.labels,
            report.true_positives,
            report.true_negatives,
            report.false_positives,
            report.false_negatives,
        )
        assert counts == tuple(want[k] for k in ("n", "tp", "tn", "fp", "fn"))
        for ours, theirs in (
            (report.accuracy, "accuracy"),
            (report.kappa, "cohen_kappa"),
            (report.sensitivity, "sensitivity"),
            (report.specificity, "specificity"),
        ):
            assert ours == pytest.approx(want[theirs], abs=6e-5)
        assert report.leniency is not None
        assert 100 * report.leniency == pytest.approx(want["leniency_pts"], abs=0.0051)


@pytest.mark.shared_data
def test_accuracy_intervals_are_the_recorded_ones(boards: dict[str, Board]) -> None:
    board = boards["both_correct"]
    ours = {JUDGES[r.judge]: (r.lower, r.upper) for r in judge_reports(board.verdicts, board.human)}
    for judge, ends in {
        "mistral-large-2512": (0.974, 0.995),
        "claude-opus-4-5-20251101": (0.983, 0.998),
        "gpt-5.1-2025-11-13": (0.973, 0.995),
        "gemini-3-pro-preview": (0.976, 0.996),
    }.items():
        assert ours[judge] == pytest.approx(ends, abs=6e-4)


@pytest.mark.shared_data
@pytest.mark.parametrize("field", FIELDS)
def test_the_jury_as_recorded(boards: dict[str, Board], diagnostics: dict[str, Any], field: str) -> None:
    board, want = boards[field], diagnostics[f"llm/{field}"]
    report = jury_report(board.yes, board.total, board.human)
    assert report.labels == want["n_labels"]
    for ours, theirs in (
        (report.majority_accuracy, "majority_accuracy"),
        (report.majority_kappa, "majority_kappa"),
    ):
        assert ours == pytest.approx(want["jury"][theirs], abs=6e-5)
    assert report.bias is not None
    assert 100 * report.bias == pytest.approx(want["jury"]["bias_pts"], abs=0.0051)
    bins = calibration(board.yes, board.total, board.human)
    assert {f"{b.yes / b.total:.4f}".rstrip("0"): [b.positives, b.labels] for b in bins} == {
        f"{float(k):.4f}".rstrip("0"): v for k, v in want["calibration"].items()
    }


@pytest.mark.shared_data
@pytest.mark.parametrize("field", FIELDS)
def test_agreement_as_recorded(boards: dict[str, Board], diagnostics: dict[str, Any], field: str) -> None:
    board, want = boards[field], diagnostics[f"llm/{field}"]["agreement"]
    ours = agreement(board.yes, board.total)
    assert ours.items == want["items"]
    assert ours.unanimous == pytest.approx(want["unanimous_rate"], abs=6e-5)
    assert ours.fleiss_kappa == pytest.approx(want["fleiss_kappa"], abs=6e-5)
    assert ours.krippendorff_alpha == pytest.approx(want["krippendorff_alpha"], abs=6e-5)
    rows = board.human >= 0
    with_people = agreement(board.yes[rows] + board.human[rows], board.total[rows] + 1)
    assert with_people.krippendorff_alpha == pytest.approx(
        want["krippendorff_alpha_judges_and_human_on_labelled"], abs=6e-5
    )


@pytest.mark.shared_data
def test_what_the_jury_gets_wrong_is_listed_item_by_item(boards: dict[str, Board]) -> None:
    board = boards["is_answer_correct"]
    errors = jury_errors(board.yes, board.total, board.human)
    report = jury_report(board.yes, board.total, board.human)
    assert report.majority_accuracy == pytest.approx(1 - len(errors) / report.labels)
    assert [e.contested for e in errors] == sorted(e.contested for e in errors)
    assert [e.label for e in errors if not e.contested] == [0, 0]  # people refuse two answers all judges took


def test_leniency_by_provider() -> None:
    verdicts = np.array([[1, 1, 0], [1, 0, -1], [0, 0, -1], [-1, 1, 1]])
    human, group = ints(1, 0, 0, -1), ints(0, 0, 1, 1)
    table = {(r.judge, r.group): (r.count, r.mean) for r in leniency_by_group(verdicts, human, group)}
    assert table == {(0, 0): (2, 0.5), (0, 1): (1, 0.0), (1, 0): (2, 0.0), (1, 1): (1, 0.0), (2, 0): (1, -1.0)}


def test_agreement_on_a_worked_example() -> None:
    # Krippendorff (2011), binary data without gaps: two coders, ten units, alpha = 0.095
    first, second = ints(0, 1, 0, 0, 0, 0, 0, 0, 1, 0), ints(1, 1, 1, 0, 0, 1, 0, 0, 0, 0)
    ours = agreement(first + second, np.full(10, 2))
    assert ours.krippendorff_alpha == pytest.approx(0.095, abs=5e-4)
    assert ours.unanimous == 0.6
    assert cohen_kappa(first, second) == pytest.approx((0.6 - 0.56) / 0.44)


def test_undefined_coefficients_are_none_and_never_nan() -> None:
    always = agreement(ints(3, 3), ints(3, 3))
    assert (always.unanimous, always.fleiss_kappa, always.krippendorff_alpha) == (1.0, None, None)
    assert agreement(ints(1, 0), ints(1, 0)).items == 0
    assert cohen_kappa(ints(1, 1), ints(1, 1)) is None
    assert cohen_kappa(ints(), ints()) is None
    (silent,) = judge_reports(np.array([[-1], [-1]]), ints(1, 0))
    assert (silent.labels, silent.accuracy, silent.lower, silent.kappa, silent.leniency) == (0, None, None, None, None)
    nobody = jury_report(ints(1, 0), ints(3, 3), ints(-1, -1))
    assert (nobody.labels, nobody.majority_accuracy, nobody.bias) == (0, None, None)
    flat = jury_report(ints(3, 3), ints(3, 3), ints(1, 1))
    assert (flat.majority_accuracy, flat.majority_kappa, flat.bias) == (1.0, None, 0.0)
    lower, upper = jeffreys_interval(ints(0, 5, 0), ints(0, 5, 5))
    assert (lower.tolist()[0], upper.tolist()[0], upper[1], lower[2]) == (0.0, 1.0, 1.0, 0.0)


def test_three_of_three_and_two_of_two_are_two_votes() -> None:
    yes, total, human = np.array([3, 3, 2, 2, 0]), np.array([3, 3, 2, 2, 2]), np.array([1, 1, 0, 1, 0])
    bins = [(b.yes, b.total, b.positives, b.labels) for b in calibration(yes, total, human)]
    assert bins == [(0, 2, 0, 1), (2, 2, 1, 2), (3, 3, 2, 2)]
