"""The real commands as real processes: a sandbox that stays, runs that are killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any
from urllib.request import urlopen

from dotenv import dotenv_values

from layton_batch.processes import started
from tests.processes.fork_server import ROOT, Child, ForkServer
from tests.support.lab import MODELS, demo_prices
from tests.support.proxy import PhaseProxy

ITEMS = 2
MOST_LIVES = 60
PATIENCE_SECONDS = 90.0


def manifest_text(name: str, providers: Sequence[str]) -> str:
    """A model a provider named, the same one several times if it is, each with a limit of its own, so that they ask
    different things; multiple choice, which no jury has to judge."""
    text = f'name = "{name}"\ntask = "mcq_idk"\n[items]\nsource = "bundled"\nsplit = "demo"\nlimit = {ITEMS}\n'
    text += "[policy]\nattempts = 9\n"
    for number, provider in enumerate(providers, 1):
        model = MODELS[provider]
        text += f'[[models]]\nname = "{provider}-{number}"\nprovider = "{provider}"\nmodel = "{model}"\n'
        text += f"max_output_tokens = {1000 + number}\n"
    return text + demo_prices()


@dataclass(slots=True)
class Kills:
    """Which phases of which calls end the program; each happens once, in this order for a kind of call."""

    provider: str
    wanted: Mapping[str, Sequence[str]]
    happened: list[tuple[str, str]] = field(default_factory=list)
    _next: dict[str, int] = field(default_factory=dict)

    def decide(self, provider: str, kind: str) -> str | None:
        phases = self.wanted.get(kind, ())
        turn = self._next.get(kind, 0)
        if provider != self.provider or turn >= len(phases):
            return None
        self._next[kind] = turn + 1
        self.happened.append((kind, phases[turn]))
        return phases[turn]

    @property
    def left(self) -> list[tuple[str, str]]:
        return [(kind, phase) for kind, phases in self.wanted.items() for phase in phases[self._next.get(kind, 0) :]]


@dataclass(slots=True)
class Command:
    """A command of layton-batch, as a process of its own."""

    process: Child | subprocess.Popen[bytes]
    output: Path
    errors: Path

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal. It dies of SIGKILL at once, and when this returns it is dead; also while another thread waits
        for its end."""
        os.kill(self.process.pid, number)
        while number == signal.SIGKILL and started(self.process.pid) is not None:
            time.sleep(0.002)

    def wait(self) -> int:
        """Its exit code, or minus the signal it died of."""
        try:
            return self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired as error:
            os.kill(self.process.pid, signal.SIGKILL)
            raise AssertionError(f"still running after {PATIENCE_SECONDS} s: {self.said}") from error

    @property
    def said(self) -> str:
        """What it has told people."""
        return self.errors.read_text(encoding="utf-8")

    def status(self) -> dict[str, Any]:
        """What it printed at its end."""
        code = self.wait()
        assert code == 0, (code, self.said)
        found: dict[str, Any] = json.loads(self.output.read_text())
        return found


SANDBOX = ("-m", "layton_batch", "sandbox", "--port", "0", "--batch-seconds", "0.2", "--env-file")
"""To ``python``; the file's name comes last."""


class Sandbox:
    """A sandbox process, the way to it, and with ``preload`` the fork server of commands; a context manager."""

    def __init__(self, *, preload: bool = True, server: Sequence[str] = SANDBOX) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="processes-")
        ready = Path(self._scratch.name) / "sandbox.env"
        self._server = subprocess.Popen([sys.executable, *server, str(ready)], cwd=ROOT, stderr=subprocess.DEVNULL)
        self.fork_server = ForkServer() if preload else None  # loads meanwhile
        while not ready.exists():
            assert self._server.poll() is None, "the sandbox did not start"
            time.sleep(0.02)
        values = {key: str(value) for key, value in dotenv_values(ready).items()}
        self.url = "/".join(values["ANTHROPIC_BASE_URL"].split("/")[:3])
        self.way = PhaseProxy(self.url)
        self.environment = {key: value.replace(self.url, self.way.url) for key, value in values.items()}

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.way.close()
        if self.fork_server is not None:
            self.fork_server.close()
        self._server.terminate()
        self._server.wait()
        self._scratch.cleanup()


@dataclass(slots=True)
class Bench:
    """A folder for runs, and a sandbox of which it looks only at what came after it was made.

    Commands come from the fork_server; where there is none each is a fresh ``python``, which spends most of its life on
    imports.
    """

    folder: Path
    sandbox: Sandbox
    _started: int = 0
    _running: Command | None = None
    _guard: Lock = field(default_factory=Lock)
    _earlier: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._earlier = frozenset(batch["id"] for batch in self.batches())

    @property
    def way(self) -> PhaseProxy:
        return self.sandbox.way

    def write(self, name: str, providers: Sequence[str]) -> Path:
        path = self.folder / f"{name}.toml"
        path.write_text(manifest_text(name, providers), encoding="utf-8")
        return path

    def start(self, manifest: Path, *options: str, **more: str) -> Command:
        """`layton-batch run MANIFEST`; ``more`` goes into its environment."""
        return self.command([*self._run(manifest), *options], more)

    def _run(self, manifest: Path) -> list[str]:
        return ["run", str(manifest), *self.runs, "--poll-seconds", "0.05", "--json"]

    @property
    def runs(self) -> tuple[str, str]:
        """The option that says where runs are."""
        return "--runs", str(self.folder / "runs")

    def command(self, arguments: Sequence[str], more: Mapping[str, str] | None = None) -> Command:
        """Any command, as a process in this bench's folder."""
        self._started += 1
        streams = self.folder / f"{self._started}.out", self.folder / f"{self._started}.err"
        environment = {**self.sandbox.environment, "XDG_STATE_HOME": str(self.folder / "user"), **(more or {})}
        if self.sandbox.fork_server is not None:
            return Command(self.sandbox.fork_server.start(arguments, environment, self.folder, *streams), *streams)
        return self.fresh(["-m", "tests.processes.fast_cli", *arguments], environment, streams)

    def fresh(self, arguments: Sequence[str], environment: Mapping[str, str], streams: tuple[Path, Path]) -> Command:
        """``python ARGUMENTS``."""
        with streams[0].open("wb") as output, streams[1].open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
                stdout=output,
                stderr=errors,
            )
        return Command(process, *streams)

    def begin(self, arguments: Sequence[str]) -> Command:
        """A command that :meth:`kill` means until another begins."""
        with self._guard:
            self._running = command = self.command(arguments)
        return command

    def kill(self) -> None:
        """The command that was begun last dies at once."""
        with self._guard:
            running = self._running
        if running is not None:
            running.kill()

    def until_done(self, manifest: Path, kills: Kills | None = None) -> tuple[dict[str, Any], int]:
        """Start the run again after every death until it ends by itself; its status, and how many lives it took."""
        if kills is not None:
            self.way.decide, self.way.kill = kills.decide, self.kill
        for life in range(1, MOST_LIVES):
            command = self.begin(self._run(manifest))
            if command.wait() != -signal.SIGKILL:
                self.way.leave_alone()
                return command.status(), life
        raise AssertionError(f"killed {MOST_LIVES} times and still not done")

    def page(self, name: str) -> Any:
        with urlopen(f"{self.sandbox.url}/sandbox/{name}") as reply:
            return json.load(reply)

    def batches(self) -> list[dict[str, Any]]:
        """The providers' batches that are new since this bench was made."""
        return [batch for batch in self.page("batches") if batch["id"] not in self._earlier]

    def billed(self) -> list[dict[str, Any]]:
        """The rows billed of those batches, when everything was carried out."""
        until = time.monotonic() + PATIENCE_SECONDS
        while any(batch["outcome"] is None for batch in self.batches()):
            assert time.monotonic() < until, "a batch does not end"
            time.sleep(0.05)
        ours = {batch["id"] for batch in self.batches()}
        return [row for row in self.page("ledger?rows=1")["rows"] if row["batch_id"] in ours]


def broken_claims(place: Bench, status: Mapping[str, Any]) -> list[str]:
    """What must hold when a run is over; no other may have run on this bench."""
    broken = []
    times = Counter(row["custom_id"] for row in place.billed())
    if set(times.values()) != {1} or len(times) != ITEMS * len(status["jobs"]):
        broken.append(f"billed: {times}")
    for job in status["jobs"]:
        if job["succeeded"] != job["requests"] or job["waiting"]:
            broken.append(f"job {job['id']}: {job}")
    if status["state"] != "done":
        broken.append(f"the run is {status['state']}")
    ours = {batch["provider_id"] for batch in status["batches"]}
    theirs = {batch["id"] for batch in place.batches()}
    if ours != theirs:
        broken.append(f"batches: ours {sorted(ours)}, the providers' {sorted(theirs)}")
    left = [str(path) for path in (place.folder / "runs" / status["run"]).rglob(".*.tmp")]
    return broken + [f"left over: {path}" for path in left]
