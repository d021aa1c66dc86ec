"""Signals to the real command while a paid call is under way, and `cancel` against the real server."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from tests.simulation.world import SEVEN
from tests.support.commands import PATIENCE_SECONDS, Bench, Command, Sandbox, broken_claims
from tests.support.proxy import HELD, PHASES
from tests.support.tiers import FAMILIES, tiered

TWO = ["openai", "openai"]
SLACK = 3.0
"""Two seconds are promised; a machine that is at much else besides is given this many times as long."""
ENDLESS = """
import sys
from pathlib import Path
from layton_batch.cli.demo import bundled_items
from layton_batch.sandbox import SandboxConfig, serve_forever
from layton_batch.sandbox.answerers.from_files import answerer_from_files
config = SandboxConfig(batch_seconds=1e6, cancel_seconds=0.1, answerer=answerer_from_files((), bundled_items(), 0))
serve_forever(config, Path(sys.argv[1]))
"""


def until_told(command: Command, words: str) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while words not in command.said:
        assert time.monotonic() < until, command.said
        time.sleep(0.01)


def held_in_create(place: Bench, manifest: Path, *options: str) -> Command:
    """A command whose first paid call is with the provider and not answered."""
    place.way.holding.clear()
    place.way.go_on.clear()
    calls = iter([HELD])
    place.way.decide = lambda _provider, kind: next(calls, None) if kind == "create" else None
    command = place.start(manifest, *options)
    assert place.way.holding.wait(PATIENCE_SECONDS), command.said
    return command


def stored(place: Bench, name: str) -> dict[str, Any]:
    """What `status --json` says."""
    command = place.command(["status", name, *place.runs, "--json"])
    assert command.wait() == 0, command.said
    found: dict[str, Any] = json.loads(command.output.read_text())
    return found


@pytest.mark.parametrize(
    ("number", "options"),
    tiered((signal.SIGINT, signal.SIGTERM), ((), ("--once",)), ci=[(signal.SIGTERM, ())]),
)
def test_a_stopped_command_keeps_the_answer_to_the_call_it_had_begun_and_begins_no_other(
    place: Bench, number: signal.Signals, options: tuple[str, ...]
) -> None:
    manifest = place.write("stopped", TWO)
    command = held_in_create(place, manifest, *options)
    command.kill(number)
    until_told(command, "stopping: waiting a moment for calls in progress")
    place.way.go_on.set()
    assert command.wait() == 75, command.said
    assert "Submitted batches go on at the provider; the same command continues the run" in command.said
    assert "Traceback" not in command.said
    (made,) = place.batches()
    assert made["cancel_asked"] is None
    states = {batch["provider_id"]: batch["state"] for batch in stored(place, "stopped")["batches"]}
    assert states.pop(made["id"]) == "in_flight"
    assert set(states) <= {None}
    status, _ = place.until_done(manifest)
    assert not broken_claims(place, status)


@pytest.mark.parametrize("first", tiered((signal.SIGINT, signal.SIGTERM), ci=(signal.SIGINT,)))
def test_two_seconds_after_the_second_stop_the_program_is_gone_whatever_it_waits_for(
    place: Bench, first: signal.Signals
) -> None:
    manifest = place.write("impatient", TWO)
    command = held_in_create(place, manifest)
    with closing(sqlite3.connect(place.folder / "runs" / "state.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # the lease, the provider's id: each would wait half a minute for its turn
        place.way.go_on.set()
        command.kill(first)
        until_told(command, "stopping")
        begun = time.monotonic()
        command.kill(signal.SIGTERM)
        code = command.wait()
        took = time.monotonic() - begun
        other.execute("ROLLBACK")
    assert code == 75, command.said
    assert took < 2.0 * SLACK, took
    assert "Traceback" not in command.said
    status, _ = place.until_done(manifest)
    assert not broken_claims(place, status)


def test_a_terminal_that_is_closed_costs_nothing(place: Bench) -> None:
    manifest = place.write("hung-up", TWO)
    command = held_in_create(place, manifest)
    command.kill(signal.SIGHUP)
    place.way.go_on.set()
    assert command.wait() in (-signal.SIGHUP, 75), command.said
    assert "Traceback" not in command.said
    status, _ = place.until_done(manifest)
    assert not broken_claims(place, status)


# ---- cancel --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slow(sandbox: Sandbox) -> Iterator[Sandbox]:
    """A sandbox whose batches end only when they are cancelled."""
    with Sandbox(preload=False, server=("-c", ENDLESS)) as started:
        started.fork_server = sandbox.fork_server
        yield started
        started.fork_server = None


@pytest.fixture
def endless(slow: Sandbox, tmp_path: Path) -> Iterator[Bench]:
    yield Bench(tmp_path, slow)
    slow.way.leave_alone()


TURNS = tuple((phase,) for phase in (*PHASES, PHASES[0]))
"""A phase for each family."""


@pytest.mark.parametrize(
    ("providers", "phases"),
    [
        (FAMILIES, TURNS),
        pytest.param(SEVEN, [PHASES] * len(SEVEN), marks=pytest.mark.nightly),
    ],
    ids=["a phase for each family", "every phase for each provider"],
)
def test_cancel_killed_at_every_phase_at_every_provider_still_stops_all_and_pays_nothing(
    endless: Bench, providers: Sequence[str], phases: Sequence[Sequence[str]]
) -> None:
    manifest = endless.write("cancelled", providers)
    assert endless.start(manifest, "--once").wait() == 75
    assert len(endless.batches()) == len(providers)
    kills = dict(zip(providers, map(list, phases), strict=True))
    assert _cancelled_in_spite_of_kills(endless, kills) == sum(map(len, phases))
    assert not any(kills.values())
    assert all(batch["cancel_asked"] for batch in endless.batches())
    status = stored(endless, "cancelled")
    assert status["state"] == "cancelled"
    for job in status["jobs"]:
        assert job["requests"] == job["cancelled"] + job["succeeded"] + job["missing"], job
        assert job["waiting"] == 0
    assert len(endless.batches()) == len(providers)
    assert endless.billed() == []


def _cancelled_in_spite_of_kills(place: Bench, phases: dict[str, list[str]]) -> int:
    """Give the command until it ends by itself; each provider's cancel is killed at its phases once. How many died."""
    struck: set[int] = set()  # providers are asked side by side; one of the calls is where this life ends

    def decide(provider: str, kind: str) -> str | None:
        with guard:
            if kind != "cancel" or not phases[provider] or deaths in struck:
                return None
            struck.add(deaths)
            return phases[provider].pop(0)

    guard, deaths = Lock(), 0
    place.way.decide, place.way.kill = decide, place.kill
    cancel = ["cancel", "cancelled", *place.runs, "--poll-seconds", "0.05", "--json"]
    while (command := place.begin(cancel)).wait() == -signal.SIGKILL:
        deaths += 1
    place.way.leave_alone()
    assert command.wait() == 0, command.said
    return deaths


@pytest.mark.parametrize("number", tiered((signal.SIGINT, signal.SIGTERM), ci=(signal.SIGTERM,)))
def test_a_cancel_that_is_stopped_while_it_waits_says_so_and_the_next_one_collects(
    endless: Bench, number: signal.Signals
) -> None:
    manifest = endless.write("waiting", TWO)
    assert endless.start(manifest, "--once").wait() == 75
    endless.way.holding.clear()
    endless.way.go_on.clear()
    calls = iter([HELD])
    endless.way.decide = lambda _provider, kind: next(calls, None) if kind == "cancel" else None
    command = endless.command(["cancel", "waiting", *endless.runs, "--poll-seconds", "0.05", "--json"])
    assert endless.way.holding.wait(PATIENCE_SECONDS), command.said
    command.kill(number)
    time.sleep(0.05)
    endless.way.go_on.set()
    assert command.wait() == 75, command.said
    assert "the same command asks the others and collects" in command.said
    assert "Traceback" not in command.said
    endless.way.leave_alone()
    again = endless.command(["cancel", "waiting", *endless.runs, "--poll-seconds", "0.05", "--json"])
    status = again.status()
    assert status["state"] == "cancelled"
    assert sum(job["succeeded"] for job in status["jobs"]) == len(endless.billed())


# ---- calls that nobody answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "kind"),
    tiered(
        (signal.SIGINT, signal.SIGTERM),
        ("upload", "list", "create", "poll", "results"),
        ci=[(signal.SIGINT, "create")],
    ),
)
def test_a_stop_does_not_wait_for_a_provider_that_does_not_answer(
    place: Bench, number: signal.Signals, kind: str
) -> None:
    manifest = place.write("unanswered", TWO)
    place.way.holding.clear()
    place.way.go_on.clear()
    place.way.decide = lambda _provider, its: HELD if its == kind else None
    command = place.start(manifest)
    assert place.way.holding.wait(PATIENCE_SECONDS), command.said
    begun = time.monotonic()
    command.kill(number)
    code = command.wait()
    took = time.monotonic() - begun
    assert code == 75, command.said
    assert "Traceback" not in command.said
    assert took < 2.0 * SLACK, took
    place.way.leave_alone()
    place.way.go_on.set()
    status, _ = place.until_done(manifest)
    assert not broken_claims(place, status)
