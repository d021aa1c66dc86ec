"""Rows from wherever a manifest says they are: the hub, the web, a file, a glob; JSONL, Parquet, CSV, a workbook, or a
JSON list in a ``.json`` file.

Each line is decoded by itself, so that an error names its file and line; of wrong rows the first is described in full.
Nothing here trusts the file's content.
"""

from __future__ import annotations

import base64
import codecs
import glob
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import orjson

from layton_batch.clock import Clock
from layton_batch.errors import DamagedTableError, DataError, MissingSourceError
from layton_batch.files import limits
from layton_batch.files.addresses import downloaded, is_address, shown
from layton_batch.files.sheets import ENDINGS, WORKBOOK, csv_rows, workbook_rows
from layton_batch.records import JsonValue
from layton_batch.settings import Settings
from layton_batch.text import did_you_mean, first_of

if TYPE_CHECKING:
    import polars as pl

Row = Mapping[str, JsonValue]

ITEM_ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xlsx")
"""Name endings of files of items."""
_PARQUET_MAGIC = b"PAR1"


class RowLocation(NamedTuple):
    """Place of a row in its source; ``line`` counts from 1 (rows, for Parquet and for a JSON list)."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Rows(Sequence[Row]):
    """Rows of a source in order, and the location of each."""

    rows: Sequence[Row]
    locations: Sequence[RowLocation]

    def placed(self) -> Iterator[tuple[RowLocation, Row]]:
        """Yield each row with its location."""
        return zip(self.locations, self.rows, strict=True)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # the overloads of Sequence, for no gain
        return self.rows[index]


def user_path(text: str | Path) -> Path:
    """Return a path that a person wrote, with the home folder for ``~``. ``~name`` stays if nobody is called so."""
    return Path(os.path.expanduser(text))


def check_file(path: Path, shown: Path) -> None:
    """Raise DataError, naming the path as ``shown``, for a folder and for nothing."""
    if path.is_dir():
        raise DataError(f"{shown} is a folder; name a file")
    if not path.is_file():
        raise DataError(f"{shown}: no such file")


def read_rows(source: str, base: Path, settings: Settings, clock: Clock | None = None, *, patient: bool = True) -> Rows:
    """All rows of ``hf://datasets/<owner>/<name>/<path>``, a URL, or a path or glob (relative to ``base``, then to the
    working folder). ``patient``: a download that fails is tried again.

    Raises DataError with file, line and reason: not there, no access, not in a form that is read, a line that is not an
    object, no rows at all.
    """
    placed = list(placed_rows(source, base, settings, clock, patient=patient))
    return Rows([row for _, row in placed], [location for location, _ in placed])


class SourceRows(Iterable[Row]):
    """The rows of a source, as ``read_rows`` takes it, read anew each time they are iterated: pictures that stand in
    rows do not fit in memory. ``error``: what was wrong with the source itself. ``location``: of the row that was last
    taken; None once all are."""

    def __init__(self, source: str, base: Path, settings: Settings, clock: Clock | None = None) -> None:
        self._source = source, base, settings, clock
        self.error: DataError | None = None
        self.location: RowLocation | None = None

    def placed(self) -> Iterator[tuple[RowLocation, Row]]:
        """Yield each row with its location. Raises DataError as ``read_rows``, when the row is reached."""
        try:
            for location, row in placed_rows(*self._source):
                self.location = location
                yield location, row
            self.location = None
        except DataError as error:
            self.error = error
            raise

    def __iter__(self) -> Iterator[Row]:
        return (row for _, row in self.placed())


def placed_rows(
    source: str, base: Path, settings: Settings, clock: Clock | None = None, *, patient: bool = True
) -> Iterator[tuple[RowLocation, Row]]:
    """Yield the rows as ``read_rows`` does, one at a time, with locations. An error is raised when it is reached."""
    if settings.only_below is not None and not _is_below(source, settings.only_below):
        raise MissingSourceError(f"{shown(source)}: is not in the bundle, and nothing else is read")
    if is_address(source):
        with downloaded(source, settings, clock, patient=patient) as path:
            yield from _at_least_one(file_rows(path, shown(source)), shown(source))
    else:
        files = local_files(source, base, settings.cwd)
        yield from _at_least_one((row for path in files for row in file_rows(path, str(path))), source)


def _at_least_one(rows: Iterable[tuple[RowLocation, Row]], source: str) -> Iterator[tuple[RowLocation, Row]]:
    row = None
    for row in rows:
        yield row
    if row is None:
        raise DataError(f"{source}: there is no row")


def _is_below(source: str, folder: Path) -> bool:
    """Return whether a source is a plain path below the folder, or below this package's own data."""
    path = Path(source)
    homes = (folder.resolve(), Path(__file__).resolve().parents[1])
    return path.is_absolute() and path.is_file() and any(path.resolve().is_relative_to(home) for home in homes)


def with_text_id(row: Row, column: str) -> Row:
    """Return the row with a number as id turned into text, as in items."""
    value = row.get(column)
    return {**row, column: str(value)} if isinstance(value, int) and not isinstance(value, bool) else row


def stream_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file one at a time: memory does not grow with the lines of a JSONL file.

    Raises as ``read_rows``, when the row is reached."""
    return (row for _, row in stream_placed_rows(path))


def stream_placed_rows(path: Path) -> Iterator[tuple[RowLocation, Row]]:
    """Yield each row as ``stream_rows`` does, with its location."""
    return _at_least_one(file_rows(path, str(path)), str(path))


def json_list(path: Path) -> Sequence[Row] | None:
    """Return the rows of a file that is one JSON list of objects, such as an evaluator's results; None: another file.

    Raises DataError for one that cannot be read, is empty, or has something else in it.
    """
    if path.suffix != ".json":
        return None
    limits.check_is_file(path, str(path))
    try:
        with path.open("rb") as handle:
            start = handle.read(64).removeprefix(codecs.BOM_UTF8)
            if not start.lstrip().startswith(b"["):
                return None
            limits.check_document(path, str(path))
            content = start + handle.read()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    try:
        rows: list[object] = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    objects = [row for row in rows if isinstance(row, dict)]
    if len(objects) < len(rows):
        wrong = next(number for number, row in enumerate(rows, 1) if not isinstance(row, dict))
        raise DataError(f"{path}: element {wrong} of the list is not an object")
    if not objects:
        raise DataError(f"{path}: the list is empty; there must be at least one row")
    return objects


def near_file(path: Path) -> str:
    """Return ``; did you mean 'x'?`` with the file in a path's folder whose name is nearest to its own, or nothing."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    except OSError:
        return ""
    return did_you_mean(path.name, names, 0.7)


# ---- finding -------------------------------------------------------------------------------------------------------


def local_files(source: str, base: Path, cwd: Path) -> list[Path]:
    """Return the files of a path or glob. An existing path is taken literally, whatever characters are in its name."""
    wanted = user_path(source)
    for folder in dict.fromkeys((base, cwd)):
        path = folder / wanted
        limits.check_is_file(path, str(path))
        if path.is_file():
            return [path]
        matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]
        if files := [match for match in matches if match.is_file()]:
            return files
        if path.is_dir():
            raise DataError(f"{path}: is a folder; name a file or a pattern such as {source}/*.jsonl")
    folders = list(dict.fromkeys((base, cwd)))
    looked = " or in ".join(map(str, folders))
    near = next((hint for folder in folders if (hint := near_file(folder / wanted))), "")
    raise DataError(f"{source}: no such file (looked in {looked}){near}")


# ---- reading -------------------------------------------------------------------------------------------------------


def file_rows(path: Path, name: str) -> Iterator[tuple[RowLocation, Row]]:
    """Yield the rows of a file, possibly none, with locations. Raises DataError as ``read_rows``, when it is reached.

    ``name``: the file in messages.
    """
    limits.check_is_file(path, name)
    try:
        for line, row in _numbered_rows(path, name):
            yield RowLocation(name, line), row
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error})") from error


def _numbered_rows(path: Path, name: str) -> Iterator[tuple[int, Row]]:
    if (listed := json_list(path)) is not None:
        return enumerate(listed, 1)
    ending = path.suffix.lower()
    if ending in ENDINGS:
        return csv_rows(path, name)
    if ending == WORKBOOK:
        return workbook_rows(path, name)
    with path.open("rb") as handle:
        start = handle.read(len(_PARQUET_MAGIC))
    if start == _PARQUET_MAGIC or ending == ".parquet":
        return _parquet_rows(path, name)
    return _json_rows(path, name)


def _json_rows(path: Path, name: str) -> Iterator[tuple[int, Row]]:
    with path.open("rb") as handle:
        for number, line in limits.lines(handle, name):
            content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if content.strip():
                yield number, _decode(content, f"{name}, line {number}")


def _decode(line: bytes, place: str) -> Row:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{place}: {_reason(line, error)}") from error
    if not isinstance(row, dict):
        raise DataError(f"{place}: one object a line is expected, not {_kind(row)}")
    return row


def _reason(line: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as wrong:
        return f"not UTF-8 (byte {wrong.start + 1} of the line is {line[wrong.start]:#04x})"
    return f"not JSON: {error.msg} at character {error.colno}"


def _kind(value: object) -> str:
    return {list: "an array", str: "a string", bool: "true or false", type(None): "null"}.get(type(value), "a number")


def _parquet_rows(path: Path, name: str) -> Iterator[tuple[int, Row]]:
    rows = (row for portion in _portions(path, name) for row in portion.iter_rows(named=True))
    return enumerate(({column: _plain(value) for column, value in row.items()} for row in rows), 1)


def _portions(path: Path, name: str) -> Iterator[pl.DataFrame]:
    import polars.selectors as cs

    from layton_batch.files.tables import PORTION_CHARACTERS, read_portions

    limits.check_parquet(path, name)
    texts, size = (cs.string().str.len_bytes(), cs.binary().bin.size()), 0
    try:
        for portion in read_portions(path):
            held = sum(filter(None, portion.select(*texts).sum().row(0)))  # one text of many rows is stored once
            size += held
            limits.check_unpacked(size, path, name)
            slices = 1 + held // PORTION_CHARACTERS
            yield from portion.iter_slices(max(1, portion.height // slices))
    except DamagedTableError as error:
        first = str(error.__cause__).partition("\n")[0]
        raise DataError(f"{name}: not a readable Parquet file ({first})") from error


def _plain(value: object) -> JsonValue:
    """Convert a Parquet value to JSON: bytes become base64 text, times and decimals text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return {str(key): _plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
    return str(value)


Given = TypeVar("Given")
Parsed = TypeVar("Parsed")

_PLACES_SHOWN = 5
_PLACE = re.compile(r"(?:line|row|element) [0-9,]+")


def with_more(first: str, faults: Sequence[str]) -> str:
    """Add to the message on a wrong row how many further ``faults`` there are, and the places of the first of them."""
    if not faults:
        return first
    places = [place[0] for fault in faults[:_PLACES_SHOWN] if (place := _PLACE.search(fault)) is not None]
    listed = f": {', '.join(places)}{', …' if len(faults) > _PLACES_SHOWN else ''}" if places else ""
    return f"{first}; {len(faults):,} more wrong {'row' if len(faults) == 1 else 'rows'}{listed}"


def parse_each(rows: Iterable[Given], parse: Callable[[Given], Parsed]) -> list[Parsed]:
    """Parse every row. Raises DataError for the first wrong one, with the number and the places of the others."""
    parsed, faults = list[Parsed](), list[DataError]()
    for row in rows:
        try:
            parsed.append(parse(row))
        except DataError as error:
            faults.append(error)
    if faults:
        first, *further = map(str, faults)
        raise DataError(with_more(first, further)) from faults[0]
    return parsed


def unknown_item(item_id: str, item_ids: Collection[str]) -> str:
    """Say that no item has this id, and which ids items have."""
    return f"there is no item {item_id[:100]!r}; the items are {first_of(sorted(item_ids, key=_by_number))}"


def _by_number(item_id: str) -> tuple[int, str]:
    return len(item_id), item_id  # 2 before 10
