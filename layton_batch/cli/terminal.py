"""What reaches a terminal: text made harmless, consoles, JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from rich.console import Console


def plain(text: str) -> str:
    """Text without control, direction or invisible characters: what models and providers wrote must not act."""
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)


def console(*, stderr: bool = False) -> Console:
    """A Rich console; NO_COLOR is honoured; without a terminal tables may be as wide as they like."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 120, highlight=False, soft_wrap=False)


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode())
    sys.stdout.write("\n")


def say(message: str) -> None:
    """A line for people, on stderr."""
    sys.stderr.write(plain(message) + "\n")
    sys.stderr.flush()
