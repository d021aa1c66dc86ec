"""The Parquet tables of a run: how they are written and read.

Each stage writes one part file per job or batch under ``tables/<name>/``; readers take all parts together. A table
nobody wrote yet reads as an empty frame with the right columns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from layton_batch import __version__
from layton_batch.errors import DamagedTableError, StorageError
from layton_batch.files import atomic
from layton_batch.files.table_columns import SCHEMAS, Columns
from layton_batch.text import without_surrogates

DERIVED = frozenset(
    {
        *("predictions", "verdicts", "rejudged", "grades", "scores", "labels", "leaderboard", "judges"),
        *("cost", "usage", "reused"),
    }
)
"""Tables that are made again where they are gone."""
PORTION_ROWS, PORTION_CHARACTERS = 1_000, 32_000_000
"""Most rows and characters of a table in memory at a time."""
Row = Mapping[str, object]
Value = TypeVar("Value")
_FORM: Mapping[str, Any] = {"compression": "zstd", "compression_level": 3, "data_page_size": 8 << 20}
"""Pages are compressed each by itself: in large ones texts that repeat themselves take half the space and the time."""
_PLAIN: Mapping[str, Any] = {"compression": "uncompressed", "data_page_size": 8 << 20}
_MADE_FROM = "layton_batch.made_from"
"""The key in a file's metadata of the digest of what the table was made from."""


def digest(*sources: str | None) -> str:
    """Digest a derived table's inputs: the digests of its input tables, its rules, and this program's version."""
    text = "\x1f".join(["" if source is None else source for source in (__version__, *sources)])
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def made_from(path: Path) -> str | None:
    """The digest that a table was written with; None where there is no such table or none is recorded."""
    try:
        return pl.read_parquet_metadata(path).get(_MADE_FROM)
    except (OSError, pl.exceptions.PolarsError):
        return None


def _metadata(origin: str | None) -> dict[str, str] | None:
    return None if origin is None else {_MADE_FROM: origin}


def frame(name: str, rows: Sequence[Row]) -> pl.DataFrame:
    """Rows as a frame with exactly the table's columns, in order."""
    if not rows:
        return pl.DataFrame(schema=SCHEMAS[name])
    return of_columns(name, {column: [row.get(column) for row in rows] for column in SCHEMAS[name]})


def of_columns(name: str, columns: Mapping[str, object]) -> pl.DataFrame:
    """Make a table's frame of columns: lists and series of one length, or one value for all rows. Others are null."""
    schema = SCHEMAS[name]
    long = {column: values for column, values in columns.items() if isinstance(values, list | pl.Series)}
    try:
        table = _frame(schema, long)
    except UnicodeEncodeError:
        mended = {
            column: list(map(_storable, values)) if isinstance(values, list) else values
            for column, values in long.items()
        }
        table = _frame(schema, mended)
    same = (pl.lit(columns.get(column), kind).alias(column) for column, kind in schema.items() if column not in long)
    return table.with_columns(same).select(list(schema))


def _frame(schema: Columns, columns: Mapping[str, Sequence[object] | pl.Series]) -> pl.DataFrame:
    typed = dict(columns)
    for name, values in columns.items():
        if isinstance(schema[name], pl.List):  # from rows a tenth of the time that it takes from a column
            rows = [{name: value} for value in values]
            typed[name] = pl.DataFrame(rows, schema={name: schema[name]}, strict=True)[name]
    return pl.DataFrame(typed, schema={name: schema[name] for name in columns}, strict=True)


def _storable(value: object) -> object:
    return without_surrogates(value) if isinstance(value, str) else value


def write(path: Path, table: pl.DataFrame, origin: str | None = None) -> None:
    """One part file, whole or not at all; ``origin``: the digest of what it is made from."""
    with atomic.writing(path) as handle, _said(path):
        table.write_parquet(handle, metadata=_metadata(origin), **_FORM)


@contextmanager
def writing_frames(
    path: Path, name: str, origin: str | None = None, *, pictures: bool = False
) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Give a function that adds rows to the part file that ``path`` becomes when the block ends well.

    ``origin`` as for :func:`write`. ``pictures``: most of the table is base64, of which compression saves a quarter and
    takes longer than all else that is done with it. Added rows wait on disk: only the last ones are in memory.
    """
    with atomic.scratch(path) as folder:
        folder.mkdir()
        added: list[Path] = []
        longest = 1

        def add(rows: pl.DataFrame) -> None:
            nonlocal longest
            longest = max(longest, rows.height)
            added.append(folder / f"{len(added):06d}.arrow")
            with _said(path):
                rows.write_ipc(added[-1])

        add(frame(name, []))
        yield add
        with atomic.writing(path) as handle, _said(path):
            table = pl.scan_ipc(added)
            form = _PLAIN if pictures else _FORM
            table.sink_parquet(handle, row_group_size=longest, metadata=_metadata(origin), **form)


def portions(
    values: Iterable[Value],
    characters: Callable[[Value], int],
    most: int = PORTION_CHARACTERS,
) -> Iterator[Sequence[Value]]:
    """The values in portions of at most ``PORTION_ROWS`` and not much more than ``most`` characters of text."""
    portion: list[Value] = []
    size = 0
    for value in values:
        portion.append(value)
        size += characters(value)
        if len(portion) >= PORTION_ROWS or size >= most:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def read_part(path: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Read a part file. Raises DamagedTableError if it is gone or cannot be read."""
    with _readable(path):
        return pl.read_parquet(path, columns=list(columns) if columns else None, glob=False)


def read_portions(
    path: Path, columns: Sequence[str] | None = None, characters: int | None = None
) -> Iterator[pl.DataFrame]:
    """A part file, at most ``PORTION_ROWS`` rows and about ``PORTION_CHARACTERS`` of the file, or so many, at a time.
    Raises DamagedTableError as :func:`read_part`."""
    with _readable(path):
        scan = pl.scan_parquet(path, glob=False)
        count = scan.select(pl.len()).collect().item()
        step = max(1, min(PORTION_ROWS, (characters or PORTION_CHARACTERS) * count // path.stat().st_size))
    for start in range(0, count, step):
        with _readable(path):
            portion = scan.select(columns or pl.all()).slice(start, step).collect()
        yield portion


def scan_parts(paths: Sequence[Path]) -> pl.LazyFrame:
    """Parts of one table together. Raises DamagedTableError as :func:`read_part`."""
    for path in paths:
        with _readable(path):
            pl.read_parquet_schema(path)
    return pl.scan_parquet(list(paths), glob=False, extra_columns="ignore", low_memory=True)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Polars says in many ways that a file is no Parquet file, and panics over some."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        is_gone = isinstance(error, FileNotFoundError)
        reason = "it is gone" if is_gone else " ".join(str(error).split())[:200]
        advice = what_to_do(path, is_gone=is_gone)
        raise DamagedTableError(f"{path} cannot be read ({reason}): {advice}", path) from error


def what_to_do(path: Path, *, is_gone: bool = False) -> str:
    """Return what a person does about a damaged table."""
    if is_derived(path):
        again = "`layton-batch run MANIFEST` makes it again from the stored answers"
        return again if is_gone else f"move it away, and {again}"
    if "answers" in (path.name, path.parent.name):
        return "put it back from a copy: the raw results beside it are gone, or lack answers too"
    return "put it back from a copy of the run; without it nobody knows what was asked"


def is_derived(path: Path) -> bool:
    """Return whether a part file can be computed again, for nothing, from other files: tables of the run, or the raw
    results beside a batch's answers."""
    is_of_answers = path.parent.name == "answers" and any(path.parent.parent.glob("*.jsonl.zst"))
    return path.parent.name in DERIVED or is_of_answers


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """Polars has an error of its own for a full disk."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise StorageError(f"cannot write {path}: {error}; the last good version is kept") from error


def read(folder: Path, name: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """All parts of a table together, in the order of their names. Raises DamagedTableError as :func:`read_part`."""
    schema = SCHEMAS[name]
    wanted = list(columns or schema)
    paths = parts(folder, name)
    if not paths:
        return pl.DataFrame(schema={column: schema[column] for column in wanted})
    with suppress(DamagedTableError), _readable(folder / name):  # a quarter of the time that they take one by one
        return scan_parts(paths).select(wanted).collect()
    return pl.concat([read_part(part, wanted) for part in paths])


def read_each(folder: Path, name: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Read like :func:`read`, a part at a time."""
    return (read_part(part, columns) for part in parts(folder, name))


def parts(folder: Path, name: str) -> list[Path]:
    """The files of a table, in the order of their names."""
    return sorted(_finished(folder / name))


def _finished(folder: Path) -> Iterator[Path]:
    """The parts in a folder. Names with a dot in front are not finished, or were left by a process that was killed;
    folders among them come and go while others write."""
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(root, name) for name in files if name.endswith(".parquet") and not name.startswith("."))
