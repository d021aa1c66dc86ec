"""Several hosts on one run: each has a folder of its own, state is in PostgreSQL, files are in object storage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.cli.test_readme import commands
from tests.simulation.conductor import Forks, Life
from tests.simulation.histories import RUN, History, Plan, history
from tests.simulation.manifests import Asks
from tests.support.object_server import ObjectServer

ASKS = Asks(("alpha", "beta"), ((0, 0), (1, 0), (2, 0)))
START = ("run", f"{RUN}.toml", "--yes", "--offline", "--json")


@dataclass(slots=True)
class Hosts:
    """A history whose runs are in a bucket, and commands of several hosts on it."""

    begun: History
    shared: Mapping[str, str]

    def on(self, host: str, *words: str, **more: str) -> tuple[int, str]:
        """Carry out a command on a host; returns its exit code and what it told people."""
        place = str(self.begun.folder / host)
        own = {"LAYTON_BATCH_COPIES": place, "XDG_STATE_HOME": place}
        return self.begun.command(*words, **{**self.shared, **own, **more})

    def board(self, host: str) -> object:
        code, said = self.on(host, "leaderboard", RUN, "--format", "json")
        assert code == 0, said
        return json.loads(self.begun.conductor.output)

    def dies_when_it_has_paid(self, host: str) -> None:
        """Have a host begin the run, and die when the first batch was created."""
        conductor = self.begun.conductor

        def is_paid(_number: int, _life: Life) -> bool:
            return conductor.points[-1].startswith("executed") and conductor.points[-1].endswith("create")

        conductor.at_point = is_paid
        assert self.on(host, *START)[0] == -9
        conductor.at_point = lambda _number, _life: False

    def is_paid_once(self) -> bool:
        """Return whether each question of each model was billed once."""
        bills = self.begun.played.world.bills
        return len({bill.key for bill in bills}) == len(bills) == len(ASKS.models) * len(ASKS.items)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    opened = Forks()
    yield opened
    opened.close()


@pytest.fixture
def hosts(forks: Forks, postgres_url: str, objects: ObjectServer) -> Iterator[Hosts]:
    with history(forks, Plan(1, ASKS), postgres_url) as begun:
        begun.write(RUN, ASKS)
        address = f"s3://{objects.new_bucket()}/nightly/runs"
        yield Hosts(begun, {**objects.environment, "LAYTON_BATCH_RUNS": address})


def test_a_host_that_dies_when_it_has_paid_is_replaced_by_one_that_pays_for_nothing_again(hosts: Hosts) -> None:
    hosts.dies_when_it_has_paid("first")
    shutil.rmtree(hosts.begun.folder / "first")
    code, said = hosts.on("second", *START)
    assert code == 0, said
    assert hosts.is_paid_once()
    boards = [hosts.board(name) for name in ("first", "second")]
    shutil.rmtree(hosts.begun.folder / "second")
    assert boards[0] == boards[1] == hosts.board("third")


def test_a_storage_that_is_away_ends_a_command_with_a_sentence_and_the_next_goes_on(hosts: Hosts) -> None:
    code, said = hosts.on("first", *START, AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_MAX_RETRIES="0")
    assert code == 74
    assert f"{hosts.shared['LAYTON_BATCH_RUNS']} cannot be listed" in said
    assert "test-secret" not in said
    assert hosts.on("first", *START)[0] == 0
    assert hosts.is_paid_once()


def test_the_commands_of_the_page_are_those_of_a_state_and_a_place_for_runs() -> None:
    lines = commands("docs/cluster.md")
    exported = [line.removeprefix("export ").partition("=")[0] for line in lines if line.startswith("export ")]
    assert exported[-2:] == ["LAYTON_BATCH_STATE", "LAYTON_BATCH_RUNS"]
