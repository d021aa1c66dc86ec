"""Changes of a board: a dated snapshot for each time that a run was over with another board, and what differs.

Snapshots are kept in the run's ``history/``, a JSON file each, so that a board that is refreshed for years keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from layton_batch.errors import FileError
from layton_batch.files import atomic
from layton_batch.files.table_columns import LEADERBOARD
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.leaderboard import METHOD_WORDS
from layton_batch.text import number_text

_SCHEMA: Mapping[str, pl.DataType] = {name: column.dtype for name, column in LEADERBOARD.items() if column.in_history}
_MOVED = 0.05
"""Points: what is less is not seen in print."""


@dataclass(frozen=True, slots=True, eq=False)
class BoardSnapshot:
    """A board as it was: the columns of the leaderboard that history keeps. ``at``: epoch seconds."""

    at: float
    board: pl.DataFrame

    def lines(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield each model's name and row."""
        for row in self.board.iter_rows(named=True):
            yield Entrant.of(row).name, row


def keep(folder: Path, board: pl.DataFrame, at: float) -> bool:
    """Add a snapshot of the leaderboard unless the last one is the same; returns whether there is a new one."""
    taken = board.select(*_SCHEMA)
    if taken.is_empty() or taken_at(folder, board) is not None:
        return False
    content = orjson.dumps({"at": at, "rows": taken.to_dicts()}, option=orjson.OPT_INDENT_2) + b"\n"
    # without the date: after a kill, the next run writes the same name, whose digest may be recorded already
    atomic.write_bytes(folder / f"{_last_number(folder) + 1:04d}.json", content)
    return True


def taken_at(folder: Path, board: pl.DataFrame) -> float | None:
    """Return when the last snapshot was taken (epoch seconds); None where it shows another board. Raises FileError."""
    earlier = snapshots(folder)
    return earlier[-1].at if earlier and earlier[-1].board.equals(board.select(*_SCHEMA)) else None


def _last_number(folder: Path) -> int:
    """Return the number of the newest snapshot; 0 if there is none."""
    return max((_number(path) for path in folder.glob("*.json")), default=0)


def _number(path: Path) -> int:
    """Return the number that names a snapshot; 0 for another file."""
    return int(path.stem) if path.stem.isdecimal() else 0


def snapshots(folder: Path) -> list[BoardSnapshot]:
    """All of a run, oldest first. Raises FileError for one that cannot be read."""
    read = []
    for path in sorted(folder.glob("*.json"), key=_number):
        try:
            document = orjson.loads(path.read_bytes())
            rows = [{"model": row["model"], **row} for row in document["rows"]]  # a row names its model
            read.append(BoardSnapshot(float(document["at"]), pl.DataFrame(rows, schema=_SCHEMA)))
        except (OSError, ValueError, TypeError, KeyError, pl.exceptions.PolarsError) as error:
            raise FileError(f"{path} is no snapshot of a board: move it away, and the others are shown") from error
    return read


def changes(before: BoardSnapshot, after: BoardSnapshot) -> list[str]:
    """Describe the changes between two boards in sentences: first the reasons, then the moved scores."""
    return [*_reasons(before, after), *_moves(before, after)]


def _reasons(before: BoardSnapshot, after: BoardSnapshot) -> Iterator[str]:
    old, new = dict(before.lines()), dict(after.lines())
    if added := [name for name in new if name not in old]:
        yield f"Added: {', '.join(added)}."
    if gone := [name for name in old if name not in new]:
        yield f"No longer on the board: {', '.join(gone)}."
    for column in ("method", "metric", "level"):
        was, now = before.board[column][0], after.board[column][0]
        if was != now:
            yield f"{column.capitalize()}: {METHOD_WORDS.get(was, was)} before, {METHOD_WORDS.get(now, now)} now."
    labels = [board.board["own_labels"].sum() for board in (before, after)]
    if labels[0] != labels[1]:
        yield f"Human labels of these models: {labels[0]:,} before, {labels[1]:,} now."
    items = [set(board.board["n_items"]) for board in (before, after)]
    if items[0] != items[1] and new.keys() & old.keys():
        yield f"Items: {_counts(items[0])} before, {_counts(items[1])} now."


def _moves(before: BoardSnapshot, after: BoardSnapshot) -> Iterator[str]:
    old = dict(before.lines())
    for name, row in after.lines():
        if name not in old:
            continue
        was, now, old_rank, rank = old[name]["score"], row["score"], old[name]["rank"], row["rank"]
        moved = None in (was, now) or abs(now - was) >= _MOVED
        if was != now and moved:
            place = "" if old_rank == rank else f", rank {number_text(old_rank, 0)} → {number_text(rank, 0)}"
            yield f"{name}: {number_text(was)} → {number_text(now)}{place}."
        elif old_rank != rank:
            yield f"{name}: rank {number_text(old_rank, 0)} → {number_text(rank, 0)}."


def _counts(counts: set[int]) -> str:
    return " or ".join(f"{count:,}" for count in sorted(counts))
