"""``python -m tests.processes.hasty ARGUMENTS``: the real command, with waits of tenths of a second.

Nothing else about it differs. ``KILL_IN_COMMIT=N:SECONDS`` has it killed, by a signal that nothing can catch, that long
after it begins its N-th commit to the state store.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any
from unittest import mock

from sqlalchemy.engine.default import DefaultDialect

from layton_batch.cli import main
from layton_batch.stages import backoff, submit
from layton_batch.store import leases

LOOK_SECONDS = 0.3
FIRST_SECONDS = 0.2


def hasten() -> None:
    """Real waits are for real providers."""
    submit.LOOK_SECONDS = LOOK_SECONDS
    backoff.FIRST_SECONDS = FIRST_SECONDS
    leases.SOON_SECONDS = FIRST_SECONDS


def kill_in_commit(number: int, seconds: float) -> None:
    """From now on the process dies while SQLite carries out its ``number``-th commit."""
    original = DefaultDialect.do_commit
    begun: list[int] = []

    def die() -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    def do_commit(dialect: DefaultDialect, connection: Any) -> None:
        begun.append(1)
        if len(begun) == number:
            threading.Thread(target=die).start()
        original(dialect, connection)

    mock.patch.object(DefaultDialect, "do_commit", do_commit).start()


def command(arguments: list[str]) -> None:
    """Run the command and exit with its code."""
    hasten()
    if wanted := os.environ.get("KILL_IN_COMMIT"):
        kill_in_commit(int(wanted.partition(":")[0]), float(wanted.partition(":")[2]))
    main(arguments)


def forked(arguments: list[str], environment: dict[str, str], output: str, errors: str) -> None:
    """The command in a process forked from one that has loaded it, instead of loading it anew."""
    os.environ.update(environment)
    for stream, path in ((sys.stdout, output), (sys.stderr, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream.fileno())
    command(arguments)


if __name__ == "__main__":
    command(sys.argv[1:])
