"""One row for a model that was asked several times: the mean of its samples, whose items are clusters."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from layton_batch.grading.submissions import GradedModel, ranked
from layton_batch.scoring.board import rank_marks
from layton_batch.scoring.boards import RuleBoard
from layton_batch.scoring.leaderboard import ScoringRules
from tests.support.evidence import Rows, changed, marks_frame

RULES = ScoringRules(metric="accuracy")


def rounds_of(model: str, share: float, seed: int, samples: int = 4) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    return [(rng.random(60) < share).astype(float).tolist() for _ in range(samples)]


def frame_of(model: str, rounds: Sequence[Sequence[float]], strata: Sequence[str] = ()) -> pl.DataFrame:
    """The marks of a model's samples."""
    return pl.concat(
        marks_frame(model, marks, failures=["" if mark == 1 else "wrong_answer" for mark in marks], strata=strata,
                    sample=sample)
        for sample, marks in enumerate(rounds, 1)
    )  # fmt: skip


def ranked_rounds(rounds: Sequence[Sequence[float]], strata: Sequence[str] = ()) -> SimpleNamespace:
    """The row of one model that was asked several times."""
    (row,) = Rows(rank_marks(RuleBoard(frame_of("larch", rounds, strata), RULES)))
    return row


def half_width(row: SimpleNamespace) -> float:
    return float(row.upper - row.lower)


def test_four_samples_have_the_mean_and_the_deviation_of_romes_four_rounds() -> None:
    found = rounds_of("larch", 0.6, 3)
    row = ranked_rounds(found)
    published = [round(fmean(one) * 100, 3) for one in found]
    assert row.rounds == 4
    assert row.score == pytest.approx(fmean(published), abs=0.051)
    assert row.round_sd == pytest.approx(stdev(published), abs=0.002)


def test_samples_that_say_the_same_make_no_interval_narrower_and_samples_that_differ_do() -> None:
    one = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]
    alone, thrice = ranked_rounds([one]), ranked_rounds([one] * 3)
    assert changed(thrice, rounds=None, round_sd=None, failures=alone.failures) == alone
    assert (thrice.rounds, thrice.round_sd, thrice.failures) == (3, 0.0, {"wrong_answer": 6})
    found = rounds_of("larch", 0.6, 5)
    assert half_width(ranked_rounds(found)) < half_width(ranked_rounds(found[:1]))


def test_strata_of_items_reach_the_board_through_samples_and_through_files_of_predictions() -> None:
    """Every item of the easy kind is right and none of the other: on new items of both kinds, half are."""
    marks, strata = [1.0, 0.0] * 20, ["easy", "hard"] * 20
    row = ranked_rounds([marks] * 2, strata)
    assert half_width(row) < 0.4 * half_width(ranked_rounds([marks]))
    graded = GradedModel("larch", "a file", "p", marks=frame_of("larch", [marks], strata))
    (again,) = Rows(ranked([graded], "accuracy")[0])
    assert (again.lower, again.upper) == (row.lower, row.upper)
