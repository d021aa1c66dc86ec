"""The real command with its state in a real PostgreSQL: killed around the paid call, and two of them on one run."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes.commands import Bench, Command, Kills, Sandbox, broken_claims
from tests.processes.proxy import PHASES
from tests.store.postgres import new_database, required, server


@dataclass(slots=True)
class ServedBench(Bench):
    """A bench whose commands keep their state in this database."""

    state: str = ""

    def command(self, arguments: Sequence[str], more: Mapping[str, str] | None = None) -> Command:
        return Bench.command(self, arguments, {"LAYTON_BATCH_STATE": self.state, **(more or {})})

    def has_file(self) -> bool:
        """Whether any run has a state of its own."""
        return any((self.folder / "runs").rglob("state.sqlite3*"))


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with server(required()) as url:
        yield url


@pytest.fixture
def served(postgres: str, sandbox: Sandbox, tmp_path: Path) -> Iterator[ServedBench]:
    yield ServedBench(tmp_path, sandbox, state=new_database(postgres))
    sandbox.way.leave_alone()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_run_killed_at_every_phase_of_the_paid_call_pays_each_row_once_and_loses_none(
    served: ServedBench, provider: str
) -> None:
    kills = Kills(provider, {"create": PHASES})
    status, lives = served.until_done(served.write(f"served-{provider}", [provider, provider]), kills)
    assert not kills.left
    assert lives == 1 + len(PHASES)
    assert not broken_claims(served, status)
    assert not served.has_file()


def test_two_commands_started_at_once_share_the_run_and_pay_each_row_once(served: ServedBench) -> None:
    manifest = served.write("served-both", ["openai", "anthropic", "openai", "anthropic"])
    commands = [served.start(manifest), served.start(manifest)]
    for command in commands:
        assert not broken_claims(served, command.status())
    assert not served.has_file()


def test_one_of_two_is_killed_when_a_batch_has_just_been_created_and_the_other_finishes(served: ServedBench) -> None:
    manifest = served.write("served-survivor", ["mistral", "gemini", "mistral"])
    doomed, survivor = served.start(manifest), served.start(manifest)
    calls = iter(["executed"])
    served.way.decide = lambda _provider, kind: next(calls, None) if kind == "create" else None
    served.way.kill = doomed.kill
    status = survivor.status()
    served.way.leave_alone()
    assert doomed.wait() == -signal.SIGKILL
    assert status["state"] == "done"
    assert not broken_claims(served, served.start(manifest).status())  # which clears away what the dead one left


def test_a_command_killed_while_the_server_commits_goes_on_from_one_side_of_the_commit_or_the_other(
    served: ServedBench,
) -> None:
    manifest = served.write("served-torn", ["groq", "doubleword"])
    wanted = [f"{number}:{number % 3 * 0.0004}" for number in (3, 7, 11, 15)]
    ends = [served.start(manifest, KILL_IN_COMMIT=kill).wait() for kill in wanted]
    assert set(ends) <= {-signal.SIGKILL, 0}  # 0: it was done before it came to that commit
    assert ends.count(-signal.SIGKILL) >= 2
    status, _ = served.until_done(manifest)
    assert not broken_claims(served, status)
