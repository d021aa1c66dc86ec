"""Histories drawn from seeds: stops, lost replies, delays, failures, reordering, one program or two, cancelled runs."""

from __future__ import annotations

import pytest

from tests.simulation.histories import EDITED, NEIGHBOURS, RICHER, WIDER, plan_of, play
from tests.simulation.suite import EDITING, SEEDS, SHARING
from tests.support.tiers import tiered

CHUNK = 3


@pytest.mark.parametrize("first", tiered(SEEDS[::CHUNK], ci=(27, RICHER + 26, WIDER + 28)))
def test_whatever_happens_every_question_is_paid_once_and_no_answer_is_lost(first: int) -> None:
    seeds = SEEDS[SEEDS.index(first) :][:CHUNK]
    broken = [verdict for seed in seeds if (verdict := play(plan_of(seed))).broken]
    assert not broken, "\n".join(verdict.told() for verdict in broken)


@pytest.mark.parametrize("first", tiered(EDITING[::CHUNK], ci=(EDITED + 15,)))
def test_a_question_is_paid_once_however_its_manifest_is_edited_between_kills(first: int) -> None:
    seeds = EDITING[EDITING.index(first) :][:CHUNK]
    broken = [verdict for seed in seeds if (verdict := play(plan_of(seed))).broken]
    assert not broken, "\n".join(verdict.told() for verdict in broken)


@pytest.mark.parametrize("first", tiered(SHARING[::CHUNK], ci=(NEIGHBOURS + 6,)))
def test_two_runs_of_a_workspace_that_want_the_same_pay_for_it_once(first: int) -> None:
    seeds = SHARING[SHARING.index(first) :][:CHUNK]
    broken = [verdict for seed in seeds if (verdict := play(plan_of(seed))).broken]
    assert not broken, "\n".join(verdict.told() for verdict in broken)
