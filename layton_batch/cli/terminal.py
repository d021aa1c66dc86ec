"""What reaches a terminal: text made harmless, consoles, JSON; and what a terminal's user sends back, to stop."""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import orjson

from layton_batch.invisible import printable
from layton_batch.processes import hear_interrupts

if TYPE_CHECKING:
    from rich.console import Console

WITHOUT_TERMINAL = 120
"""Columns where there is no terminal to ask."""


def plain(text: str) -> str:
    """Text without control, direction or invisible characters: what models and providers wrote must not act."""
    return printable(text, keep="\n")


def one_line(text: str) -> str:
    """``plain`` text that cannot start a line of its own."""
    return " ".join(plain(text).split("\n"))


def console(*, stderr: bool = False) -> Console:
    """A Rich console; NO_COLOR is honoured; without a terminal tables may be as wide as they like."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else WITHOUT_TERMINAL, highlight=False, soft_wrap=False)


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode())
    sys.stdout.write("\n")


def say(message: str) -> None:
    """A line for people, on stderr."""
    sys.stderr.write(plain(message) + "\n")
    sys.stderr.flush()


def forgiving_streams() -> None:
    """Where the locale's encoding lacks a character, print a stand-in rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


@contextmanager
def terminating() -> Iterator[None]:
    """While the block runs, SIGTERM ends it the way Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    hear_interrupts()
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
