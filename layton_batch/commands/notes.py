"""Notes for a person, as log records: the command line prints them, Python's logging takes them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from layton_batch.reports.table import Document

LOG = logging.getLogger("layton_batch.commands")
"""The command line prints each note at once."""
NOTES = logging.getLogger("layton_batch.commands.notes")
"""Notes on a document. The command line prints them below it."""


def warn(notes: Iterable[str], log: logging.Logger = LOG) -> None:
    """Log notes for a person."""
    for text in notes:
        log.warning("%s", text)


def note(line: str) -> None:
    """Log what a command does. The command line prints it; Python's logging leaves it out unless it is set up."""
    LOG.info("%s", line)


@dataclass(frozen=True, slots=True)
class TextDocument(Document):
    """A document that is told in sentences. ``lines``: what a person reads."""

    FORMATS: ClassVar[tuple[str, ...]] = ("table",)
    lines: tuple[str, ...]

    def show(self) -> None:
        warn(self.lines)

    def as_json(self) -> object:
        return list(self.lines)
