"""How a board changed: a dated snapshot for each time that a run was over with another board, and what differs.

Snapshots are kept in the run's ``history/``, a JSON file each, so that a board that is refreshed for years keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pydantic
from pydantic import BaseModel, ConfigDict

from layton_batch.clock import utc
from layton_batch.errors import FileError
from layton_batch.files import atomic
from layton_batch.text import number_text

COLUMNS = (
    "rank", "rank_best", "rank_worst", "model", "provider", "n_hints", "score", "lower", "upper", "target",
    "set_score", "set_lower", "set_upper", "method", "metric", "level", "n_items", "own_labels",
    "borrowed_labels", "flags",
)  # fmt: skip
"""Columns of the leaderboard that a snapshot keeps."""
_MOVED = 0.05
"""Points: what is less is not seen in print."""


class Line(BaseModel):
    """One row of a board; scores in percent."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    model: str
    provider: str
    n_hints: int = 0
    method: str
    metric: str
    level: float = 0.95
    rank: int | None = None
    rank_best: int | None = None
    rank_worst: int | None = None
    score: float | None = None
    lower: float | None = None
    upper: float | None = None
    target: str | None = None
    set_score: float | None = None
    set_lower: float | None = None
    set_upper: float | None = None
    n_items: int = 0
    own_labels: int | None = None
    borrowed_labels: int | None = None
    flags: str | None = None

    @property
    def name(self) -> str:
        return f"{self.model} ({self.n_hints} hints)" if self.n_hints else self.model


class Snapshot(BaseModel):
    """A board as it was. ``at``: epoch seconds; ``rows`` in the board's order."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    at: float
    rows: tuple[Line, ...]


def keep(folder: Path, rows: Sequence[Mapping[str, object]], at: float) -> bool:
    """Add a snapshot of the leaderboard's rows unless the last one is the same; returns whether there is a new one."""
    kept = ({name: row[name] for name in COLUMNS if row.get(name) is not None} for row in rows)
    taken = Snapshot(at=at, rows=tuple(map(Line.model_validate, kept)))
    known = snapshots(folder)
    if not taken.rows or (known and known[-1].rows == taken.rows):
        return False
    atomic.make_folder(folder)
    name = f"{utc(at):%Y%m%dT%H%M%S}-{len(known) + 1:04d}.json"  # the number, for clocks that were put back
    atomic.write_text(folder / name, taken.model_dump_json(indent=1) + "\n")
    return True


def snapshots(folder: Path) -> list[Snapshot]:
    """All of a run, oldest first. Raises FileError for one that cannot be read."""
    found = []
    for path in sorted(folder.glob("*.json"), key=lambda one: one.stem.rpartition("-")[2]):
        try:
            found.append(Snapshot.model_validate_json(path.read_bytes()))
        except (OSError, pydantic.ValidationError) as error:
            raise FileError(f"{path} is no snapshot of a board: move it away, and the others are shown") from error
    return found


def changes(before: Snapshot, after: Snapshot) -> list[str]:
    """What a reader of the later board has to know of the earlier one, a sentence each: why first, then what moved."""
    return [*_reasons(before, after), *_moves(before, after)]


def _reasons(before: Snapshot, after: Snapshot) -> Iterator[str]:
    old, new = _by_name(before), _by_name(after)
    if added := [name for name in new if name not in old]:
        yield f"Added: {', '.join(added)}."
    if gone := [name for name in old if name not in new]:
        yield f"No longer on the board: {', '.join(gone)}."
    first, last = next(iter(before.rows)), next(iter(after.rows))
    for what in ("method", "metric", "level"):
        if getattr(first, what) != getattr(last, what):
            yield f"The {what} was {getattr(first, what)} and is {getattr(last, what)}."
    labels = [sum(one.own_labels or 0 for one in board.values()) for board in (old, new)]
    if labels[0] != labels[1]:
        yield f"Human labels of these models: {labels[0]:,} before, {labels[1]:,} now."
    items = [{one.n_items for one in board.values()} for board in (old, new)]
    if items[0] != items[1] and new.keys() & old.keys():
        yield f"Items: {_counts(items[0])} before, {_counts(items[1])} now."


def _moves(before: Snapshot, after: Snapshot) -> Iterator[str]:
    old = _by_name(before)
    for one in after.rows:
        was = old.get(one.name)
        if was is None:
            continue
        moved = None in (was.score, one.score) or abs((one.score or 0.0) - (was.score or 0.0)) >= _MOVED
        if was.score != one.score and moved:
            place = "" if was.rank == one.rank else f", rank {number_text(was.rank, 0)} → {number_text(one.rank, 0)}"
            yield f"{one.name}: {number_text(was.score)} → {number_text(one.score)}{place}."
        elif was.rank != one.rank:
            yield f"{one.name}: rank {number_text(was.rank, 0)} → {number_text(one.rank, 0)}."


def _by_name(snapshot: Snapshot) -> dict[str, Line]:
    return {one.name: one for one in snapshot.rows}


def _counts(found: set[int]) -> str:
    return " or ".join(f"{count:,}" for count in sorted(found))
