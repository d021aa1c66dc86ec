"""The same histories with their state in a real PostgreSQL, whose connections die with the program."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from layton_batch.store.engine import open_engine
from tests.simulation import shortcuts
from tests.simulation.claims import broken_claims, reference
from tests.simulation.histories import Verdict, plan_of, play
from tests.simulation.interruptions import Course, Killed, instrumented
from tests.simulation.postgres import Database
from tests.simulation.suite import (
    COMMIT_STRIDE,
    MIGRATING,
    SERVED,
    SERVED_STRIDE,
    SERVED_WORLD,
    STATEMENT_STRIDE,
)
from tests.simulation.world import Plan, history
from tests.support.tiers import tiered

ENTER = text("INSERT INTO orders (run_id, kind, at) VALUES ('r', :name, 0)")


def told(verdicts: list[Verdict]) -> str:
    return "\n".join(verdict.told() for verdict in verdicts)


@pytest.mark.parametrize("migrating", tiered((False, True), ci=(False,)))
def test_a_run_passes_the_same_points_as_on_sqlite_so_that_a_seed_is_one_history(
    database: Database, migrating: bool
) -> None:
    plan = Plan(SERVED_WORLD, migrating=migrating)
    with history(plan, database) as there, history(plan) as here:
        assert there.course.points == here.course.points
        assert not there.folder.workspace.database.exists()


@pytest.mark.parametrize("seed", tiered(SERVED, ci=(SERVED[1], SERVED[9])))
def test_whatever_happens_every_question_is_paid_once_and_no_answer_is_lost(database: Database, seed: int) -> None:
    verdict = play(plan_of(seed), database)
    assert not verdict.broken, verdict.told()


@pytest.mark.nightly
def test_a_run_killed_at_any_instant_pays_once_and_ends_as_if_undisturbed(database: Database) -> None:
    stops = range(1, len(reference(SERVED_WORLD).points) + 1, SERVED_STRIDE)
    broken = [verdict for stop in stops if (verdict := play(Plan(SERVED_WORLD, stops=(stop,)), database)).broken]
    assert not broken, told(broken)


def test_a_run_killed_between_two_statements_of_a_transaction_did_none_of_it(database: Database) -> None:
    stops = range(1, len(points_between_statements(database)) + 1, 2 * STATEMENT_STRIDE)
    verdicts = [play(Plan(SERVED_WORLD, stops=(stop,)), database, statements=True) for stop in stops]
    broken = [verdict for verdict in verdicts if verdict.broken]
    assert not broken, told(broken)
    assert sum(verdict.stopped_at == ("statement",) for verdict in verdicts) >= len(stops) / 3


def test_a_run_whose_server_breaks_off_around_a_commit_is_started_again_and_pays_once(database: Database) -> None:
    points = list(enumerate(reference(SERVED_WORLD).points, 1))[:-2]  # the last gives the lease back, done or not
    breaks = [number for number, point in points if point in ("commit", "committed")][::COMMIT_STRIDE]
    for number in breaks:
        with history(Plan(SERVED_WORLD, breaks=(number,)), database) as found:
            assert [hand.lives for hand in found.course.hands.values()] == [2]
            assert not broken_claims(found)
    assert {points[number - 1][1] for number in breaks} == {"commit", "committed"}


@pytest.mark.nightly
def test_a_run_killed_while_its_tables_are_made_starts_again(database: Database) -> None:
    verdicts = [play(Plan(SERVED_WORLD, stops=(stop,), migrating=True), database) for stop in MIGRATING[:2]]
    broken = [verdict for verdict in verdicts if verdict.broken]
    assert not broken, told(broken)


def test_a_program_whose_statements_are_each_committed_by_themselves_is_caught(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference(SERVED_WORLD)
    points = points_between_statements(database)
    stops = [number for number, point in enumerate(points, 1) if point == "statement"][::3]

    def careless(*arguments: Any, **options: Any) -> Any:
        return create_engine(*arguments, **options, isolation_level="AUTOCOMMIT")

    monkeypatch.setattr(shortcuts, "create_engine", careless)
    assert any(play(Plan(SERVED_WORLD, stops=(stop,)), database, statements=True).broken for stop in stops)


def test_what_a_killed_program_had_begun_is_rolled_back_and_its_connections_are_gone(
    database: Database, tmp_path: Path
) -> None:
    database.empty(migrating=False)
    course = Course(tmp_path, stops=(1,))
    hand = course.enter()
    with instrumented(course), database.in_use(course):
        engine = open_engine(database.url)
        backends: list[int] = []

        def enter(name: str, then: Callable[[], None]) -> None:
            with engine.begin() as connection:
                connection.execute(ENTER, {"name": name})
                backends.extend(connection.execute(text("SELECT pg_backend_pid()")).scalars())
                then()

        with pytest.raises(Killed):
            enter("begun", lambda: course.reach("anything"))
        enter("on its way out", lambda: None)
        course.is_buried(hand)
        engine.dispose()
        hand.lives, hand.dead = 2, False
        after = open_engine(database.url)
        with after.connect() as connection:
            assert connection.execute(text("SELECT count(*) FROM orders")).scalar() == 0
            alive = set(connection.execute(text("SELECT pid FROM pg_stat_activity")).scalars())
        after.dispose()
    assert len(backends) == len(set(backends)) == 2
    assert not alive.intersection(backends)


@cache
def points_between_statements(database: Database) -> list[str]:
    with history(Plan(SERVED_WORLD), database, statements=True) as found:
        return found.course.points
