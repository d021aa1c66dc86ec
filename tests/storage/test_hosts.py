"""Several hosts on one run: each has a folder of its own, state is in PostgreSQL, files are in object storage."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.test_readme import commands
from tests.processes.conftest import sandbox  # noqa: F401  a fixture
from tests.support.cli_harness import ROOT
from tests.support.commands import Bench, Command, Sandbox, broken_claims
from tests.support.object_server import ObjectServer


@dataclass(slots=True)
class Hosts(Bench):
    """A bench whose runs are in a bucket; ``host`` says whose command comes next."""

    shared: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    host: str = "first"

    @property
    def runs(self) -> tuple[str, str]:
        return "--runs", self.address

    def command(self, arguments: Sequence[str], more: Mapping[str, str] | None = None) -> Command:
        own = {"LAYTON_BATCH_COPIES": str(self.folder / self.host), "XDG_STATE_HOME": str(self.folder / self.host)}
        return Bench.command(self, arguments, {**own, **self.shared, **(more or {})})

    def on(self, host: str) -> Hosts:
        self.host = host
        return self

    def board(self, name: str) -> object:
        command = self.command(["leaderboard", name, *self.runs, "--format", "json"])
        assert command.wait() == 0, command.said
        return json.loads(command.output.read_text())


@pytest.fixture
def hosts(postgres_url: str, objects: ObjectServer, sandbox: Sandbox, tmp_path: Path) -> Iterator[Hosts]:  # noqa: F811
    shared = {**objects.environment, "LAYTON_BATCH_STATE": postgres_url}
    yield Hosts(tmp_path, sandbox, shared=shared, address=f"s3://{objects.new_bucket()}/nightly/runs")
    sandbox.way.leave_alone()


def test_a_host_is_killed_when_it_has_just_paid_and_the_next_pays_each_row_once_and_loses_none(hosts: Hosts) -> None:
    manifest = hosts.write("three", ["openai", "anthropic", "mistral", "gemini"])
    doomed = hosts.on("first").start(manifest)
    calls = iter(["executed"])
    hosts.way.decide = lambda _provider, kind: next(calls, None) if kind == "create" else None
    hosts.way.kill = doomed.kill
    assert doomed.wait() == -signal.SIGKILL
    hosts.way.leave_alone()
    others = [hosts.on(name).start(manifest) for name in ("second", "third")]
    codes = sorted(command.wait() for command in others)
    assert codes in ([0, 75], [0, 0])  # the second of them may begin when the first has ended
    assert not broken_claims(hosts, hosts.on("first").start(manifest).status())
    boards = [hosts.on(name).board("three") for name in ("first", "second", "third")]
    assert boards[0] == boards[1] == boards[2]
    for name in ("first", "second", "third"):
        shutil.rmtree(hosts.folder / name)
    assert hosts.on("fourth").board("three") == boards[0]


def test_a_host_that_was_lost_with_its_folder_is_replaced_by_one_that_pays_for_nothing_again(hosts: Hosts) -> None:
    manifest = hosts.write("replaced", ["openai", "anthropic"])
    calls = iter(["executed"])
    hosts.way.decide = lambda _provider, kind: next(calls, None) if kind == "create" else None
    hosts.way.kill = hosts.kill
    assert hosts.begin(hosts._run(manifest)).wait() == -signal.SIGKILL
    hosts.way.leave_alone()
    shutil.rmtree(hosts.folder / "first")
    assert not broken_claims(hosts, hosts.on("second").start(manifest).status())


def test_a_storage_that_is_away_ends_a_command_with_a_sentence_and_the_next_goes_on(
    hosts: Hosts, objects: ObjectServer
) -> None:
    manifest = hosts.write("away", ["openai"])
    nowhere = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_RETRIES": "0"}
    command = hosts.command(hosts._run(manifest), nowhere)
    assert command.wait() == 74
    assert f"{hosts.address} cannot be listed" in command.said
    assert "Traceback" not in command.said
    assert "test-secret" not in command.said
    assert not broken_claims(hosts, hosts.start(manifest).status())
    assert objects.url


def test_the_commands_of_the_page_work_as_printed(hosts: Hosts) -> None:
    told = {"LAYTON_BATCH_STATE": hosts.shared["LAYTON_BATCH_STATE"], "LAYTON_BATCH_RUNS": hosts.address}
    shutil.copytree(ROOT / "manifests", hosts.folder / "manifests")
    demo = hosts.folder / "manifests" / "demo.toml"
    text = demo.read_text(encoding="utf-8")
    assert text.count("[items]\n") == 1
    demo.write_text(text.replace("[items]\n", "[items]\nlimit = 3\n"), encoding="utf-8")  # so that the run is short
    lines = commands("docs/cluster.md")
    first = next(place for place, line in enumerate(lines) if line.startswith("export LAYTON_BATCH_STATE"))
    lines = lines[first:]  # those before are of engines: tests/engine
    exported = [line.removeprefix("export ").partition("=")[0] for line in lines if line.startswith("export ")]
    assert exported == list(told)
    rest = [line for line in lines if not line.startswith("export ")]
    assert len(rest) == 6
    for line in rest:
        name, *words = line.split()
        command = hosts.command(words, told)
        assert (name, command.wait()) == ("layton-batch", 0), command.said
