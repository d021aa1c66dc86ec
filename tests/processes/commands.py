"""The real commands as real processes: a sandbox that stays, runs that are killed and started again."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.request import urlopen

from dotenv import dotenv_values

from layton_batch.processes import started
from tests.pipeline.lab import MODELS, demo_prices
from tests.processes import hasty
from tests.processes.go_between import GoBetween

ROOT = Path(__file__).resolve().parents[2]
SDKS = ("openai", "anthropic", "google.genai", "mistralai.client", "together", "groq")
ITEMS = 2
MOST_LIVES = 60
PATIENCE_SECONDS = 90.0


def manifest_text(name: str, providers: Sequence[str]) -> str:
    """A model a provider named, the same one several times if it is; multiple choice, which no jury has to judge."""
    text = f'name = "{name}"\ntask = "mcq_idk"\n[items]\nsource = "bundled"\nsplit = "demo"\nlimit = {ITEMS}\n'
    text += "[policy]\nattempts = 9\n"
    for number, provider in enumerate(providers, 1):
        model = MODELS[provider]
        text += f'[[models]]\nname = "{provider}-{number}"\nprovider = "{provider}"\nmodel = "{model}"\n'
        text += "max_output_tokens = 1000\n"
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
    """`layton-batch run`, as a process of its own."""

    process: BaseProcess | subprocess.Popen[bytes]
    output: Path
    errors: Path

    def kill(self) -> None:
        """It dies at once; when this returns it is dead. From any thread, also while another waits for its end."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)
        while started(self.process.pid) is not None:
            time.sleep(0.002)

    def wait(self) -> int:
        """Its exit code, or minus the signal it died of."""
        if isinstance(self.process, subprocess.Popen):
            return self.process.wait(PATIENCE_SECONDS)
        self.process.join(PATIENCE_SECONDS)
        code = self.process.exitcode
        assert code is not None, f"still running after {PATIENCE_SECONDS} s: {self.errors.read_text()}"
        return code

    def status(self) -> dict[str, Any]:
        """What it printed at its end."""
        assert self.wait() == 0, self.errors.read_text()
        found: dict[str, Any] = json.loads(self.output.read_text())
        return found


@dataclass(slots=True)
class Bench:
    """A sandbox process, the way to it, and a folder for runs.

    ``preloaded``: commands are forked from a process that has loaded the program and the SDKs already; else each is
    a fresh ``python``, which spends most of its life on imports.
    """

    folder: Path
    sandbox_url: str
    way: GoBetween
    environment: dict[str, str]
    preloaded: bool = True
    _started: int = 0
    _running: Command | None = None
    _guard: Lock = field(default_factory=Lock)

    def write(self, name: str, providers: Sequence[str]) -> Path:
        path = self.folder / f"{name}.toml"
        path.write_text(manifest_text(name, providers), encoding="utf-8")
        return path

    def start(self, manifest: Path, **more: str) -> Command:
        """`layton-batch run MANIFEST`; ``more`` goes into its environment."""
        self._started += 1
        streams = self.folder / f"{self._started}.out", self.folder / f"{self._started}.err"
        arguments = ["run", str(manifest), "--runs", str(self.folder / "runs"), "--poll-seconds", "0.1", "--json"]
        environment = {**self.environment, **more}
        if self.preloaded:
            details = (arguments, environment, *map(str, streams))
            child = _server().Process(target=hasty.forked, args=details)  # type: ignore[attr-defined]
            child.start()
            return Command(child, *streams)
        with streams[0].open("wb") as output, streams[1].open("wb") as errors:
            module = [sys.executable, "-m", "tests.processes.hasty"]
            fresh = subprocess.Popen(
                [*module, *arguments], cwd=ROOT, env={**os.environ, **environment}, stdout=output, stderr=errors
            )
        return Command(fresh, *streams)

    def kill(self) -> None:
        """The command that is running now dies at once."""
        with self._guard:
            running = self._running
        if running is not None:
            running.kill()

    def until_done(self, manifest: Path, kills: Kills | None = None) -> tuple[dict[str, Any], int]:
        """Start the run again after every death until it ends by itself; its status, and how many lives it took."""
        if kills is not None:
            self.way.decide, self.way.kill = kills.decide, self.kill
        for life in range(1, MOST_LIVES):
            command = self.start(manifest)
            with self._guard:
                self._running = command
            if command.wait() != -signal.SIGKILL:
                self.way.decide = lambda _provider, _kind: None
                return command.status(), life
        raise AssertionError(f"killed {MOST_LIVES} times and still not done")

    def page(self, name: str) -> Any:
        with urlopen(f"{self.sandbox_url}/sandbox/{name}") as reply:
            return json.load(reply)

    def ledger(self) -> dict[str, Any]:
        """The sandbox's bill, when everything it has was carried out."""
        while any(batch["outcome"] is None for batch in self.page("batches")):
            time.sleep(0.05)
        found: dict[str, Any] = self.page("ledger?rows=1")
        return found


@contextmanager
def bench(*, preloaded: bool = True) -> Iterator[Bench]:
    """A sandbox process for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="processes-") as name:
        folder = Path(name)
        ready = folder / "sandbox.env"
        arguments = ["sandbox", "--port", "0", "--batch-seconds", "0.3", "--env-file", str(ready)]
        server = subprocess.Popen(
            [sys.executable, "-m", "layton_batch", *arguments], cwd=ROOT, stderr=subprocess.DEVNULL
        )
        try:
            while not ready.exists():
                assert server.poll() is None, "the sandbox did not start"
                time.sleep(0.02)
            values = {key: str(value) for key, value in dotenv_values(ready).items()}
            url = "/".join(values["ANTHROPIC_BASE_URL"].split("/")[:3])
            with GoBetween(url) as way:
                environment = {key: value.replace(url, way.url) for key, value in values.items()}
                yield Bench(folder, url, way, environment, preloaded)
        finally:
            server.terminate()
            server.wait()


@functools.cache
def _server() -> BaseContext:
    """Where preloaded commands come from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.processes.hasty", *SDKS])
    return context


def broken_claims(place: Bench, status: Mapping[str, Any], providers: Sequence[str]) -> list[str]:
    """What must hold when a run is over; nothing else may have run at these providers."""
    broken = []
    ledger = place.ledger()
    times: dict[str, int] = {}
    for row in ledger["rows"]:
        if row["provider"] in providers:
            times[row["custom_id"]] = times.get(row["custom_id"], 0) + 1
    if set(times.values()) != {1} or len(times) != ITEMS * len(status["jobs"]):
        broken.append(f"billed: {times}")
    for job in status["jobs"]:
        if job["succeeded"] != job["requests"] or job["waiting"]:
            broken.append(f"job {job['id']}: {job}")
    if status["state"] != "done":
        broken.append(f"the run is {status['state']}")
    ours = {batch["provider_id"] for batch in status["batches"]}
    theirs = {batch["id"] for batch in place.page("batches") if batch["provider"] in providers}
    if ours != theirs:
        broken.append(f"batches: ours {sorted(ours)}, the providers' {sorted(theirs)}")
    left = [str(path) for path in (place.folder / "runs" / status["run"]).rglob(".*.tmp")]
    return broken + [f"left over: {path}" for path in left]
