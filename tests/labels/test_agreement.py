"""Agreement among people: against values of statsmodels, and where chance explains everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layton_batch.stats.raters import agreement, cohen_kappa, kappa
from tests.support.oracle_values import oracle_values


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def test_agreement_on_a_worked_example() -> None:
    # Krippendorff (2011), binary data without gaps: two coders, ten units, alpha = 0.095
    first, second = ints(0, 1, 0, 0, 0, 0, 0, 0, 1, 0), ints(1, 1, 1, 0, 0, 1, 0, 0, 0, 0)
    ours = agreement(first + second, np.full(10, 2))
    assert ours.krippendorff_alpha == pytest.approx(0.095, abs=5e-4)
    assert ours.unanimous == 0.6
    assert cohen_kappa(first, second) == pytest.approx((0.6 - 0.56) / 0.44)


@pytest.mark.parametrize("expected", oracle_values("cohen_kappa"))
def test_two_raters_have_cohen_s_kappa_and_its_interval(expected: dict[str, Any]) -> None:
    found = kappa(np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], np.ravel(expected["table"]), axis=0))
    assert found is not None
    assert (found.name, found.rated, found.raters) == ("Cohen", 60, 2)
    assert found.value == pytest.approx(expected["kappa"])
    assert [found.lower, found.upper] == pytest.approx(expected["interval"])


@pytest.mark.parametrize("expected", oracle_values("fleiss_kappa"))
def test_several_raters_have_fleiss_kappa(expected: dict[str, Any]) -> None:
    found = kappa(np.repeat(np.tri(5, 4, -1, dtype=np.int64), expected["items_by_yes"], axis=0))
    assert found is not None
    assert found.value == pytest.approx(expected["kappa"])
    assert found.lower < found.value < found.upper  # type: ignore[operator]


def test_the_interval_of_fleiss_kappa_holds_the_truth_about_as_often_as_it_says() -> None:
    rng, hits = np.random.default_rng(1), 0
    truth_kappa = (1 - 2 * 0.2) ** 2  # of raters who each err with probability 0.2 on balanced items
    for _ in range(300):
        truth = rng.integers(0, 2, (80, 1))
        found = kappa(np.where(rng.random((80, 3)) < 0.2, 1 - truth, truth))
        assert found is not None
        hits += found.lower <= truth_kappa <= found.upper  # type: ignore[operator]
    assert hits >= 0.91 * 300


@pytest.mark.parametrize("raters", [2, 3])
@pytest.mark.parametrize(("marks", "value"), [((1, 1, 1, 1, 1), None), ((1, 0, 1), 1.0)])
def test_raters_in_full_agreement_have_no_interval_and_without_a_difference_no_kappa(
    raters: int, marks: tuple[int, ...], value: float | None
) -> None:
    found = kappa(np.repeat(np.array(marks)[:, None], raters, axis=1))
    assert found is not None
    assert (found.agreement, found.value, found.lower) == (1.0, value, None)


def test_undefined_coefficients_are_none_and_never_nan() -> None:
    always = agreement(ints(3, 3), ints(3, 3))
    assert (always.unanimous, always.fleiss_kappa, always.krippendorff_alpha) == (1.0, None, None)
    assert agreement(ints(1, 0), ints(1, 0)).items == 0
    assert cohen_kappa(ints(1, 1), ints(1, 1)) is None
    assert cohen_kappa(ints(), ints()) is None
