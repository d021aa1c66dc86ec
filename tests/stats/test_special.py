"""The inverse of the incomplete beta function against scipy's and against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special as scipy_special

from layton_batch.stats.special import betaincinv, gammaln

RNG = np.random.default_rng(7)
A = np.concatenate([10 ** RNG.uniform(-0.7, 4, 800), [0.5, 0.5, 1.0, 2.0, 1e5]])
B = np.concatenate([10 ** RNG.uniform(-0.7, 4, 800), [0.5, 200.5, 1.0, 3.0, 1e5]])
U = RNG.uniform(0, 1, len(A))


def test_gammaln() -> None:
    x = np.concatenate([A, [1.0, 2.0, 0.5]])
    assert gammaln(x) == pytest.approx(scipy_special.gammaln(x), rel=1e-13, abs=2e-13)


def test_betaincinv_equals_scipy() -> None:
    for p in (np.array(0.025), np.array(0.975), U):
        assert betaincinv(A, B, p) == pytest.approx(
            scipy_special.betaincinv(A, B, np.broadcast_to(p, A.shape)), rel=1e-8
        )


def test_inverse_undoes_the_function() -> None:
    x = betaincinv(A, B, U)
    told = x < 1 - 1e-9  # nearer to 1, neighbouring floats differ in probability by more
    assert scipy_special.betainc(A, B, x)[told] == pytest.approx(U[told], abs=1e-9)
    assert told.mean() > 0.95


def test_closed_forms_and_ends() -> None:
    one = np.array([1.0])
    assert betaincinv(one, 3 * one, np.array([0.271])) == pytest.approx(1 - (1 - 0.271) ** (1 / 3), rel=1e-12)
    assert betaincinv(0.5 * one, 0.5 * one, np.array([0.1])) == pytest.approx(np.sin(0.05 * np.pi) ** 2, rel=1e-10)
    assert betaincinv(one, one, np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
