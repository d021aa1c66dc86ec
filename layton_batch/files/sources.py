"""Rows from wherever a manifest says they are: the hub, the web, a file, a glob; JSONL, Parquet or CSV.

Each line is decoded by itself, so that an error names its file and line. Nothing here trusts the file's content. What
comes over HTTP is streamed to disk, bounded in tries and in time."""

from __future__ import annotations

import base64
import glob
import marshal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import orjson

from layton_batch.clock import Clock, SystemClock
from layton_batch.errors import DataError
from layton_batch.files.csv_rows import SEPARATORS, csv_rows
from layton_batch.files.long_list import LongList
from layton_batch.records import JsonValue
from layton_batch.settings import Settings

if TYPE_CHECKING:
    import httpx


Row = Mapping[str, JsonValue]

_HUB = "hf://"
_WEB = ("http://", "https://")
_PARQUET_MAGIC = b"PAR1"
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


class Place(NamedTuple):
    """Where a row came from; ``line`` counts from 1 (rows, for Parquet)."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Rows(Sequence[Row]):
    """The rows of a source in order, and the place of each. Those of a long source are read anew each time."""

    rows: Sequence[Row]
    places: Sequence[Place]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # the overloads of Sequence, for no gain
        return self.rows[index]


def read_rows(source: str, base: Path, settings: Settings, clock: Clock | None = None, *, patient: bool = True) -> Rows:
    """All rows of ``hf://datasets/<owner>/<name>/<path>``, a URL, or a path or glob (relative to ``base``, then to the
    working folder). ``patient``: a download that fails is tried again.

    Raises DataError with file, line and reason: not there, no access, not JSONL, Parquet or CSV, a line that is not an
    object, no rows at all.
    """
    rows, places = LongList[Row](marshal.loads), list[Place]()
    for place, row in _of_source(source, base, settings, clock or SystemClock(), patient=patient):
        rows.keep(row, marshal.dumps(row))  # type: ignore[arg-type]
        places.append(place)
    if not places:
        raise DataError(f"{shown(source)}: the source is empty; there must be at least one row")
    return Rows(rows, tuple(places))


def _of_source(
    source: str, base: Path, settings: Settings, clock: Clock, *, patient: bool
) -> Iterator[tuple[Place, Row]]:
    if is_address(source):
        with _downloaded(*_located(source, settings), clock, patient=patient) as path:
            yield from _taken(path, shown(source))
    else:
        for path in _local_files(source, base, settings.cwd):
            yield from _taken(path, str(path))


def with_text_id(row: Row, column: str) -> Row:
    """The row with an id that is a number as its text, as items have it."""
    value = row.get(column)
    return {**row, column: str(value)} if isinstance(value, int) and not isinstance(value, bool) else row


def is_address(source: str) -> bool:
    """Whether a source is on the hub or the web, not among the local files."""
    return source.startswith((_HUB, *_WEB))


def download(source: str, settings: Settings, clock: Clock | None = None) -> bytes:
    """The content of a small file at an address, as it is there. Raises DataError as ``read_rows``."""
    with _downloaded(*_located(source, settings), clock or SystemClock()) as path:
        return path.read_bytes()


def stream_rows(path: Path) -> Iterator[Row]:
    """The rows of one file as they are taken: memory does not grow with the lines of a JSONL file. Raises as
    ``read_rows``, when the row is reached."""
    row = None
    for _, row in _taken(path, str(path)):
        yield row
    if row is None:
        raise DataError(f"{path}: the source is empty; there must be at least one row")


def json_list(path: Path) -> Sequence[Row] | None:
    """The rows of a file that is one JSON list of objects, as evaluators leave their results; None for any other file.

    Raises DataError for one that cannot be read, is empty, or has something else in it.
    """
    if path.suffix != ".json":
        return None
    try:
        with path.open("rb") as handle:
            start = handle.read(64)
            content = start + handle.read() if start.lstrip().startswith(b"[") else None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    if content is None:
        return None
    try:
        rows: list[object] = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    found = [row for row in rows if isinstance(row, dict)]
    if len(found) < len(rows):
        wrong = next(number for number, row in enumerate(rows, 1) if not isinstance(row, dict))
        raise DataError(f"{path}: element {wrong} of the list is not an object")
    if not found:
        raise DataError(f"{path}: the list is empty; there must be at least one row")
    return found


# ---- finding -------------------------------------------------------------------------------------------------------


def _located(source: str, settings: Settings) -> tuple[str, str | None]:
    """The URL of an address, and the token that goes there."""
    return (_hub_url(source, settings), settings.hf_token) if source.startswith(_HUB) else (source, None)


def _hub_url(source: str, settings: Settings) -> str:
    parts = source.removeprefix(_HUB).split("/")
    if len(parts) < 4 or parts[0] != "datasets" or not all(parts) or ".." in parts:
        raise DataError(f"{source}: a hub source has the form hf://datasets/<owner>/<name>/<path of the file>")
    owner, name, path = parts[1], parts[2], "/".join(parts[3:])
    return f"{settings.hf_endpoint}/datasets/{owner}/{name}/resolve/main/{path}"


@contextmanager
def _downloaded(url: str, token: str | None, clock: Clock, *, patient: bool = True) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="layton-batch-") as folder:
        # The suffix is kept: it says what the file is.
        path = Path(folder) / f"source{Path(url.partition('?')[0]).suffix}"
        fetch(url, path, token=token, clock=clock, waits=WAITS_SECONDS if patient else ())
        yield path


def _local_files(source: str, base: Path, cwd: Path) -> list[Path]:
    """The files a path or glob means. A path that exists is meant literally, whatever characters are in its name."""
    wanted = Path(source).expanduser()
    for folder in dict.fromkeys((base, cwd)):
        path = folder / wanted
        if path.is_file():
            return [path]
        matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]
        if files := [match for match in matches if match.is_file()]:
            return files
        if path.is_dir():
            raise DataError(f"{path}: is a folder; name a file or a pattern such as {source}/*.jsonl")
    looked = " or in ".join(str(folder) for folder in dict.fromkeys((base, cwd)))
    raise DataError(f"{source}: no such file (looked in {looked})")


# ---- reading -------------------------------------------------------------------------------------------------------


def _taken(path: Path, name: str) -> Iterator[tuple[Place, Row]]:
    try:
        with path.open("rb") as handle:
            is_parquet = handle.read(4) == _PARQUET_MAGIC or path.suffix == ".parquet"
            handle.seek(0)
            if path.suffix.lower() in SEPARATORS:
                yield from ((Place(name, line), row) for line, row in csv_rows(path, name))
            else:
                yield from _parquet(path, name) if is_parquet else _lines(handle, name)
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error})") from error


def _lines(handle: BinaryIO, name: str) -> Iterator[tuple[Place, Row]]:
    for number, line in enumerate(handle, 1):
        if not line.strip():
            continue
        place = Place(name, number)
        if number == 1:
            _check_start(line, place)
        yield place, _decode(line, place)


def _check_start(line: bytes, place: Place) -> None:
    if line.startswith(_BYTE_ORDER_MARKS):
        raise DataError(f"{place}: the file starts with a byte-order mark; save it as UTF-8 without one")
    if line.lstrip().startswith(b"["):
        raise DataError(f"{place}: this file is a JSON array; one object a line is expected")


def _decode(line: bytes, place: Place) -> Row:
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
    if not line.endswith(b"\n") and error.pos >= len(error.doc.rstrip()) - 1:
        return "not JSON: the file ends in the middle of this line; it looks cut off"
    return f"not JSON: {error.msg} at character {error.colno}"


def _kind(value: object) -> str:
    return {list: "an array", str: "a string", bool: "true or false", type(None): "null"}.get(type(value), "a number")


def _parquet(path: Path, name: str) -> Iterator[tuple[Place, Row]]:
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        first = str(error).partition("\n")[0]
        raise DataError(f"{name}: not a readable Parquet file ({first})") from error
    for number, row in enumerate(frame.iter_rows(named=True), 1):
        place = Place(name, number)
        yield place, {column: _plain(value, column, place) for column, value in row.items()}


def _plain(value: object, column: str, place: Place) -> JsonValue:
    """A Parquet value as JSON knows it: bytes as base64 text, times and decimals as text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | timedelta():
            return str(value)
        case Mapping():
            return {str(key): _plain(part, column, place) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part, column, place) for part in value]
    raise DataError(f"{place}: column {column!r} holds a {type(value).__name__}, which has no form in JSON")


WAITS_SECONDS = (1.0, 2.0, 4.0)
LONGEST_WAIT_SECONDS = 60.0
LONGEST_DOWNLOAD_SECONDS = 1800.0
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class _PassingError(Exception):
    """A try that failed in a way the next one may not."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def fetch(url: str, target: Path, *, token: str | None, clock: Clock, waits: Sequence[float] = WAITS_SECONDS) -> None:
    """Download ``url`` into ``target``, trying again after each of the waits.

    ``token`` goes only to the URL's own host, never along a redirect elsewhere.

    Raises DataError after the last try, or at once where another try cannot help (401, 403, 404, bad address).
    """
    import httpx

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    with httpx.Client(headers=headers, timeout=timeout, follow_redirects=True) as client:
        for wait in (*waits, None):
            try:
                _try(client, url, target, clock)
            except _PassingError as error:
                if wait is None:
                    tries = f"{len(waits) + 1} times, at last with" if waits else "with"
                    raise DataError(f"{shown(url)}: download failed {tries}: {error}") from error
                clock.sleep(min(error.wait or wait, LONGEST_WAIT_SECONDS))
            else:
                return


def _try(client: httpx.Client, url: str, target: Path, clock: Clock) -> None:
    import httpx

    give_up_at = clock.now() + LONGEST_DOWNLOAD_SECONDS
    try:
        with client.stream("GET", url) as response, target.open("wb") as handle:
            _check(response, url)
            for chunk in response.iter_bytes():
                handle.write(chunk)
                if clock.now() > give_up_at:
                    raise DataError(
                        f"{shown(url)}: download took longer than {LONGEST_DOWNLOAD_SECONDS / 60:.0f} minutes"
                    )
    except (httpx.TransportError, httpx.DecodingError) as error:
        raise _PassingError(str(error) or type(error).__name__) from error
    except (httpx.InvalidURL, httpx.TooManyRedirects, ValueError) as error:
        raise DataError(f"{shown(url)}: cannot be downloaded ({error})") from error
    except OSError as error:
        raise DataError(f"{shown(url)}: cannot be stored ({error.strerror or error})") from error


def _check(response: httpx.Response, url: str) -> None:
    status = response.status_code
    if response.is_success:
        return
    if status in {401, 403}:
        raise DataError(
            f"{shown(url)}: access refused (HTTP {status}). If the data set is gated, open its page on the hub, ask "
            "for access there, and set HF_TOKEN to a token of that account"
        )
    if status == 404:
        raise DataError(
            f"{shown(url)}: there is no such file (HTTP 404); a private data set looks the same without HF_TOKEN"
        )
    if status in _PASSING:
        after = response.headers.get("retry-after", "")
        raise _PassingError(f"HTTP {status}", float(after) if after.isdigit() else None)
    raise DataError(f"{shown(url)}: download refused (HTTP {status})")


def shown(source: str) -> str:
    """A source fit for messages: a URL without its user, query and fragment, where secrets travel."""
    if "://" not in source:
        return source
    try:
        parts = urlsplit(source)
    except ValueError:
        return source.partition("://")[0] + "://…"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
