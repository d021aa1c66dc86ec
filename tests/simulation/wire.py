"""The child's end of the wire to the conductor, and the clock that it reads."""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

_real_time, _real_sleep = time.time, time.sleep
_NOBODY_THERE = 70


class Wire:
    """Connections to the conductor, one for each thread, and its clock in a shared page of memory.

    ``ahead``: seconds by which the clock of this process is ahead of the conductor's.
    """

    def __init__(self, address: str, number: int, ahead: float) -> None:
        self._address, self._number, self._ahead = address, number, ahead
        with Path(f"{address}.clock").open("rb") as file:
            self._page = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
        self._local = threading.local()

    def now(self) -> float:
        """Return the time of this process (epoch seconds)."""
        seconds: float = struct.unpack("d", self._page[:8])[0]
        return seconds + self._ahead

    def ask(self, kind: str, *details: Any) -> Any:
        """Send a message and return the reply, for as long as the conductor keeps this thread waiting."""
        try:
            connection = self._connection()
            connection.send((kind, details))
            return connection.recv()
        except (EOFError, ConnectionError):
            os._exit(_NOBODY_THERE)

    def _connection(self) -> Connection[Any, Any]:
        connection: Connection[Any, Any] | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = Client(self._address, "AF_UNIX")
            is_main = threading.current_thread() is threading.main_thread()
            connection.send((self._number, is_main))
        return connection


wire: Wire | None = None
"""None until this process is a life of the program."""


def _time() -> float:
    return _real_time() if wire is None else wire.now()


def _sleep(seconds: float) -> None:
    if wire is None:
        _real_sleep(seconds)
    else:
        wire.ask("sleep", seconds)


def replace_clock() -> None:
    """Have ``time.time`` and ``time.sleep`` go by the conductor's clock in every life.

    To be called before the program is imported, which may keep them.
    """
    time.time, time.sleep = _time, _sleep  # type: ignore[assignment]


def open_wire(address: str, number: int, ahead: float) -> None:
    """Make this process a life of the program."""
    global wire
    wire = Wire(address, number, ahead)


def ask(kind: str, *details: Any) -> Any:
    """Send a message to the conductor and return its reply; None in a process that is no life."""
    return None if wire is None else wire.ask(kind, *details)
