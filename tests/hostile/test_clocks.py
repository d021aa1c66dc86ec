"""Our clock is set forward or back while batches are at their providers, which go on by the true time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from layton_batch.pipeline import advance
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.lab import MODELS, Lab, lab, quiz_text
from tests.support.tiers import tiered

HOUR = 3600.0
DAY = 24 * HOUR


def asked(provider: str) -> str:
    return quiz_text((provider,), limit=2)


def first(run: Run) -> Batch:
    return run.store.batches()[0]


def in_state(state: Lifecycle) -> Callable[[Run], bool]:
    return lambda run: first(run).state is state


def ticks(run: Run, bench: Lab, until: Callable[[Run], bool], seconds: float = 2.0) -> None:
    for _ in range(100):
        advance(run)
        if until(run):
            return
        bench.clock.sleep(seconds)
    raise AssertionError([(one.id, one.state, one.reason) for one in run.store.batches()])


@pytest.mark.parametrize("provider", tiered(MODELS, ci=("openai",)))
def test_a_clock_set_back_by_a_day_holds_up_no_call(tmp_path: Path, provider: str) -> None:
    with lab(tmp_path) as bench:
        with bench.open(asked(provider)) as run:
            ticks(run, bench, in_state(Lifecycle.IN_FLIGHT))
            bench.clock.put(-DAY)
            begun = bench.clock.true()
            ticks(run, bench, in_state(Lifecycle.COLLECTED), seconds=60.0)
            bench.clock.put(-DAY)
        bench.finish_paid_once(asked(provider))
        assert bench.clock.true() - begun < 2 * HOUR


BACK, BACK_FOR_LONG, FORWARD = (0.0, -30.0), (31 * HOUR, -30.0), (0.0, 30.0)
"""Seconds that pass before the run goes on, and hours by which the clock is set."""


@pytest.mark.parametrize(
    ("provider", "move"),
    tiered(
        MODELS,
        (BACK, BACK_FOR_LONG, FORWARD),
        ci=[("mistral", BACK_FOR_LONG), ("gemini", FORWARD)],
    ),
)
def test_a_create_in_doubt_is_not_paid_again_where_the_clock_was_set_by_more_than_a_day(
    tmp_path: Path, provider: str, move: tuple[float, float]
) -> None:
    away, hours = move
    with lab(tmp_path, Fault(on="create", action="drop_after", provider=provider, times=1)) as bench:
        with bench.open(asked(provider)) as run:
            ticks(run, bench, in_state(Lifecycle.SUBMITTING))
        bench.clock.sleep(away)
        bench.clock.put(hours * HOUR)
        bench.finish_paid_once(asked(provider))
