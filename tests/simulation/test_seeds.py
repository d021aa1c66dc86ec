"""Histories drawn from seeds: stops, lost replies, delays, failures, reordering, one program or two."""

from __future__ import annotations

import pytest

from tests.simulation.histories import plan_of, play

CHUNK = 12


@pytest.mark.parametrize("first", range(0, 7 * CHUNK, CHUNK))
def test_whatever_happens_every_question_is_paid_once_and_no_answer_is_lost(first: int) -> None:
    broken = [verdict for seed in range(first, first + CHUNK) if (verdict := play(plan_of(seed))).broken]
    assert not broken, "\n".join(verdict.told() for verdict in broken)
