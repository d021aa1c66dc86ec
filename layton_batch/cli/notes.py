"""Notes of commands on stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from layton_batch.cli.terminal import say
from layton_batch.commands.notes import LOG, NOTES


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
