"""What is wrong with a file of items, found before anybody pays for asking them."""

from __future__ import annotations

import base64
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.sources import Place, Row, Rows
from layton_batch.records import Image, Item
from layton_batch.tasks import BUILT_IN, OWN, load_task
from layton_batch.tasks.protocol import Task, TaskOptions

SPLITS = ("llm", "vlm")
"""Tried for every file, with what its rows name."""
REFERENCES = ("answer", "justification", "solution", "reference")
"""Columns that say what is right."""
NEAR = 0.7
"""Share of the rarer word triples that two questions have in common, from which on they are near duplicates."""
_TRIPLES = 4
_COMMON = 0.2
"""Triples that more items than this share have are the form of the benchmark, not what an item says."""
_LEAST_LEAK = 4
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Finding:
    """``kind``: ``row``, ``missing``, ``picture``, ``same id``, ``duplicate``, ``near duplicate``, ``leak`` or
    ``no reference``; ``item`` is empty where a row has no id; ``line`` of the file."""

    kind: str
    item: str
    line: int
    text: str

    @property
    def level(self) -> str:
        """``error`` where a run would refuse or misread the row, else ``warning``."""
        return "error" if self.kind in _ERRORS else "warning"


_ERRORS = frozenset({"row", "same id", "picture"})


@dataclass(frozen=True, slots=True)
class Checked:
    """``fits``: how many rows each split takes; ``nulls``: how many lack each reference column that others have."""

    task: str
    rows: int
    fits: Mapping[str, int]
    nulls: Mapping[str, int]
    findings: tuple[Finding, ...]

    @property
    def has_errors(self) -> bool:
        """Return whether anything found is more than a warning."""
        return any(finding.level == "error" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _Known:
    """A row that is an item, and where it stands."""

    item: Item
    row: Row
    line: int


def guess_task(rows: Rows) -> str:
    """The built-in task that takes the most of the first rows; the one for questions of one's own where no other takes
    any. Raises ManifestError where that takes none either."""
    sample = Rows(rows.rows[:20], rows.places[:20])
    fits = {name: len(_fitting(name, sample)[0]) for name in BUILT_IN if name != OWN}
    best = max(fits, key=lambda name: fits[name])
    if fits[best]:
        return best
    fitting, refused = _fitting(OWN, sample)
    if not fitting:
        known = ", ".join(BUILT_IN)
        raise ManifestError(f"no task takes these rows: {refused[0].text}; --task names the one they are for ({known})")
    return OWN


def guess_split(rows: Rows, name: str) -> str:
    """The split of the task that takes the most rows."""
    counts = Counter(split for splits in _fitting(name, rows)[0].values() for split in splits)
    return max(counts, key=lambda split: counts[split], default=SPLITS[0])


def check_items(rows: Rows, name: str) -> Checked:
    """Everything that can be said of the rows as items of a task. Raises ManifestError for a task there is none of."""
    fitting, refused = _fitting(name, rows)
    tasks = _tasks(name, rows)
    fits: Counter[str] = Counter()
    known: dict[int, _Known] = {}
    for split, task in tasks.items():
        places = [at for at in range(len(rows)) if split in fitting.get(at, ())]
        fits[split] = len(places)
        items = task.items(Rows(tuple(rows.rows[at] for at in places), tuple(rows.places[at] for at in places)))
        for at, item in zip(places, items, strict=True):
            known.setdefault(at, _Known(item, rows.rows[at], rows.places[at].line))
    ordered = [known[at] for at in sorted(known)]
    nulls = _nulls(rows)
    findings = [
        *refused,
        *_missing(ordered, nulls, needs_reference=any(task.uses_jury for task in tasks.values())),
        *_broken_pictures(ordered),
        *_duplicates(ordered),
        *_near_duplicates(ordered),
        *_leaks(ordered),
    ]
    counts = {split: count for split, count in fits.items() if count}
    return Checked(name, len(rows), counts, nulls, tuple(sorted(findings, key=lambda one: one.line)))


# ---- rows that are items ---------------------------------------------------------------------------------------------


def _tasks(name: str, rows: Rows) -> dict[str, Task]:
    """The task for every split that it may have here."""
    named = [value for row in rows if isinstance(value := row.get("split"), str) and value]
    folder = Path(rows.places[0].file).parent
    found: dict[str, Task] = {}
    for split in dict.fromkeys((*SPLITS, *named[:10_000])):
        try:
            found[split] = load_task(name, TaskOptions(split, folder=folder))
        except ManifestError:
            if not found and split == SPLITS[0]:
                raise
    return found


def _fitting(name: str, rows: Rows) -> tuple[dict[int, tuple[str, ...]], list[Finding]]:
    """Return the splits that take each row, and the rows that no split takes, with the task's reason."""
    tasks = _tasks(name, rows)
    fits: dict[int, tuple[str, ...]] = {}
    refused = []
    for at, (row, place) in enumerate(zip(rows.rows, rows.places, strict=True)):
        reasons: list[str] = []
        splits = tuple(split for split, task in tasks.items() if _takes(task, row, place, reasons))
        if splits:
            fits[at] = splits
        else:
            reason = reasons[0] if reasons else f"belongs to no split that the task has ({', '.join(tasks)})"
            refused.append(Finding("row", _id(row), place.line, reason))
    return fits, refused


def _takes(task: Task, row: Row, place: Place, reasons: list[str]) -> bool:
    try:
        return bool(task.items(Rows((row,), (place,))))
    except DataError as error:
        reasons.append(str(error).partition(": ")[2] or str(error))
        return False


def _id(row: Row) -> str:
    value = next((row[name] for name in ("id", "item_id", "question_id") if row.get(name) is not None), "")
    return str(value)[:200]


# ---- what is missing -------------------------------------------------------------------------------------------------


def _nulls(rows: Rows) -> dict[str, int]:
    counts = {name: sum(_is_empty(row.get(name)) for row in rows) for name in REFERENCES}
    return {name: count for name, count in counts.items() if 0 < count < len(rows)}


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _missing(known: Sequence[_Known], nulls: Mapping[str, int], *, needs_reference: bool) -> Iterator[Finding]:
    has_category = any(one.item.category for one in known)
    if needs_reference and known and all(map(_lacks_reference, known)):
        reason = "no item says what is right: the jury goes by what it knows itself"
        yield Finding("no reference", "", known[0].line, reason)
        needs_reference = False
    for one in known:
        empty = [name for name in nulls if _is_empty(one.row.get(name))]
        if needs_reference and _lacks_reference(one):
            yield Finding("no reference", one.item.id, one.line, "nothing says what is right: no answer, no solution")
        elif empty:
            told = f"{' and '.join(empty)} {'is' if len(empty) == 1 else 'are'} null; others have {_them(empty)}"
            yield Finding("missing", one.item.id, one.line, told)
        if has_category and not one.item.category:
            yield Finding("missing", one.item.id, one.line, "category is empty; others have one")


def _lacks_reference(known: _Known) -> bool:
    return known.item.answer is None and known.item.solution is None


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


# ---- pictures --------------------------------------------------------------------------------------------------------


def _broken_pictures(known: Sequence[_Known]) -> Iterator[Finding]:
    for one in known:
        for number, image in enumerate(one.item.images, 1):
            if not _is_whole(image):
                told = f"picture {number} ({image.media_type}) has no end: it was cut off"
                yield Finding("picture", one.item.id, one.line, told)


def _is_whole(image: Image) -> bool:
    """Return whether the picture file ends as its format requires. Programs append blanks and zeros."""
    content = base64.b64decode(image.base64)
    if image.media_type == "image/webp":
        return int.from_bytes(content[4:8], "little") + 8 <= len(content)
    ends = {"image/png": b"IEND\xaeB`\x82", "image/jpeg": b"\xff\xd9", "image/gif": b"\x3b"}
    end = ends.get(image.media_type)
    return end is None or content.rstrip(b"\0\r\n ").endswith(end.rstrip(b"\0\r\n "))


# ---- the same twice --------------------------------------------------------------------------------------------------


def _words(text: str | None) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text or "").casefold())


def _asked(item: Item) -> list[str]:
    """The words of a question and of its options."""
    options = item.payload.get("options")
    listed = sorted(map(str, options)) if isinstance(options, list) else []
    return _words(" ".join((_question_alone(item), *listed)))


def _question_alone(item: Item) -> str:
    """The question without the text that it is about, which questions may share and answers may stand in."""
    context = item.payload.get("context")
    return item.question.removesuffix(context) if isinstance(context, str) else item.question


def _pictures(item: Item) -> str:
    return sha256("".join(image.base64 for image in item.images).encode()).hexdigest() if item.images else ""


def _duplicates(known: Sequence[_Known]) -> Iterator[Finding]:
    ids: dict[str, _Known] = {}
    asked: dict[tuple[str, str], _Known] = {}
    for one in known:
        if (first := ids.setdefault(one.item.id, one)) is not one:
            yield Finding("same id", one.item.id, one.line, f"line {first.line} has this id too; ids must be unique")
        words = (" ".join(_asked(one.item)), _pictures(one.item))
        if (first := asked.setdefault(words, one)) is not one:
            told = f"asks the same as {first.item.id!r} (line {first.line})"
            yield Finding("duplicate", one.item.id, one.line, told)


def _near_duplicates(known: Sequence[_Known]) -> Iterator[Finding]:
    """Questions with the same pictures that share most of the word triples that not every item has."""
    sets = [frozenset(zip(words, words[1:], words[2:], strict=False)) for words in map(_asked, (k.item for k in known))]
    often = Counter(triple for one in sets for triple in one)
    most = max(2, int(_COMMON * len(known)))
    rare = [frozenset(triple for triple in one if often[triple] <= most) for one in sets]
    by_triple: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for at, triples in enumerate(rare):
        shared = Counter(other for triple in triples for other in by_triple[triple])
        for other, count in shared.items():
            share = count / len(triples | rare[other])
            first, one = known[other], known[at]
            is_other = sets[at] != sets[other] and _pictures(first.item) == _pictures(one.item)
            if share >= NEAR and count >= _TRIPLES and is_other:
                told = f"{share:.0%} of its wording is that of {first.item.id!r} (line {first.line})"
                yield Finding("near duplicate", one.item.id, one.line, told)
                break
        for triple in triples:
            by_triple[triple].append(at)


# ---- answers given away ----------------------------------------------------------------------------------------------


def _leaks(known: Sequence[_Known]) -> Iterator[Finding]:
    """Answers that stand, word for word, in the question or in a hint. Short ones and plain numbers are left out: they
    stand anywhere."""
    for one in known:
        answer = " ".join(_words(one.item.answer))
        if len(answer) < _LEAST_LEAK or answer.replace(" ", "").isdigit():
            continue
        places = [("question", _question_alone(one.item))]
        places += [(f"hint {number}", hint) for number, hint in enumerate(one.item.hints, 1) if hint]
        found = [name for name, text in places if f" {answer} " in f" {' '.join(_words(text))} "]
        more = " (no harm where the question lists the choices)" if found == ["question"] else ""
        if found:
            yield Finding(
                "leak", one.item.id, one.line, f"the answer stands in {' and '.join(found)}: {answer[:80]!r}{more}"
            )
