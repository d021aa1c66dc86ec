"""What is wrong with a file of items, found before anybody pays for asking them."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.sources import Row, RowLocation, Rows
from layton_batch.files.wrong_rows import with_more
from layton_batch.manifest.money_checks import (
    FIRST_IS_NEVER_RIGHT,
    first_is_never_right,
    lacks_reference,
    repeated_questions,
)
from layton_batch.records import Image, Item
from layton_batch.tasks import BUILT_IN, CHOICES, OWN, load_task
from layton_batch.tasks.protocol import Task, TaskOptions

SPLITS = ("llm", "vlm")
"""Tried for every file, with what its rows name."""
_TRIED = 5
"""Rows in which a column is tried."""
_IDS = ("id", "item_id", "record id", "record_id", "question_id")
"""Columns with the id of an item; the task for a user's own questions reads the first only."""
_NO_ID = "the id is empty, so the row's number is its id: give every row an id"
_LETTERED = frozenset({"question", "a", "b"})
"""Columns of multiple choice with a column an option."""


@dataclass(frozen=True, slots=True)
class ItemFinding:
    """``kind``: ``row``, ``missing``, ``picture``, ``options``, ``same id``, ``duplicate`` or
    ``no reference``; ``item`` is empty if a row has no id; ``line`` of the file."""

    kind: str
    item: str
    line: int
    text: str

    @property
    def level(self) -> str:
        """Return ``error`` if a run would refuse or misread the row, else ``warning``."""
        return "error" if self.kind in _ERRORS else "warning"


_ERRORS = frozenset({"row", "same id", "picture"})


@dataclass(frozen=True, slots=True)
class ItemCheck:
    """``fits``: how many rows each split takes; ``unread``: columns that the task does not read."""

    task: str
    rows: int
    fits: Mapping[str, int]
    findings: tuple[ItemFinding, ...]
    unread: tuple[str, ...] = ()

    @property
    def has_errors(self) -> bool:
        """Return whether anything found is more than a warning."""
        return any(finding.level == "error" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _ItemRow:
    """A row that is an item, with its line in the file and the splits that take it."""

    item: Item
    row: Row
    line: int
    splits: Collection[str] = ()


def guess_task(rows: Rows) -> str:
    """Return the built-in task that takes most of the first rows; if none does, the task for a user's own questions.

    Raises ManifestError if that task takes none either.
    """
    sample = Rows(rows.rows[:20], rows.locations[:20])
    fits = {name: len(_fitting(name, sample)[0]) for name in BUILT_IN if name != OWN}
    best = max(fits, key=lambda name: fits[name])
    if fits[best]:
        return best
    fitting, refused = _fitting(OWN, sample)
    columns = {name.strip().casefold() for row in sample for name in row}
    if fitting and columns >= _LETTERED:
        fitting, refused = {}, _fitting(CHOICES, sample)[1]
    if not fitting:
        file = rows.locations[0].file
        raise ManifestError(f"{file}: no task takes these rows: {_first_of(refused)}")
    return OWN


def _first_of(refused: Sequence[ItemFinding]) -> str:
    """Name the first refused row, and the places of the others."""
    first, *further = refused
    return with_more(f"line {first.line}: {first.text}", [f"line {finding.line}" for finding in further])


def guess_split(rows: Rows, name: str) -> str:
    """Return the split of the task that takes most rows."""
    counts = Counter(split for splits in _fitting(name, rows)[0].values() for split in splits)
    return max(counts, key=lambda split: counts[split], default=SPLITS[0])


def check_items(rows: Rows, name: str) -> ItemCheck:
    """Check the rows as items of a task. Raises ManifestError for an unknown task."""
    fitting, refused = _fitting(name, rows)
    tasks = _tasks(name, rows)
    fits: Counter[str] = Counter()
    item_rows: dict[int, _ItemRow] = {}
    for split, task in tasks.items():
        fitting_rows = [at for at in range(len(rows)) if split in fitting.get(at, ())]
        fits[split] = len(fitting_rows)
        items = task.items(
            Rows(tuple(rows.rows[at] for at in fitting_rows), tuple(rows.locations[at] for at in fitting_rows))
        )
        for at, item in zip(fitting_rows, items, strict=True):
            item_rows.setdefault(at, _ItemRow(item, rows.rows[at], rows.locations[at].line, fitting[at]))
    ordered = [item_rows[at] for at in sorted(item_rows)]
    findings = [
        *refused,
        *_missing(ordered, needs_reference=any(task.uses_jury for task in tasks.values())),
        *_broken_pictures(ordered),
        *_options(ordered),
        *_ids(ordered, _IDS[:1] if name == OWN else _IDS),
        *_duplicates(ordered),
    ]
    counts = {split: count for split, count in fits.items() if count}
    return ItemCheck(
        name,
        len(rows),
        counts,
        tuple(sorted(findings, key=lambda finding: finding.line)),
        unread_columns(rows, name),
    )


# ---- columns ---------------------------------------------------------------------------------------------------------


def unread_columns(rows: Rows, name: str) -> tuple[str, ...]:
    """Return the columns that the task does not read: its items are the same whatever a column holds, and without it.

    A column is tried in a few rows that hold something there.
    """
    tasks = _tasks(name, rows).values()
    columns = dict.fromkeys(column for row in rows for column in row)
    return tuple(column for column in columns if _is_unread(tasks, column, rows))


def _is_unread(tasks: Collection[Task], column: str, rows: Rows) -> bool:
    holding = ((row, at) for row, at in zip(rows.rows, rows.locations, strict=True) if not _is_empty(row.get(column)))
    is_tried = False
    for row, location in islice(holding, _TRIED):
        others: tuple[Row, Row] = ({key: row[key] for key in row if key != column}, {**row, column: [0]})
        for task in tasks:
            if items := _items(task, row, location):
                is_tried = True
                if any(_items(task, other, location) != items for other in others):
                    return False
    return is_tried


def _items(task: Task, row: Row, location: RowLocation) -> Sequence[Item] | None:
    try:
        return task.items(Rows((row,), (location,)))
    except DataError:
        return None


# ---- rows that are items ---------------------------------------------------------------------------------------------


def _tasks(name: str, rows: Rows) -> dict[str, Task]:
    """Load the task for each of its usual splits and each split that the rows name."""
    named = [value for row in rows if isinstance(value := row.get("split"), str) and value]
    folder = Path(rows.locations[0].file).parent
    tasks: dict[str, Task] = {}
    for split in dict.fromkeys((*SPLITS, *named[:10_000])):
        try:
            tasks[split] = load_task(name, TaskOptions(split, folder=folder))
        except ManifestError:
            if not tasks and split == SPLITS[0]:
                raise
    return tasks


def _fitting(name: str, rows: Rows) -> tuple[dict[int, tuple[str, ...]], list[ItemFinding]]:
    """Return the splits that take each row, and the rows that no split takes, with the task's reason."""
    tasks = _tasks(name, rows)
    fits: dict[int, tuple[str, ...]] = {}
    refused = []
    has_several_files = len({location.file for location in rows.locations}) > 1
    for at, (row, location) in enumerate(zip(rows.rows, rows.locations, strict=True)):
        reasons: list[str] = []
        splits = tuple(split for split, task in tasks.items() if _takes(task, row, location, reasons))
        if splits:
            fits[at] = splits
        else:
            reason = reasons[0] if reasons else f"belongs to no split that the task has ({', '.join(tasks)})"
            place = f"{location.file}: " if has_several_files else ""
            refused.append(ItemFinding("row", _id(row), location.line, f"{place}{reason}"))
    return fits, refused


def _takes(task: Task, row: Row, location: RowLocation, reasons: list[str]) -> bool:
    try:
        return bool(task.items(Rows((row,), (location,))))
    except DataError as error:
        reasons.append(str(error).partition(": ")[2] or str(error))
        return False


def _id(row: Row) -> str:
    value = next((row[name] for name in ("id", "item_id", "question_id") if row.get(name) is not None), "")
    return str(value)[:200]


# ---- what is missing -------------------------------------------------------------------------------------------------


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _missing(item_rows: Sequence[_ItemRow], *, needs_reference: bool) -> Iterator[ItemFinding]:
    without = [item_row for item_row in item_rows if needs_reference and lacks_reference(item_row.item)]
    if without and len(without) == len(item_rows):
        reason = "no item says what is right: the jury goes by what it knows itself"
        yield ItemFinding("no reference", "", without[0].line, reason)
        return
    for item_row in without:
        reason = "nothing says what is right: no answer, no solution"
        yield ItemFinding("no reference", item_row.item.id, item_row.line, reason)


# ---- pictures --------------------------------------------------------------------------------------------------------


def _broken_pictures(item_rows: Sequence[_ItemRow]) -> Iterator[ItemFinding]:
    for item_row in item_rows:
        for number, image in enumerate(item_row.item.images, 1):
            if not _is_whole(image):
                reason = f"picture {number} ({image.media_type}) has no end: it was cut off"
                yield ItemFinding("picture", item_row.item.id, item_row.line, reason)


def _is_whole(image: Image) -> bool:
    """Return whether the picture file ends as its format requires. Programs append blanks and zeros."""
    content = base64.b64decode(image.base64)
    if image.media_type == "image/webp":
        return int.from_bytes(content[4:8], "little") + 8 <= len(content)
    ends = {"image/png": b"IEND\xaeB`\x82", "image/jpeg": b"\xff\xd9", "image/gif": b"\x3b"}
    end = ends.get(image.media_type)
    return end is None or content.rstrip(b"\0\r\n ").endswith(end.rstrip(b"\0\r\n "))


# ---- options ---------------------------------------------------------------------------------------------------------


def _options(item_rows: Sequence[_ItemRow]) -> Iterator[ItemFinding]:
    if item_rows and first_is_never_right([item_row.item for item_row in item_rows]):
        yield ItemFinding("options", "", item_rows[0].line, FIRST_IS_NEVER_RIGHT)


# ---- the same twice --------------------------------------------------------------------------------------------------


def _ids(item_rows: Sequence[_ItemRow], columns: Collection[str]) -> Iterator[ItemFinding]:
    """Find ids that are there twice, and rows without an id among rows with one."""
    first_by_id: dict[str, _ItemRow] = {}
    have_ids = [_is_filled(item_row.row, columns) for item_row in item_rows]
    some_have_ids = any(have_ids)
    for item_row, has_id in zip(item_rows, have_ids, strict=True):
        item_id = item_row.item.id
        first = first_by_id.setdefault(item_id, item_row)
        if first is not item_row and not set(first.splits).isdisjoint(item_row.splits):
            reason = f"line {first.line} has this id too; ids must be unique"
            yield ItemFinding("same id", item_id, item_row.line, reason if has_id else f"{_NO_ID}; {reason}")
        elif some_have_ids and not has_id:
            yield ItemFinding("missing", item_id, item_row.line, f"{_NO_ID}; others have one")


def _is_filled(row: Row, columns: Collection[str]) -> bool:
    """Return whether one of the columns has a value in this row."""
    return any(name.strip().casefold() in columns and not _is_empty(value) for name, value in row.items())


def _duplicates(item_rows: Sequence[_ItemRow]) -> Iterator[ItemFinding]:
    lines = {item_row.item.id: item_row.line for item_row in item_rows}
    for item, first in repeated_questions([item_row.item for item_row in item_rows]):
        reason = f"asks the same as {first.id!r} (line {lines[first.id]})"
        yield ItemFinding("duplicate", item.id, lines[item.id], reason)
