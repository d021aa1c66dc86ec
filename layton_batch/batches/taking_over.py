"""Answers that were paid for already, copied to where they are wanted: the response, what it cost, and the provider's
own line, so that a run needs no other run's folder to show what an answer came from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TypeVar

import polars as pl
import zstandard

from layton_batch.batches import raw_results
from layton_batch.batches.paid_answers import Paid
from layton_batch.errors import DamagedTableError
from layton_batch.files import atomic, tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.providers.damaged_rows import named_in
from layton_batch.records import Batch, End, RowCount
from layton_batch.runs.context import Run
from layton_batch.states import ErrorClass, RequestOutcome
from layton_batch.text import plural

_KEPT = 4
"""Parts of a table that are in memory at a time."""
_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class TakenOver:
    """An answer that a request of this run gets, under its own name."""

    custom_id: str
    paid: Paid


def write_tables(run: Run, batch: Batch, taken: Sequence[TakenOver], role: str, model: str) -> dict[str, End]:
    """Write the answers as responses of the batch, what they cost when they were paid for into the table ``reused``,
    and into ``raw/`` the lines in which they came to another run. Return how each ended, by custom_id."""
    ends: dict[str, End] = {}
    reused: list[tables.Row] = []
    responses = _rows(batch, taken, ends, reused, {"role": role, "model": model})
    folder = run.folder.tables / "responses" / batch.id
    tables.write_rows(folder / "00000.parquet", "responses", responses)
    tables.write(run.folder.part("reused", batch.id), tables.frame("reused", reused))
    _copy_lines(run.folder, batch, taken, {str(row["custom_id"]): str(row["paid_as"]) for row in reused})
    return ends


def counts_of(batch: Batch, ends: Mapping[str, End]) -> list[RowCount]:
    """Return how many requests of a batch ended each way."""
    return [RowCount(batch.id, *end, number) for end, number in Counter(ends.values()).items()]


def said_of(taken: Sequence[TakenOver]) -> str:
    """How many answers came from where."""
    runs = sorted({one.paid.run_id for one in taken})
    return f"{plural(len(taken), 'answer')} that {', '.join(runs)} paid for already"


def _rows(
    batch: Batch,
    taken: Sequence[TakenOver],
    ends: dict[str, End],
    reused: list[tables.Row],
    whose: tables.Row,
) -> Iterator[tables.Row]:
    """The responses; beside them it is counted how they ended, and noted what they cost."""
    parts = _Parts()
    for one in taken:
        said = parts.answer(one.paid)
        here = {"custom_id": one.custom_id, "batch_id": batch.id, "attempt": batch.attempt}
        ends[one.custom_id] = RequestOutcome(str(said["outcome"])), ErrorClass(str(said["error_class"]))
        charged = _charged(one.paid, parts)
        if charged is not None:
            paid_by = {} if "run" in charged else {"run": one.paid.run_id, "paid_as": one.paid.custom_id}
            reused.append({**charged, **paid_by, **here, **whose})
        yield {**said, **here, "job_id": batch.job_id}


@dataclass(slots=True)
class _Parts:
    """Parts of tables that were read last: the answers of one batch are mostly taken over in their order."""

    _places: dict[Path, Mapping[str, tuple[Path, int]]] = field(default_factory=dict)
    _frames: dict[Path, pl.DataFrame] = field(default_factory=dict)
    _charges: dict[Path, Mapping[str, tables.Row]] = field(default_factory=dict)

    def answer(self, paid: Paid) -> tables.Row:
        """Return the row of an answer in its table. Raises DamagedTableError where that lacks it."""
        folder = paid.folder.tables / "responses" / paid.batch_id
        if folder not in self._places:
            _make_room(self._places)
            self._places[folder] = _places(folder)
        place = self._places[folder].get(paid.custom_id)
        if place is None:
            raise DamagedTableError(
                f"the answers of batch {paid.batch_id} of run {paid.run_id} lack {paid.custom_id}, which was paid for: "
                f"put {folder} back",
                folder,
            )
        part, row = place
        return self._read(part).row(row, named=True)

    def _read(self, part: Path) -> pl.DataFrame:
        if part not in self._frames:
            _make_room(self._frames)
            self._frames[part] = tables.read_part(part)
        return self._frames[part]

    def charges(self, part: Path) -> Mapping[str, tables.Row]:
        """The rows of a part by custom_id; none where there is no such part."""
        if part not in self._charges:
            _make_room(self._charges)
            rows = tables.read_part(part).iter_rows(named=True) if part.exists() else ()
            found: dict[str, tables.Row] = {}
            for row in rows:
                found.setdefault(row["custom_id"], row)
            self._charges[part] = found
        return self._charges[part]


def _places(folder: Path) -> Mapping[str, tuple[Path, int]]:
    """Return the place of each custom_id: the part of a batch's answers, and its row there."""
    return {
        name: (part, row)
        for part in sorted(folder.glob("*.parquet"))
        for row, name in enumerate(tables.read_part(part, ("custom_id",))["custom_id"])
    }


def _make_room(kept: dict[Path, _Kept]) -> None:
    if len(kept) >= _KEPT:
        del kept[next(iter(kept))]


def _charged(paid: Paid, parts: _Parts) -> tables.Row | None:
    """The usage row of an answer, where it was paid for or where it was taken over to."""
    for name in ("usage", "reused"):
        found = parts.charges(paid.folder.part(name, paid.batch_id)).get(paid.custom_id)
        if found is not None:
            return found
    return None


# ---- the provider's lines ------------------------------------------------------------------------------------------


def _copy_lines(own: RunFolder, batch: Batch, taken: Sequence[TakenOver], paid_as: Mapping[str, str]) -> None:
    """The lines of answers that came to other runs, as they came: under the names that were paid for (``paid_as``).
    What another job of this run was answered is in this run's ``raw/`` already."""
    wanted: dict[Path, set[str]] = defaultdict(set)
    for one in taken:
        if one.paid.folder.root != own.root:
            source = one.paid.folder.raw(one.paid.batch_id)
            wanted[source].add(paid_as.get(one.custom_id, one.paid.custom_id))
    lines = _once(line for source, names in wanted.items() for line in _lines(source, names))
    first = next(lines, None)
    if first is None:
        return
    with (
        atomic.writing(own.raw(batch.id) / "output.jsonl.zst") as handle,
        zstandard.ZstdCompressor(level=3).stream_writer(handle, closefd=False) as out,
    ):
        for line in chain((first,), lines):
            out.write(line + b"\n")


def _once(lines: Iterable[bytes]) -> Iterator[bytes]:
    seen = set[bytes]()
    for line in lines:
        digest = sha256(line).digest()
        if digest not in seen:
            seen.add(digest)
            yield line


def _lines(source: Path, names: set[str]) -> Iterator[bytes]:
    """The lines that name one of these requests, in all copies of a batch's result files."""
    for paths in raw_results.copies(source).values():
        for path in paths:
            for line, _ in raw_results.lines(path):
                if not names.isdisjoint(named_in(line)):
                    yield line
