"""Histories drawn from seeds: stops, lost replies, delays, failures, reordering, one program or two, cancelled runs."""

from __future__ import annotations

import pytest

from tests.simulation.histories import EDITED, NEIGHBOURS, RICHER, WIDER, plan_of, play
from tests.simulation.suite import EDITING, SEEDS, SHARING
from tests.support.tiers import tiered


@pytest.mark.parametrize("seed", tiered(SEEDS, ci=(27, 29, RICHER + 26, RICHER + 28, WIDER + 28, WIDER + 30)))
def test_whatever_happens_every_question_is_paid_once_and_no_answer_is_lost(seed: int) -> None:
    verdict = play(plan_of(seed))
    assert not verdict.broken, verdict.told()


@pytest.mark.parametrize("seed", tiered(EDITING, ci=(EDITED + 16, EDITED + 17)))
def test_a_question_is_paid_once_however_its_manifest_is_edited_between_kills(seed: int) -> None:
    verdict = play(plan_of(seed))
    assert not verdict.broken, verdict.told()


@pytest.mark.parametrize("seed", tiered(SHARING, ci=(NEIGHBOURS + 6, NEIGHBOURS + 8)))
def test_two_runs_of_a_workspace_that_want_the_same_pay_for_it_once(seed: int) -> None:
    verdict = play(plan_of(seed))
    assert not verdict.broken, verdict.told()
