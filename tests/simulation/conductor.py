"""Conducts one history: real processes of the program, one clock, one simulated world, each stop between two steps.

Every call, sleep, commit and rename of a living process is a message here, and the process waits for the reply. One
process goes on at a time; at calls and after commits another may have its turn. Time passes when all sleep.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.simulation.world import World
from tests.support.paths import ROOT

START = 1_795_000_000.0
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS")
QUIET_SECONDS = 1.0
"""Real seconds after which a process that says nothing is taken to wait for another one."""
HELD_SECONDS = 0.02
"""The same of a process that waits for a call of its own, or for its reply."""
PATIENCE_SECONDS = 60.0
"""Real seconds after which a history in which nothing happens has failed."""
COMMIT_SECONDS = 0.003
"""About how long a commit takes."""
MOST_POINTS = 60_000
LOOKS = 8
"""The number of lists without a batch after which its create is given up; what it cost is looked for later."""
LONGEST_CALL = 400.0
"""Seconds for which a process may be frozen within its paid call: what takes longer than any call is no promise."""


class Stuck(Exception):
    """The history does not go on."""


class Forks:
    """The process that forks lives; see ``lives``."""

    def __init__(self) -> None:
        environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.simulation.lives"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, bufsize=1, env=environment,
        )  # fmt: skip

    def ask(self, question: Mapping[str, Any]) -> int:
        """Return the process id of a life that was started, or the exit code of one that has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        return int(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()


@dataclass(eq=False, slots=True)
class Life:
    """One process. ``asking``: its messages that wait for a reply; ``main``: the connection of its main thread;
    ``sleeping``: the main thread sleeps. ``then`` gets the exit code."""

    number: int
    name: str
    pid: int
    folder: Path
    then: Callable[[Life, int], None]
    asking: deque[tuple[Connection[Any, Any], tuple[str, Sequence[Any]]]] = field(default_factory=deque)
    connections: list[Connection[Any, Any]] = field(default_factory=list)
    main: Connection[Any, Any] | None = None
    sleeping: bool = False
    held: int = 0
    frozen: bool = False
    stuck: bool = False
    begun: float = 0.0

    @property
    def errors(self) -> str:
        return (self.folder / f"{self.number}.err").read_text(errors="replace")

    @property
    def output(self) -> str:
        return (self.folder / f"{self.number}.out").read_text(errors="replace")


@dataclass(frozen=True, slots=True)
class Stops:
    """When a history strikes: numbers of points at which the process dies, or is frozen for some seconds.

    ``torn``: it dies within the next commit from there on. ``full``: the disk is full at the next file put in place.
    ``latency``: the longest that a call is on its way, and its reply. ``turns``: how likely it is that another process
    has its turn at a point where that may be.
    """

    kills: frozenset[int] = frozenset()
    torn: frozenset[int] = frozenset()
    full: frozenset[int] = frozenset()
    freezes: Mapping[int, float] = field(default_factory=dict)
    latency: float = 0.0
    turns: float = 0.3


class Conductor:
    """One history under way. ``points``: what was passed, in order."""

    def __init__(self, forks: Forks, folder: Path, world: World, stops: Stops, seed: int) -> None:
        self.forks, self.folder, self.world, self.stops = forks, folder, world, stops
        self.points: list[str] = []
        self.killed: list[str] = []
        self.said: list[str] = []
        self.lives: list[Life] = []
        self.output = ""
        """What the process that ended last printed."""
        self.at_point: Callable[[int, Life], bool] = lambda _number, _life: False
        """Told of every point; True: the process dies there."""
        self._draw = random.Random(f"turns {seed}")
        self._torn, self._full = sorted(stops.torn), sorted(stops.full)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._address = str(folder / "wire")
        self._newcomers: list[Connection[Any, Any]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._address)
        self._listener.listen(64)
        self._clock = Path(f"{self._address}.clock")
        self._clock.write_bytes(struct.pack("d", world.now))
        with self._clock.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 8)
        self._active: Life | None = None
        self._answered: dict[Connection[Any, Any], str] = {}
        self.kept: set[str] = set()
        """Our tags of batches whose ids were answered and, in the next transaction of that thread, committed."""
        self.forgotten: set[str] = set()
        """Those of them that were looked for all the same, though no create of theirs can have been given up."""
        self._looks: Counter[str] = Counter()
        self._logs = folder / "lives"
        self._logs.mkdir()

    @property
    def now(self) -> float:
        return self.world.now

    def close(self) -> None:
        """Kill what lives."""
        for life in list(self.lives):
            os.kill(life.pid, signal.SIGKILL)
            self.forks.ask({"reap": life.pid})
        self._listener.close()
        self._page.close()

    def strike_no_more(self) -> None:
        """Let what begins from now on go its way."""
        self.stops, self.at_point = Stops(), lambda _number, _life: False
        self._torn, self._full = [], []

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something when so many seconds have passed."""
        self._count += 1
        self._due.append((self.now + seconds, self._count, action))

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        then: Callable[[Life, int], None],
        ahead: float = 0.0,
    ) -> Life:
        """Start a process that carries out one command."""
        self._count += 1
        number = self._count
        files = {"output": str(self._logs / f"{number}.out"), "errors": str(self._logs / f"{number}.err")}
        asked = {
            "command": list(command), "environment": dict(environment), "folder": str(self.folder), **files,
            "address": self._address, "number": number, "ahead": ahead,
        }  # fmt: skip
        life = Life(number, name, self.forks.ask(asked), self._logs, then, begun=self.now)
        self.said.append(f"{self.now - START:.0f}: {number} begins: {' '.join(command)}")
        self.lives.append(life)
        return life

    def run(self) -> None:
        """Go on until nothing lives and nothing is to come. Raises Stuck."""
        quiet_since = time.monotonic()
        while self.lives or self._due:
            if len(self.points) > MOST_POINTS:
                raise Stuck(f"more than {MOST_POINTS} points")
            life = self._next()
            if not self.lives and not self._due:
                return
            if life is not None and life.asking:
                self._answer(life)
                quiet_since = time.monotonic()
                continue
            is_idle = all(life.sleeping or life.frozen for life in self.lives)
            if is_idle or (life is None and self._due):
                self._pass_time()
                quiet_since = time.monotonic()
                continue
            may_wait = life is not None and (life.held > 0 or len(self.lives) > 1)
            waits = HELD_SECONDS if life is not None and life.held else QUIET_SECONDS if may_wait else 5.0
            if not self._receive(waits) and life is not None and may_wait:
                life.stuck = True
                self._active = None
            if time.monotonic() - quiet_since > PATIENCE_SECONDS:
                raise Stuck(f"nothing was asked for {PATIENCE_SECONDS:.0f} seconds")

    # ---- turns -------------------------------------------------------------------------------------------------------

    def _next(self) -> Life | None:
        """Return the process that goes on: the active one, or one that asks, or one that computes. None: all wait."""
        while self._receive(0.0):
            pass
        active = self._active
        is_there = active is not None and active in self.lives and not active.frozen
        if active is not None and is_there and (active.asking or not (active.sleeping or active.stuck)):
            return active
        ready = [life for life in self.lives if life.asking and not life.frozen]
        if not ready:
            ready = [life for life in self.lives if not (life.sleeping or life.frozen or life.stuck)]
        self._active = self._draw.choice(ready) if ready else None
        return self._active

    def _receive(self, seconds: float) -> bool:
        """Take messages; returns whether there were any. An end of a main connection is the end of a process."""
        by_connection = {connection: life for life in self.lives for connection in life.connections}
        ready = wait([self._listener, *self._newcomers, *by_connection], seconds)
        for source in ready:
            life = by_connection.get(source)  # type: ignore[call-overload]
            if source is self._listener:
                self._newcomers.append(Connection(self._listener.accept()[0].detach()))
                continue
            if life is None:
                self._greet(source)  # type: ignore[arg-type]
                continue
            connection: Connection[Any, Any] = source  # type: ignore[assignment]
            if connection.closed:  # with its process, a moment ago
                continue
            try:
                life.asking.append((connection, connection.recv()))
                life.stuck = False
            except (EOFError, ConnectionError):
                life.connections.remove(connection)
                connection.close()
                if connection is life.main:
                    self._bury(life)
        return bool(ready)

    def _greet(self, connection: Connection[Any, Any]) -> None:
        """Take a connection's first words, once they are there: a process may be frozen before it says them."""
        self._newcomers.remove(connection)
        try:
            number, is_main = connection.recv()
        except (EOFError, ConnectionError):
            connection.close()
            return
        life = next((life for life in self.lives if life.number == number), None)
        if life is None:
            connection.close()
            return
        life.connections.append(connection)
        if is_main:
            life.main = connection

    def _bury(self, life: Life) -> None:
        code = self.forks.ask({"reap": life.pid})
        for connection in life.connections:
            connection.close()
        self.lives.remove(life)
        self.output = life.output
        self.said.append(f"{self.now - START:.0f}: {life.number} ends: {code}")
        life.then(life, code)

    def kill(self, life: Life) -> None:
        """Kill a process."""
        os.kill(life.pid, signal.SIGKILL)
        self._bury(life)

    def _pass_time(self) -> None:
        """Go to the next moment at which something is due, and do it."""
        if not self._due:
            raise Stuck("all wait, and nothing is due")
        moment = min(self._due)[0]
        self.world.now = max(self.now, moment)
        self._page[:8] = struct.pack("d", self.now)
        due = sorted(entry for entry in self._due if entry[0] <= self.now)
        self._due = [entry for entry in self._due if entry[0] > self.now]
        for _, _, action in due:
            action()
        for life in self.lives:
            life.stuck = False

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _answer(self, life: Life) -> None:
        connection, (kind, details) = life.asking.popleft()
        match kind:
            case "sleep":
                self._sleep(life, connection, details[0])
            case "point":
                if self._pass(life, connection, details[0]):
                    self._reply(life, connection, self._is_full(life, details[0]))
                    if details[0] == "commit":
                        self._tear(life)
                    if details[0] == "committed":
                        self.kept |= {self._answered.pop(connection)} if connection in self._answered else set()
                        self._maybe_turn()
            case "call":
                provider, operation, arguments = details
                if self._pass(
                    life,
                    connection,
                    f"sent: {provider} {operation}",
                    then=lambda: self._call(life, connection, *details),
                ):
                    self._hold(life, lambda: self._call(life, connection, provider, operation, arguments))
            case _:
                raise AssertionError(kind)

    def _sleep(self, life: Life, connection: Connection[Any, Any], seconds: float) -> None:
        is_main = connection is life.main
        life.sleeping = life.sleeping or is_main

        def wake() -> None:
            if is_main:
                life.sleeping = False
            self._reply(life, connection, None)

        self.later(max(seconds, 0.001), wake)

    def _pass(
        self, life: Life, connection: Connection[Any, Any], label: str, then: Callable[[], None] | None = None
    ) -> bool:
        """Pass a point. False: the process died there, or is frozen and goes on later by itself."""
        self.points.append(label)
        number = len(self.points)
        if number in self.stops.kills or self.at_point(number, life):
            self.killed.append(label)
            self.said.append(f"{self.now - START:.0f}: {life.number} is killed at {number} {label}")
            self.kill(life)
            return False
        seconds = self.stops.freezes.get(number)
        if seconds is None or label == "commit":
            return True
        if label.endswith("create"):
            seconds = min(seconds, LONGEST_CALL)
        self.said.append(f"{self.now - START:.0f}: {life.number} is frozen at {number} {label} for {seconds:.0f} s")
        os.kill(life.pid, signal.SIGSTOP)
        life.frozen = True

        def thaw() -> None:
            if life not in self.lives:
                return
            os.kill(life.pid, signal.SIGCONT)
            life.frozen = False
            (then or (lambda: self._reply(life, connection, None)))()

        self.later(seconds, thaw)
        return False

    def _tear(self, life: Life) -> None:
        """Kill a process while it commits, where that is due."""
        if self._torn and self._torn[0] <= len(self.points):
            self._torn.pop(0)
            time.sleep(self._draw.random() * COMMIT_SECONDS)
            self.killed.append("within a commit")
            self.said.append(f"{self.now - START:.0f}: {life.number} is killed within the commit at {len(self.points)}")
            self.kill(life)

    def _is_full(self, life: Life, label: str) -> bool:
        """Return whether the disk is full for the file that is put in place now."""
        if not (self._full and self._full[0] <= len(self.points) and label.startswith("rename")):
            return False
        self._full.pop(0)
        self.said.append(f"{self.now - START:.0f}: {life.number} finds the disk full at {len(self.points)} {label}")
        return True

    def _call(
        self, life: Life, connection: Connection[Any, Any], provider: str, operation: str, arguments: Sequence[Any]
    ) -> None:
        """Carry a call out, and reply."""
        if life not in self.lives:
            return
        reply = self.world.call(provider, operation, arguments)
        if operation == "create" and reply[0] == "ok" and len(self.lives) == 1:  # nobody can take the run over
            self._answered[connection] = arguments[-1]
        if operation == "list" and life.name != "resolve":
            self._looks[arguments[0]] += arguments[0] not in self.kept
            if arguments[0] in self.kept and self._looks[arguments[0]] < LOOKS:
                self.forgotten.add(arguments[0])
        if operation in ("create", "cancel") or reply[0] == "error":
            shown = reply[2] if reply[0] == "error" else reply[1]
            self.said.append(f"{self.now - START:.0f}: {life.number} {operation} {provider}: {shown}")
        if self._pass(
            life, connection, f"executed: {provider} {operation}", then=lambda: self._reply(life, connection, reply)
        ):
            self._hold(life, lambda: self._reply(life, connection, reply))
            self._maybe_turn()

    def _hold(self, life: Life, action: Callable[[], None]) -> None:
        """Do something when a message has come to its other end."""
        seconds = self._draw.random() * self.stops.latency
        if not seconds or self._draw.random() < 0.5:
            action()
            return
        life.held += 1

        def arrive() -> None:
            life.held -= 1
            action()

        self.later(seconds, arrive)

    def _reply(self, life: Life, connection: Connection[Any, Any], reply: Any) -> None:
        if life not in self.lives:
            return
        try:
            connection.send(reply)
        except (BrokenPipeError, OSError):
            return

    def _maybe_turn(self) -> None:
        if len(self.lives) > 1 and self._draw.random() < self.stops.turns:
            self._active = None
