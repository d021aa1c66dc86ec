"""The standard streams, which never end a command, and the notes that commands print there."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import fill
from typing import TYPE_CHECKING

from layton_batch.commands.notes import LOG, NOTES
from layton_batch.text import plain

if TYPE_CHECKING:
    from typing_extensions import Buffer


def print_json(value: object, *, line: bool = False) -> None:
    """Print one JSON document on stdout; as a ``line`` it is flushed at once, for a reader that follows."""
    from layton_batch.reports.table import json_line, json_text

    sys.stdout.write(json_line(value) if line else json_text(value))
    if line:
        sys.stdout.flush()


def say(message: str) -> None:
    """Print a message for people on stderr; on a terminal its lines break at blanks."""
    lines = plain(message).split("\n")
    if sys.stderr.isatty():
        from layton_batch.reports.table import console

        width = console(stderr=True).width
        lines = [fill(line, width, break_long_words=False, break_on_hyphens=False) for line in lines]
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


class _Sink(io.FileIO):
    """A descriptor that takes whatever is written. ``lost``: why it did not get all of it (full disk, gone reader)."""

    lost: OSError | None = None

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.lost = error
            return memoryview(data).nbytes


def forgiving_streams() -> None:
    """Printing never ends a command: a closed or full stream takes what it can (:func:`lost_output` tells), and where
    the locale's encoding lacks a character, a stand-in is printed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # was closed when this process began, and its number may be another file's by now
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  as long as the process
        elif stream is getattr(sys, f"__{name}__") and isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, _forgiving(stream))
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _forgiving(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    if isinstance(getattr(stream.buffer, "raw", None), _Sink):
        return stream
    stream.flush()
    errors = "replace" if stream.errors == "strict" else stream.errors
    buffer = io.BufferedWriter(_Sink(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(buffer, stream.encoding, errors, line_buffering=stream.line_buffering)


def lost_output() -> OSError | None:
    """Return the error that stopped writing to stdout; None also if the reader ended early (``| head``)."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    lost = raw.lost if isinstance(raw, _Sink) else None
    return None if isinstance(lost, BrokenPipeError) else lost


class _Saying(logging.Handler):
    """Prints notes on stderr; those on a document wait while ``held`` is a list."""

    held: list[str] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.held is not None and record.name == NOTES.name:
            self.held.append(record.getMessage())
        else:
            say(record.getMessage())


_HANDLER = _Saying(logging.INFO)


@contextmanager
def notes_said() -> Iterator[None]:
    """Print the notes of commands on stderr meanwhile."""
    level = LOG.level
    LOG.addHandler(_HANDLER)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.setLevel(level)
        LOG.removeHandler(_HANDLER)


@contextmanager
def notes_below() -> Iterator[None]:
    """Print notes on a document at the end of the block, unless it fails."""
    _HANDLER.held = []
    try:
        yield
        for line in _HANDLER.held:
            say(line)
    finally:
        _HANDLER.held = None
