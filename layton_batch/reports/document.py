"""A document: what a command returns, and every surface on which it can be shown."""

from __future__ import annotations

from typing import ClassVar


class Document:
    """Facts that a command returns. The command line takes ``--json`` or ``--format`` by ``FORMATS``."""

    __slots__ = ()
    FORMATS: ClassVar[tuple[str, ...]] = ("table", "json")
    """Forms that the document can be printed in; ``table`` is for a terminal."""

    def end(self) -> int:
        """Return the exit code of the command that gives the document, or raise the error that the command ends with
        once the document is shown."""
        return 0

    def show(self) -> None:
        """Print the document for a person."""
        raise NotImplementedError

    def as_json(self) -> object:
        """Return the document as JSON values."""
        raise NotImplementedError

    def text(self, form: str) -> str:
        """Return the document as a file of another form of ``FORMATS``."""
        raise NotImplementedError
