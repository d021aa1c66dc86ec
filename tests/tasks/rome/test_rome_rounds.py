"""Rounds averaged as the report averages them."""

from __future__ import annotations

import math

import pytest

from layton_batch.errors import DataError
from layton_batch.tasks.rome_rules.grades import Rounds, over_rounds


def test_four_rounds_have_a_mean_and_a_sample_standard_deviation() -> None:
    rounds = Rounds.of([60.0, 62.0, 58.0, 64.0])
    assert rounds.mean == 61.0
    assert rounds.std == pytest.approx(math.sqrt(20 / 3))
    assert rounds.shown() == "61.00 ± 2.58"


def test_one_round_has_no_deviation_and_none_is_an_error() -> None:
    assert Rounds.of([50.0]).std is None
    assert Rounds.of([50.0]).shown(1) == "50.0"
    with pytest.raises(DataError, match="no rounds"):
        Rounds.of([])


def test_rounds_are_averaged_bucket_by_bucket_from_the_exact_sums() -> None:
    first = {"final_score": [2, 3], "accuracy": 66.667, "t": [2, 3, 0.667, {}]}
    second = {"final_score": [1, 3], "accuracy": 33.333, "t": [1, 3, 0.333, {}], "u": [0.5, 1, 0.5, {}]}
    found = over_rounds([first, second])
    assert list(found) == ["accuracy", "t", "u"]
    assert found["t"].values == pytest.approx((200 / 3, 100 / 3))
    assert found["accuracy"].mean == 50.0
    assert (found["u"].mean, found["u"].std) == (50.0, None)
    with pytest.raises(DataError, match="'x' is neither"):
        over_rounds([{"x": "high"}])
