"""Faults in a file of items, found before anybody pays for asking them."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from layton_batch.costs.estimate import image_size
from layton_batch.errors import DataError, ManifestError
from layton_batch.files.items import picture_size, shown_digest
from layton_batch.files.sources import Row, RowLocation, Rows, with_more
from layton_batch.providers.protocol import PictureLimits
from layton_batch.records import Image, Item
from layton_batch.tasks import BUILT_IN, CHOICES, OWN, load_task
from layton_batch.tasks.protocol import Task, TaskOptions
from layton_batch.text import first_of, plural, shortened

_FEWEST = 3
"""Items from which on it may be no accident that the first option is right in none of them."""


def item_notes(items: Sequence[Item], task: Task) -> list[str]:
    """Return a sentence for each kind of fault that a run would pay for silently."""
    notes = []
    if task.uses_jury and (without := [item.id for item in items if lacks_reference(item)]):
        notes.append(
            f"{len(without)} of {plural(len(items), 'item')} without a reference ({_listed(without)}): judges go by "
            "what they know there. The column `answer` says what is right"
        )
    if not task.uses_jury and first_is_never_right(items):
        notes.append(FIRST_IS_NEVER_RIGHT)
    if repeated := repeated_questions(items):
        item, first = repeated[0]
        more = f", and {plural(len(repeated) - 1, 'more item')} an earlier one" if len(repeated) > 1 else ""
        notes.append(f"item {item.id!r} asks the same as {first.id!r}{more}: it counts twice; take one out")
    return notes


def picture_notes(items: Sequence[Item], provider: str, limits: PictureLimits) -> list[str]:
    """Return a sentence for each reason for which a provider refuses pictures of these items."""
    heavy = [item for item in items if any(picture_size(image) > limits.characters for image in item.images)]
    large: dict[int, list[Item]] = {}
    for item in items:
        side = limits.side if len(item.images) <= limits.many else limits.side_of_many
        if any(max(size) > side for size in map(image_size, item.images) if size):
            large.setdefault(side, []).append(item)
    notes = [(heavy, f"of more than {limits.characters // 4 * 3:,} bytes")] if heavy else []
    notes += [(refused, f"with a side of more than {side:,} pixels") for side, refused in large.items()]
    return [
        f"{provider} refuses {plural(len(refused), 'item')} for a picture {reason} "
        f"({first_of([item.id for item in refused])}): make it smaller, or leave the item out"
        for refused, reason in notes
    ]


def lacks_reference(item: Item) -> bool:
    """Return whether nothing says what is right."""
    return item.answer is None and item.solution is None


def first_is_never_right(items: Sequence[Item]) -> bool:
    """Return whether items name the right option by an index, and none the first, so that they may count from 1."""
    for item in items:
        order, gold = item.payload.get("order"), item.payload.get("gold")
        if not item.payload.get("is_index") or not isinstance(order, list) or not isinstance(gold, str):
            return False
        if order[ord(gold) - ord("A")] == 0:
            return False
    return len(items) >= _FEWEST


FIRST_IS_NEVER_RIGHT = (
    "the first option of its row is right in no item: numbers in `answer` count from 0, so that 2 is the third option; "
    "if yours count from 1, take 1 off each, or write letters"
)


def repeated_questions(items: Sequence[Item]) -> list[tuple[Item, Item]]:
    """Return each item that asks the same as an earlier one, with that one: capitals, blanks and the order of options
    aside."""
    first_by_text: dict[tuple[str, ...], Item] = {}
    repeated = []
    for item in items:
        options = item.payload.get("options")
        listed = sorted(map(str, options)) if isinstance(options, list) else []
        pictures = (image.base64 for image in item.images)
        key = (" ".join(item.question.casefold().split()), *listed, *pictures)
        if (first := first_by_text.setdefault(key, item)) is not item:
            repeated.append((item, first))
    return repeated


# ---- since the last run ----------------------------------------------------------------------------------------------


def moved_items(old: Sequence[Item], new: Sequence[Item]) -> dict[str, str]:
    """Return the earlier id of each new item whose question the run knows by another id only."""
    earlier = {shown_digest(item): item.id for item in old}
    same_ids = {(item.id, shown_digest(item)) for item in old}
    digests = {item.id: shown_digest(item) for item in new}
    return {
        item_id: earlier[digest]
        for item_id, digest in digests.items()
        if digest in earlier and (item_id, digest) not in same_ids
    }


def move_note(old: Sequence[Item], new: Sequence[Item], seen: Sequence[tuple[str, str]]) -> str | None:
    """Say that questions have other ids than before, and what becomes of their labels; None: they have not.

    ``seen``: of each label the item's id and the digest of what was shown of it.
    """
    moved = moved_items(old, new)
    if not moved:
        return None
    item_id, earlier = next(iter(moved.items()))
    numbers = [item.id for item in new]
    is_position = any(numbers == [str(start + at) for at in range(len(new))] for start in (0, 1))
    why = "the rows' ids are their positions" if is_position else "their rows have new ids"
    keep = "give the rows a column `id` with the earlier ids" if is_position else "give their rows the earlier ids"
    before, now = (_counting(seen, items) for items in (old, new))
    labels = f": {now} of {plural(len(seen), 'label')} {'counts' if now == 1 else 'count'} with them" if seen else ""
    advice = f". To keep the others, {keep}" if now < before else ""
    return (
        f"{plural(len(moved), 'question')} moved to another id, such as {shortened(earlier, 40)!r} to "
        f"{shortened(item_id, 40)!r}, because {why}{labels}{advice}"
    )


def _counting(seen: Sequence[tuple[str, str]], items: Sequence[Item]) -> int:
    """Count the labels that were given on what an item shows now."""
    digests = {(item.id, shown_digest(item)) for item in items}
    return sum(label in digests for label in seen)


def gone_items(old: Sequence[Item], new: Sequence[Item]) -> str:
    """List the first items that were taken out; empty where none was."""
    ids = {item.id for item in new}
    return _listed([item.id for item in old if item.id not in ids])


def _listed(ids: Sequence[str]) -> str:
    """List the first ids."""
    return first_of([repr(shortened(item_id, 40)) for item_id in ids], 5)


SPLITS = ("llm", "vlm")
"""Tried for every file, with what its rows name."""
_SAMPLE = 20
"""Rows by which a task is chosen."""
_TRIED = 5
"""Rows in which a column is tried."""
_ERRORS = frozenset({"row", "same id", "picture"})
_IDS = ("id", "item_id", "record id", "record_id", "question_id")
"""Columns with the id of an item; the task for a user's own questions reads the first only."""
_NO_ID = "the id is empty, so the row's number is its id: give every row an id; "
_LETTERED = frozenset({"question", "a", "b"})
"""Columns of multiple choice with a column an option."""
_ENDS = {"image/png": b"IEND\xaeB`\x82", "image/jpeg": b"\xff\xd9", "image/gif": b"\x3b"}


@dataclass(frozen=True, slots=True)
class ItemFinding:
    """``kind``: ``row``, ``missing``, ``picture``, ``options``, ``same id``, ``duplicate`` or ``no reference``.

    ``item``: the item's id, empty without one. ``line``: its line in the file."""

    kind: str
    item: str
    line: int
    text: str

    @property
    def level(self) -> str:
        """Return ``error`` if a run would refuse or misread the row, else ``warning``."""
        return "error" if self.kind in _ERRORS else "warning"


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


def guess_task(rows: Rows) -> str:
    """Return the built-in task that takes most of the first rows; if none does, the task for a user's own questions.

    Raises ManifestError if that task takes none either.
    """
    sample = _picked(rows, range(min(len(rows), _SAMPLE)))
    fits = {name: len(_fitting(name, sample)[0]) for name in BUILT_IN if name != OWN}
    best = max(fits, key=lambda name: fits[name])
    if fits[best]:
        return best
    fitting, refused = _fitting(OWN, sample)
    columns = {name.strip().casefold() for row in sample for name in row}
    if fitting and columns >= _LETTERED:
        fitting, refused = {}, _fitting(CHOICES, sample)[1]
    if not fitting:
        first, *further = refused
        reasons = with_more(f"line {first.line}: {first.text}", [f"line {finding.line}" for finding in further])
        raise ManifestError(f"{rows.locations[0].file}: no task takes these rows: {reasons}")
    return OWN


def guess_split(rows: Rows, name: str) -> str:
    """Return the split of the task that takes most rows."""
    counts = Counter(split for splits in _fitting(name, rows)[0].values() for split in splits)
    return max(counts, key=lambda split: counts[split], default=SPLITS[0])


def check_items(rows: Rows, name: str) -> ItemCheck:
    """Check the rows as items of a task. Raises ManifestError for an unknown task."""
    fitting, findings = _fitting(name, rows)
    tasks = _tasks(name, rows)
    fits: dict[str, int] = {}
    items_by_row: dict[int, Item] = {}
    for split, task in tasks.items():
        places = [at for at, splits in fitting.items() if split in splits]
        if places:
            fits[split] = len(places)
            items = task.items(_picked(rows, places))
            findings += _ids(_picked(rows, places), items, _IDS[:1] if name == OWN else _IDS)
            items_by_row = dict(zip(places, items, strict=True)) | items_by_row
    placed = [(rows.locations[at].line, item) for at, item in sorted(items_by_row.items())]
    findings += _faults(placed, uses_jury=any(task.uses_jury for task in tasks.values()))
    if first_is_never_right([item for _, item in placed]):
        findings.append(ItemFinding("options", "", placed[0][0], FIRST_IS_NEVER_RIGHT))
    in_order = sorted(dict.fromkeys(findings), key=lambda finding: finding.line)
    return ItemCheck(name, len(rows), fits, tuple(in_order), unread_columns(rows, name))


def unread_columns(rows: Rows, name: str) -> tuple[str, ...]:
    """Return the columns that the task does not read: its items are the same whatever a column holds, and without it.

    A column is tried in a few rows that hold something there.
    """
    tasks = list(_tasks(name, rows).values())
    columns = dict.fromkeys(column for row in rows for column in row)
    return tuple(column for column in columns if _is_unread(tasks, column, rows))


def _is_unread(tasks: Sequence[Task], column: str, rows: Rows) -> bool:
    placed = zip(rows.rows, rows.locations, strict=True)
    holding = ((row, at) for row, at in placed if row.get(column) is not None and str(row[column]).strip())
    is_tried = False
    for row, location in islice(holding, _TRIED):
        changed: tuple[Row, Row] = ({key: row[key] for key in row if key != column}, {**row, column: [0]})
        for task in tasks:
            if items := _items(task, row, location):
                is_tried = True
                if any(_items(task, other, location) != items for other in changed):
                    return False
    return is_tried


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
    for at, (row, location) in enumerate(zip(rows.rows, rows.locations, strict=True)):
        reasons: list[str] = []
        if splits := tuple(split for split, task in tasks.items() if _items(task, row, location, reasons)):
            fits[at] = splits
            continue
        reason = reasons[0] if reasons else f"belongs to no split that the task has ({', '.join(tasks)})"
        place = f"{location.file}: " if location.file != rows.locations[0].file else ""
        item_id = next((row[key] for key in ("id", "item_id", "question_id") if row.get(key) is not None), "")
        refused.append(ItemFinding("row", str(item_id)[:200], location.line, f"{place}{reason}"))
    return fits, refused


def _items(task: Task, row: Row, location: RowLocation, reasons: list[str] | None = None) -> Sequence[Item]:
    """Return the item of one row, if it has one. ``reasons`` takes why it has none."""
    try:
        return task.items(Rows((row,), (location,)))
    except DataError as error:
        if reasons is not None:
            reasons.append(str(error).partition(": ")[2] or str(error))
        return ()


def _picked(rows: Rows, places: Sequence[int]) -> Rows:
    return Rows(tuple(rows.rows[at] for at in places), tuple(rows.locations[at] for at in places))


# ---- what is wrong with items ----------------------------------------------------------------------------------------


_Placed = Sequence[tuple[int, Item]]
"""Items, each with its line."""


def _ids(rows: Rows, items: Sequence[Item], columns: Sequence[str]) -> Iterator[ItemFinding]:
    """Find ids that are there twice, and rows without an id among rows with one."""
    have_ids = [
        any(
            name.strip().casefold() in columns and value is not None and str(value).strip()
            for name, value in row.items()
        )
        for row in rows
    ]
    first_lines: dict[str, int] = {}
    for location, item, has_id in zip(rows.locations, items, have_ids, strict=True):
        no_id = "" if has_id else _NO_ID
        if item.id in first_lines:
            reason = f"{no_id}line {first_lines[item.id]} has this id too; ids must be unique"
            yield ItemFinding("same id", item.id, location.line, reason)
        elif no_id and any(have_ids):
            yield ItemFinding("missing", item.id, location.line, f"{no_id}others have one")
        first_lines.setdefault(item.id, location.line)


def _faults(items: _Placed, *, uses_jury: bool) -> Iterator[ItemFinding]:
    """Find items without a reference, pictures that were cut off, and questions that are there twice."""
    without = [(line, item.id) for line, item in items if uses_jury and lacks_reference(item)]
    reason = "nothing says what is right: no answer, no solution"
    if without and len(without) == len(items):
        reason, without = "no item says what is right: the jury goes by what it knows itself", [(without[0][0], "")]
    yield from (ItemFinding("no reference", item_id, line, reason) for line, item_id in without)
    for line, item in items:
        for number, image in enumerate(item.images, 1):
            if not _is_whole(image):
                cut = f"picture {number} ({image.media_type}) has no end: it was cut off"
                yield ItemFinding("picture", item.id, line, cut)
    lines = {item.id: line for line, item in items}
    for item, first in repeated_questions([item for _, item in items]):
        same = f"asks the same as {first.id!r} (line {lines[first.id]})"
        yield ItemFinding("duplicate", item.id, lines[item.id], same)


def _is_whole(image: Image) -> bool:
    """Return whether the picture file ends as its format requires. Programs append blanks and zeros."""
    content = base64.b64decode(image.base64)
    if image.media_type == "image/webp":
        return int.from_bytes(content[4:8], "little") + 8 <= len(content)
    return content.rstrip(b"\0\r\n ").endswith(_ENDS[image.media_type].rstrip(b"\0\r\n "))
