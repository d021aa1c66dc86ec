"""Diagnostics of judges and juries equal the recorded ones; what the data cannot show is said, not estimated."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.gold import judged_of
from layton_batch.scoring.gold_file import read_gold
from layton_batch.scoring.judge_quality import Diagnosis, diagnose
from layton_batch.scoring.jury_board import JuryBoard
from layton_batch.scoring.rules import ScoringRules
from layton_batch.settings import Settings
from layton_batch.stats.distributions import jeffreys_interval
from tests.stats.boards import LAYTON, read_json
from tests.support.evidence import Judged, frames, judged_frame

METRICS = {
    "both_correct": "both_correct",
    "answer_correct": "is_answer_correct",
    "justification_correct": "is_justification_correct",
}
"""The recorded diagnostics' name of each metric."""


@cache
def real(metric: str) -> tuple[Diagnosis, dict[str, Any]]:
    """The diagnosis of the real verdicts, and the recorded one."""
    gold = read_gold(str(LAYTON / "ppi_llm.jsonl"), LAYTON, Settings.from_process(), keep_texts=False)
    diagnosis = diagnose(judged_of(gold, metric), JuryBoard(*frames([]), ScoringRules(metric=metric)))
    return diagnosis, read_json("diagnostics_llm.json")[f"llm/{METRICS[metric]}"]


def made(*answers: tuple[str, dict[str, bool], bool | None]) -> Diagnosis:
    """Of answers by (family, verdicts by judge, label)."""
    rows = [
        Judged(Entrant(f"{family}-1", family, 0), family, f"i{number}", verdicts, human)
        for number, (family, verdicts, human) in enumerate(answers)
    ]
    return diagnose(judged_frame(rows), JuryBoard(*frames([]), ScoringRules()))


@pytest.mark.shared_data
@pytest.mark.parametrize("metric", METRICS)
def test_judges_against_people_as_recorded(metric: str) -> None:
    diagnosis, recorded = real(metric)
    for finding in diagnosis.judges:
        report, want = finding.report, recorded["judges"][finding.judge]
        counts = (
            report.labels,
            report.true_positives,
            report.true_negatives,
            report.false_positives,
            report.false_negatives,
        )
        assert counts == tuple(want[k] for k in ("n", "tp", "tn", "fp", "fn"))
        ours = (report.accuracy, report.kappa, report.sensitivity, report.specificity)
        theirs = [want[name] for name in ("accuracy", "cohen_kappa", "sensitivity", "specificity")]
        assert ours == pytest.approx(theirs, abs=6e-5)
        assert report.leniency is not None
        assert 100 * report.leniency == pytest.approx(want["leniency_pts"], abs=0.0051)


@pytest.mark.shared_data
def test_accuracy_intervals_are_the_recorded_ones() -> None:
    ends = {finding.judge: (finding.report.lower, finding.report.upper) for finding in real("both_correct")[0].judges}
    recorded = {
        "mistral-large-2512": (0.974, 0.995),
        "claude-opus-4-5-20251101": (0.983, 0.998),
        "gpt-5.1-2025-11-13": (0.973, 0.995),
        "gemini-3-pro-preview": (0.976, 0.996),
    }
    assert ends.keys() == recorded.keys()
    for judge, interval in recorded.items():
        assert ends[judge] == pytest.approx(interval, abs=6e-4)


@pytest.mark.shared_data
@pytest.mark.parametrize("metric", METRICS)
def test_the_jury_as_recorded(metric: str) -> None:
    diagnosis, want = real(metric)
    jury, agree = diagnosis.jury, diagnosis.agreement
    assert jury.labels == want["n_labels"]
    ours = (jury.majority_accuracy, jury.majority_kappa)
    assert ours == pytest.approx([want["jury"][name] for name in ("majority_accuracy", "majority_kappa")], abs=6e-5)
    assert jury.bias is not None
    assert 100 * jury.bias == pytest.approx(want["jury"]["bias_pts"], abs=0.0051)
    assert {f"{b.yes / b.total:.4f}".rstrip("0"): [b.positives, b.labels] for b in diagnosis.bins} == {
        f"{float(k):.4f}".rstrip("0"): v for k, v in want["calibration"].items()
    }
    assert agree.items == want["agreement"]["items"]
    ours = (agree.unanimous, agree.fleiss_kappa, agree.krippendorff_alpha)
    names = ("unanimous_rate", "fleiss_kappa", "krippendorff_alpha")
    assert ours == pytest.approx([want["agreement"][name] for name in names], abs=6e-5)


@pytest.mark.shared_data
def test_what_the_jury_gets_wrong_is_listed_item_by_item() -> None:
    diagnosis, _ = real("answer_correct")
    mistakes = diagnosis.mistakes
    assert diagnosis.jury.majority_accuracy == pytest.approx(1 - len(mistakes) / diagnosis.jury.labels)
    assert [one.contested for one in mistakes] == sorted(one.contested for one in mistakes)
    assert [one.human for one in mistakes if not one.contested] == [False, False]  # two answers that all judges took


def test_leniency_by_family() -> None:
    diagnosis = made(
        ("a", {"owl": True, "hawk": True, "jay": False}, True),
        ("a", {"owl": True, "hawk": False}, False),
        ("b", {"owl": False, "hawk": False}, False),
        ("b", {"hawk": True, "jay": True}, None),
    )
    table = {
        (finding.judge, group.family): (group.labels, group.leniency)
        for finding in diagnosis.judges
        for group in finding.by_family
    }
    assert table == {
        ("owl", "a"): (2, 0.5), ("owl", "b"): (1, 0.0), ("hawk", "a"): (2, 0.0), ("hawk", "b"): (1, 0.0),
        ("jay", "a"): (1, -1.0),
    }  # fmt: skip


def test_verdicts_that_never_err_leave_an_error_open() -> None:
    (finding,) = made(*[("a", {"owl": True}, True)] * 50).judges
    assert finding.by_family[0].standard_error == pytest.approx(0.02, abs=0.002)


def test_what_is_undefined_is_none_and_never_nan() -> None:
    (silent,) = made(("a", {"owl": True}, None)).judges
    report = silent.report
    assert (report.labels, report.accuracy, report.lower, report.kappa, report.leniency) == (0, None, None, None, None)
    nobody = made(("a", {"owl": True}, None)).jury
    assert (nobody.labels, nobody.majority_accuracy, nobody.bias) == (0, None, None)
    flat = made(*[("a", {"owl": True}, True)] * 2).jury
    assert (flat.majority_accuracy, flat.majority_kappa, flat.bias) == (1.0, None, 0.0)
    assert [jeffreys_interval(0, 0), jeffreys_interval(5, 5)[1], jeffreys_interval(0, 5)[0]] == [(0.0, 1.0), 1.0, 0.0]


def test_three_of_three_and_two_of_two_are_two_votes() -> None:
    three, two = (dict.fromkeys(judges, True) for judges in (("owl", "hawk", "jay"), ("owl", "hawk")))
    neither = dict.fromkeys(two, False)
    bins = made(("a", three, True), ("a", three, True), ("a", two, False), ("a", two, True), ("a", neither, False)).bins
    assert [(b.yes, b.total, b.positives, b.labels) for b in bins] == [(0, 2, 0, 1), (2, 2, 1, 2), (3, 3, 2, 2)]
