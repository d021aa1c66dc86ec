"""The real command with its state in a real PostgreSQL: killed around the paid call, and two of them on one run."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.commands import Bench, Command, Kills, Sandbox, broken_claims
from tests.support.proxy import PHASES
from tests.support.tiers import tiered


@dataclass(slots=True)
class ServedBench(Bench):
    """A bench whose commands keep their state in this database."""

    state: str = ""

    def command(self, arguments: Sequence[str], more: Mapping[str, str] | None = None) -> Command:
        return Bench.command(self, arguments, {"LAYTON_BATCH_STATE": self.state, **(more or {})})

    def has_file(self) -> bool:
        """Whether any run has a state of its own."""
        return any((self.folder / "runs").rglob("state.sqlite3*"))


@pytest.fixture
def served(postgres_url: str, sandbox: Sandbox, tmp_path: Path) -> Iterator[ServedBench]:
    yield ServedBench(tmp_path, sandbox, state=postgres_url)
    sandbox.way.leave_alone()


EXECUTED = ("executed",)
"""The phase in which the provider has the batch and the program does not know."""


@pytest.mark.parametrize(
    ("provider", "phases"), tiered(("openai", "anthropic"), (EXECUTED, PHASES), ci=[("openai", EXECUTED)])
)
def test_a_run_killed_at_every_phase_of_the_paid_call_pays_each_row_once_and_loses_none(
    served: ServedBench, provider: str, phases: Sequence[str]
) -> None:
    kills = Kills(provider, {"create": phases})
    status, lives = served.until_done(served.write(f"served-{provider}", [provider, provider]), kills)
    assert not kills.left
    assert lives == 1 + len(phases)
    assert not broken_claims(served, status)
    assert not served.has_file()


@pytest.mark.nightly
def test_of_two_commands_started_at_once_one_drives_the_run_and_pays_each_row_once(served: ServedBench) -> None:
    manifest = served.write("served-both", ["openai", "anthropic", "openai", "anthropic"])
    commands = [served.start(manifest), served.start(manifest)]
    assert sorted(command.wait() for command in commands) == [0, 75]
    (driver,) = [command for command in commands if command.wait() == 0]
    (refused,) = [command for command in commands if command.wait() == 75]
    assert f"is driven by process {driver.process.pid} on " in refused.said
    assert not broken_claims(served, driver.status())
    assert not served.has_file()


@pytest.mark.nightly
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
