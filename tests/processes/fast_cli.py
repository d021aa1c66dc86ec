"""``python -m tests.processes.fast_cli ARGUMENTS``: the real command, with every pause a thousandth of what it is.

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

PACING = 0.001


def hasten() -> None:
    """Real waits are for real providers."""
    os.environ["LAYTON_BATCH_PACING"] = str(PACING)


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
        original(dialect, connection)  # type: ignore[no-untyped-call]

    mock.patch.object(DefaultDialect, "do_commit", do_commit).start()


def command(arguments: list[str]) -> None:
    """Run the command and exit with its code."""
    hasten()
    if wanted := os.environ.get("KILL_IN_COMMIT"):
        kill_in_commit(int(wanted.partition(":")[0]), float(wanted.partition(":")[2]))
    main(arguments)


if __name__ == "__main__":
    command(sys.argv[1:])
