"""Frames that can be made again at any time, kept on disk under names that tell what they were made from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from layton_batch.errors import LaytonBatchError
from layton_batch.files import tables


@dataclass(slots=True)
class KeptFrames:
    """A folder of such frames. What cannot be written there is held in memory; what cannot be read is made again."""

    folder: Path
    _asked: set[str] = field(default_factory=set)
    _held: dict[str, pl.DataFrame] = field(default_factory=dict)

    def get(self, name: str) -> pl.DataFrame | None:
        """The frame that was kept under this name."""
        self._asked.add(name)
        with suppress(LaytonBatchError):
            return tables.read_part(self._path(name))
        return self._held.get(name)

    def put(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Keep the frame, and give it back."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            tables.write(self._path(name), frame)
        except (LaytonBatchError, OSError):
            self._held[name] = frame
        return frame

    def made(self, name: str, make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The frame under this name, made and kept where there is none."""
        known = self.get(name)
        return self.put(name, make()) if known is None else known

    def sweep(self, most: int) -> None:
        """Delete what was not asked for, where there are more than ``most`` frames."""
        with suppress(OSError):
            there = list(self.folder.glob("*.parquet"))
            for path in there if len(there) > most else ():
                if path.stem not in self._asked:
                    path.unlink()

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"
