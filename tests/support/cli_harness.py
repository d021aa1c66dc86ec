"""The commands as a person at a desk gives them, in this process, against a sandbox on a clock that moves by itself."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.cli import main
from layton_batch.clock import SystemClock
from layton_batch.sandbox import Fault
from layton_batch.settings import Settings
from tests.support.lab import Lab, lab
from tests.support.paths import ROOT

PROGRAM = (sys.executable, "-m", "layton_batch")
NOBODY = "http://127.0.0.1:9"
"""The discard port of this machine: nothing that is sent arrives."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> object:
        """Stdout as the one JSON document it has to be."""
        document: object = json.loads(self.out)
        return document

    def table(self) -> dict[str, object]:
        """The JSON document, an object."""
        document = self.json
        assert isinstance(document, dict)
        return document


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


def call(*arguments: str | Path, is_terminal: bool = False) -> Ending:
    """A command in this process. ``is_terminal``: its stderr is one."""
    out, err = io.StringIO(), Terminal() if is_terminal else io.StringIO()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
            main([str(one) for one in arguments])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert isinstance(end.value.code, int)
    return Ending(end.value.code, out.getvalue(), err.getvalue())


def refused(*arguments: str | Path) -> str:
    """Give a command that is refused; return its messages."""
    ending = call(*arguments)
    assert (ending.code, ending.out, "Traceback" in ending.err) == (2, "", False), ending.err
    return ending.err


def plan_notes(manifest: Path) -> str:
    """Return the notes of a plan in one line."""
    caveats = call("plan", manifest, "--offline", "--json").table()["caveats"]
    assert isinstance(caveats, list)
    return " · ".join(map(str, caveats))


def start(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A command in a process of its own, which has no other variables than it needs and those given."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        cwd=cwd,
        env={**kept, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(cwd / "user"), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], seconds: float = 60.0) -> Ending:
    """Wait for a process; one that hangs is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return Ending(process.returncode, out, err)


def write(folder: Path, text: str, name: str = "manifest.toml") -> Path:
    """A text file in a folder."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@dataclass(frozen=True, slots=True)
class Desk:
    """A folder to work in, a lab whose sandbox the environment points at, and the lab's clock for every command."""

    lab: Lab

    @property
    def folder(self) -> Path:
        return self.lab.folder

    def write(self, text: str, name: str = "manifest.toml") -> Path:
        return write(self.folder, text, name)

    def server_total(self) -> Decimal:
        """What the sandbox has billed so far, in USD; batches are carried out when they are looked at, so all are."""
        self.lab.billed()
        return self.lab.server.ledger().total_usd

    def use_own_keys(self, patch: pytest.MonkeyPatch) -> None:
        """Call the sandbox with keys that it did not give out, so that its answers do not count as made up."""
        variables = self.lab.server.environment()
        variables |= {name: f"own-{value}" for name, value in variables.items() if name.endswith("_KEY")}
        for name, value in variables.items():
            patch.setenv(name, value)
        self.lab.settings = Settings.from_environment(variables, self.folder)

    def run_root(self) -> Path:
        """The folder of the only run."""
        (found,) = (path.parent for path in self.lab.runs.glob("*/run.json"))
        return found


@contextmanager
def desk(folder: Path, patch: pytest.MonkeyPatch, *faults: Fault, batch_seconds: float = 60.0) -> Iterator[Desk]:
    """A desk in ``folder``; undone with ``patch``."""
    with lab(folder, *faults, batch_seconds=batch_seconds) as bench:
        for name, value in bench.server.environment().items():
            patch.setenv(name, value)
        patch.setenv("XDG_STATE_HOME", str(folder / "user"))
        patch.chdir(folder)
        # the methods, not the name: a module that is first imported meanwhile must not keep this clock
        patch.setattr(SystemClock, "now", lambda _self: bench.clock.now())
        patch.setattr(SystemClock, "sleep", lambda _self, seconds: bench.clock.sleep(seconds))
        yield Desk(bench)


def called_at(url: str, *providers: str) -> str:
    """The line on stderr that names providers at another address, before the first call."""
    prefixes = ["GOOGLE_GEMINI" if name == "gemini" else name.upper() for name in providers]
    variables = ", ".join(f"{prefix}_BASE_URL" for prefix in prefixes)
    its = ("is", "its own address") if len(providers) == 1 else ("are", "their own addresses")
    return f"{', '.join(providers)} {its[0]} called at {url} ({variables} in the environment), not at {its[1]}\n"
