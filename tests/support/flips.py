"""Single changed bits of stored files and of values in a SQLite database, and whether `verify` names each of them."""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bit:
    """Bit number ``number`` of a file, counted from its begin. ``about``: the kind of place."""

    path: Path
    number: int
    about: str

    def __str__(self) -> str:
        return f"{self.about}: {self.path} bit {self.number}"


@dataclass(slots=True)
class FlipCount:
    """Results of flipped bits, by kind of place. ``harmless``: no value changed; ``missed``: one did, and nothing
    named it."""

    named: Counter[str] = field(default_factory=Counter)
    harmless: Counter[str] = field(default_factory=Counter)
    missed: list[Bit] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.named.total()} named, {self.harmless.total()} harmless, {len(self.missed)} missed"


@contextmanager
def flipped(bit: Bit) -> Iterator[None]:
    """The bit is the other one until the block ends; then the file is as before, with its date."""
    when, changed = bit.path.stat(), bytearray(content := bit.path.read_bytes())
    changed[bit.number // 8] ^= 1 << bit.number % 8
    bit.path.write_bytes(changed)
    try:
        yield
    finally:
        bit.path.write_bytes(content)
        os.utime(bit.path, ns=(when.st_atime_ns, when.st_mtime_ns))


# ---- files -----------------------------------------------------------------------------------------------------------


def draw_bits(paths: Sequence[Path], number: int, chance: random.Random) -> Iterator[Bit]:
    """Draw bits of files: every second one from any file alike, the others by the files' sizes."""
    files = [path for path in sorted(paths) if path.is_file() and path.stat().st_size]
    sizes = [path.stat().st_size for path in files]
    for count in range(number):
        path = chance.choice(files) if count % 2 else chance.choices(files, sizes)[0]
        yield Bit(path, chance.randrange(8 * path.stat().st_size), path.suffix)


def count_file_flips(bits: Iterator[Bit], names: Callable[[Path], bool]) -> FlipCount:
    """Flip each bit for itself, and ask whether its file is named. No bit of these files is without a meaning."""
    count = FlipCount()
    for bit in bits:
        with flipped(bit):
            if names(bit.path):
                count.named[bit.about] += 1
            else:
                count.missed.append(bit)
    return count


# ---- a database ------------------------------------------------------------------------------------------------------


def draw_database_bits(path: Path, number: int, chance: random.Random) -> Iterator[Bit]:
    """Draw bits of a SQLite file: every second one from a value of any column alike, the others from the whole file."""
    cells = _cells(path)
    for count in range(number):
        if count % 2:
            column = chance.choice(sorted(cells))
            start, length = chance.choice(cells[column])
            yield Bit(path, 8 * start + chance.randrange(8 * length), column)
        else:
            yield Bit(path, chance.randrange(8 * path.stat().st_size), "file")


def count_database_flips(bits: Iterator[Bit], names: Callable[[], bool]) -> FlipCount:
    """Flip each bit for itself, and ask whether anything is named, unless the bit has no meaning."""
    count, sound = FlipCount(), None
    for bit in bits:
        sound = sound or _dump(bit.path)
        with flipped(bit):
            if _dump(bit.path) == sound:
                count.harmless[bit.about] += 1
            elif names():
                count.named[bit.about] += 1
            else:
                count.missed.append(bit)
    return count


def _dump(path: Path) -> object:
    """Return every row of every table as the file has it, and what SQLite says of the file; or the error that reading
    it ends with."""
    try:
        with closing(_open(path)) as database:
            tables = [name.decode() for (name,) in database.execute(_TABLES)]
            rows = [(name, database.execute(f'SELECT * FROM "{name}" NOT INDEXED').fetchall()) for name in tables]
            return rows, database.execute("PRAGMA integrity_check(1)").fetchall()
    except (sqlite3.Error, UnicodeError) as error:
        return error


_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
    database.text_factory = bytes
    return database


def _cells(path: Path) -> dict[str, list[tuple[int, int]]]:
    """Return where the values of each column begin in the file, and their lengths in bytes.

    Left out are values without a byte (NULL, 0 and 1), and those that are not on the page of their row as a whole.
    The format is SQLite's: https://www.sqlite.org/fileformat2.html.
    """
    content = path.read_bytes()
    page_bytes = int.from_bytes(content[16:18], "big")
    found: dict[str, list[tuple[int, int]]] = {}
    with closing(_open(path)) as database:
        roots = database.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'").fetchall()
        for name, root in roots:
            table = name.decode()
            columns = [row[1].decode() for row in database.execute(f'PRAGMA table_info("{table}")')]
            for cell, end in _leaf_cells(content, page_bytes, root):
                for column, (start, length) in zip(columns, _values(content, cell), strict=True):
                    if length and start + length <= end:
                        found.setdefault(f"{table}.{column}", []).append((start, length))
    return found


def _leaf_cells(content: bytes, page_bytes: int, number: int) -> Iterator[tuple[int, int]]:
    """Yield where the cells of a table begin, and where their pages end."""
    page = (number - 1) * page_bytes
    head = page + (100 if number == 1 else 0)
    is_leaf = content[head] == 13
    pointers = head + (8 if is_leaf else 12)
    for index in range(int.from_bytes(content[head + 3 : head + 5], "big")):
        place = page + int.from_bytes(content[pointers + 2 * index : pointers + 2 * index + 2], "big")
        if is_leaf:
            yield place, page + page_bytes
        else:
            yield from _leaf_cells(content, page_bytes, int.from_bytes(content[place : place + 4], "big"))
    if not is_leaf:
        yield from _leaf_cells(content, page_bytes, int.from_bytes(content[head + 8 : head + 12], "big"))


def _values(content: bytes, cell: int) -> Iterator[tuple[int, int]]:
    _, place = _varint(content, cell)  # the length of the row
    _, start = _varint(content, place)  # its number
    header_bytes, place = _varint(content, start)
    value = start + header_bytes
    while place < start + header_bytes:
        kind, place = _varint(content, place)
        length = _LENGTHS[kind] if kind < len(_LENGTHS) else (kind - 12) // 2
        yield value, length
        value += length


_LENGTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = 0
    for byte in content[place : place + 8]:
        value, place = value << 7 | byte & 127, place + 1
        if byte < 128:
            return value, place
    return value << 8 | content[place], place + 1
