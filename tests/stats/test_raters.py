"""Agreement of raters beyond chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layton_batch.stats.raters import agreement, cohen_kappa


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


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
