"""A real process is told to stop while its paid call is under way: the answer is kept, and nothing else begins."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from tests.simulation import database
from tests.simulation.conductor import Forks, Life
from tests.simulation.histories import RUN, History, Plan, history
from tests.simulation.manifests import Asks
from tests.support.tiers import tiered

PLAN = Plan(1, Asks(("alpha", "beta"), ((0, 0), (1, 0))))
START = ("run", f"{RUN}.toml", "--yes", "--offline", "--json")
SLACK = 3.0
"""Two seconds are promised; a machine that is at much else besides is given this many times as long."""
PATIENCE_SECONDS = 30.0


def at_create(begun: History, phase: str, act: Callable[[Life], None]) -> None:
    """Do something when the first create is at a phase: ``sent``, ``executed`` or ``answered``."""
    conductor, done = begun.conductor, list[Life]()

    def look(_number: int, life: Life) -> bool:
        if not done and conductor.points[-1].startswith(phase) and conductor.points[-1].endswith("create"):
            done.append(life)
            act(life)
        return False

    conductor.at_point = look


def until_told(life: Life, words: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while words not in life.errors:
        assert time.monotonic() < until, life.errors
        time.sleep(0.01)


def ends_well(begun: History, rows: int = 4) -> None:
    """Hold that the same command goes on to the end, and that each row was billed once."""
    assert begun.command(*START)[0] == 0
    begun.played.world.let_all_end()
    assert len({bill.key for bill in begun.played.world.bills}) == len(begun.played.world.bills) == rows


@pytest.mark.parametrize(
    ("number", "options"), tiered((signal.SIGINT, signal.SIGTERM), ((), ("--once",)), ci=[(signal.SIGTERM, ())])
)
def test_a_stopped_command_keeps_the_answer_to_the_call_it_had_begun_and_begins_no_other(
    forks: Forks, number: signal.Signals, options: tuple[str, ...]
) -> None:
    def stop(life: Life) -> None:
        os.kill(life.pid, number)
        until_told(life, "stopping: waiting a moment for calls in progress")

    with history(forks, PLAN) as begun:
        begun.write(RUN, PLAN.asks)
        at_create(begun, "executed", stop)
        code, said = begun.command(*START, *options)
        assert code == 75, said
        assert "Submitted batches go on at the provider; the same command continues the run" in said
        rows = database.read(begun.url)
        made = {batch.id for batch in begun.played.world.batches}
        assert made == {row.provider_id for row in rows.batches if row.state == "in_flight"}
        assert not any(batch.status == "stopping" for batch in begun.played.world.batches)
        ends_well(begun)


@pytest.mark.parametrize("first", tiered((signal.SIGINT, signal.SIGTERM), ci=(signal.SIGINT,)))
def test_two_seconds_after_the_second_stop_the_program_is_gone_whatever_it_waits_for(
    forks: Forks, first: signal.Signals
) -> None:
    plan = Plan(1, Asks(("alpha",), ((0, 0), (1, 0))))  # no other model's thread may be within a commit
    with history(forks, plan) as begun, ExitStack() as stack:
        begun.write(RUN, plan.asks)

        def stop_twice(life: Life) -> None:
            other = stack.enter_context(closing(sqlite3.connect(begun.folder / "runs" / "state.sqlite3")))
            other.execute("BEGIN IMMEDIATE")  # the provider's id would wait half a minute for its turn
            os.kill(life.pid, first)
            until_told(life, "stopping")
            stopped_at.append(time.monotonic())
            os.kill(life.pid, signal.SIGTERM)

        stopped_at: list[float] = []
        at_create(begun, "executed", stop_twice)
        code, said = begun.command(*START)
        assert time.monotonic() - stopped_at[0] < 2.0 * SLACK
        assert code == 75, said
        stack.close()
        ends_well(begun, rows=2)


@pytest.mark.parametrize("phase", tiered(("sent", "executed", "answered"), ci=("executed",)))
def test_a_terminal_that_is_closed_costs_nothing(forks: Forks, phase: str) -> None:
    with history(forks, PLAN) as begun:
        begun.write(RUN, PLAN.asks)
        at_create(begun, phase, lambda life: os.kill(life.pid, signal.SIGHUP))
        code, said = begun.command(*START)
        assert code in (-signal.SIGHUP, 75), said
        ends_well(begun)
