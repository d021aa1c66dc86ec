"""Exact laws of whole numbers, against independent sums."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from layton_batch.stats import distributions


def test_a_large_beta_binomial_keeps_its_digits() -> None:
    pmf = distributions.beta_binomial_pmf(np.array([100_000]), np.array([420.5]), np.array([3.5]))[0]
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    at = np.array([90_000, 99_000, 99_900, 100_000])
    assert pmf[at] == pytest.approx(stats.betabinom.pmf(at, 100_000, 420.5, 3.5), rel=1e-6)


def shortest_by_definition(p: np.ndarray, level: float) -> tuple[int, int]:
    best: tuple[int, float, int] | None = None
    for start in range(len(p)):
        for end in range(start, len(p)):
            mass = float(p[start : end + 1].sum())
            if mass >= level - 1e-12:
                key = (end - start, -round(mass, 11), start)
                best = min(best, key) if best else key
    assert best is not None
    first, last = best[2], best[2] + best[0]
    kept = [i for i in range(len(p)) if first <= i <= last or p[i] > p[first : last + 1].min() * (1 + 1e-9) + 1e-12]
    return kept[0], kept[-1]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.9999])
def test_the_shortest_set_is_the_shortest_that_leaves_out_nothing_likelier(level: float) -> None:
    rng = np.random.default_rng(2)
    pmf = np.concatenate([rng.dirichlet(np.full(12, c), 60) for c in (0.2, 1.0, 8.0)] + [np.full((1, 12), 1 / 12)])
    assert [distributions.shortest_set(law, level) for law in pmf] == [
        shortest_by_definition(law, level) for law in pmf
    ]


def test_levels_that_cannot_be_honoured_are_refused() -> None:
    for level in (0.0, 1.0, -0.1, 1.1, float("nan"), 1 - 1e-12):
        with pytest.raises(ValueError, match="level must lie"):
            distributions.check_level(level)
    distributions.check_level(1 - 1e-9)


def test_scipy_is_loaded_only_where_a_quantile_is_computed() -> None:
    program = "import sys, layton_batch.stages.rank, layton_batch.tasks.mcq_idk; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
