"""Claims: the answers that each app beside a folder of labels is showing, so that two apps do not show the same one.

A claim is a file that its app holds locked. The file of an app that has ended is not locked: the next app removes it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from secrets import token_hex

import orjson

from layton_batch.files import atomic
from layton_batch.reports.label_sheet import Key

_PREFIX = ".shown-"


@dataclass(eq=False)
class Claims:
    """The claims in a folder of labels, as one app makes and sees them. Where nothing can be written, it makes none."""

    folder: Path
    _file: FileIO | None = None
    _name: str = field(default_factory=lambda: f"{_PREFIX}{token_hex(8)}")

    def claim(self, answers: Collection[Key]) -> None:
        """Claim these answers for this app, and no others any more."""
        with suppress(OSError):
            if self._file is None:
                atomic.make_folder(self.folder)
                self._file = (self.folder / self._name).open("wb", buffering=0)
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._file.truncate(0)
            os.pwrite(self._file.fileno(), orjson.dumps(list(answers)), 0)

    def of_others(self) -> set[Key]:
        """Return the answers that other apps are showing."""
        claimed: set[Key] = set()
        for path in self.folder.glob(f"{_PREFIX}*"):
            if path.name != self._name:
                with suppress(OSError, ValueError):
                    claimed |= _claimed(path)
        return claimed

    def close(self) -> None:
        """Give up all claims of this app."""
        if self._file is not None:
            self._file.close()
            (self.folder / self._name).unlink(missing_ok=True)
            self._file = None


def _claimed(path: Path) -> set[Key]:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # its app is running
            rows: list[list[str]] = orjson.loads(file.read())
            return {(item, provider, model, int(hints)) for item, provider, model, hints in rows}
        path.unlink()
        return set()
