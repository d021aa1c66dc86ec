"""Raw results: kept as they came, compressed; everything else is rebuilt from them.

A result file that is downloaded again is kept beside its earlier copies: ``output.jsonl.zst``, ``output.2.jsonl.zst`` …
No copy is written over, for a later one may hold less.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson
import zstandard

from layton_batch.errors import ProviderError, ProviderReplyError, RequestRefusedError, TransientProviderError
from layton_batch.files import atomic
from layton_batch.providers.protocol import ResultPart

_CHUNK = 1 << 20
RESUMES = 20
"""How often one download is taken up where it broke before the connection is given a rest."""
LONGEST_LINE = 64 << 20
"""Bytes of one result line that are read: a longer line is no reply of any provider, and would fill the memory."""
_ARRIVED = "arrived.json"
"""Which files of a download that broke off had come whole, until it is repeated."""
_NAME = re.compile(r"(?P<kind>[a-z]+)(\.(?P<number>[0-9]+))?\.jsonl\.zst")


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part on disk: how many bytes came, before they were compressed, and how many the provider says there are.

    Not ``is_new``: an earlier download had brought the same bytes.
    """

    path: Path
    arrived: int
    size: int | None = None
    is_new: bool = True

    @property
    def is_short(self) -> bool:
        return self.size is not None and self.arrived < self.size


def copies(folder: Path) -> Mapping[str, list[Path]]:
    """Return every stored copy of a batch's result files by kind, in the order in which they came."""
    paths = sorted((kind_of(path), _number(path), path) for path in folder.glob("*.jsonl.zst"))
    return {kind: [path for _, _, path in group] for kind, group in groupby(paths, key=lambda entry: entry[0])}


def kind_of(path: Path) -> str:
    """``output`` or ``errors``."""
    return path.name.partition(".")[0]


def _number(path: Path) -> int:
    named = _NAME.fullmatch(path.name)
    return int(named["number"] or 1) if named else 1


def store(folder: Path, parts: Iterable[ResultPart], refs: Mapping[str, str | None] | None = None) -> list[StoredPart]:
    """Stream every part to a file of its own in ``folder``; memory is one chunk's. Returns them in order.

    ``refs``: by kind, what the provider calls each file. A file that came whole in a download of which another one
    broke off is not fetched once more when that is repeated. Bytes that an earlier copy has are not kept twice. Where a
    provider has several files of a kind, their order tells them apart.
    """
    whole = {
        key: part_stored for key, (ref, part_stored) in _arrived(folder).items() if ref == (refs or {}).get(key[0])
    }
    stored: dict[_Key, StoredPart] = {}
    numbers: Counter[str] = Counter()
    try:
        for part in parts:
            key = part.kind, numbers[part.kind]
            numbers[part.kind] += 1
            stored[key] = whole.get(key) or _store(folder, part)
    except ProviderError:
        if stored and refs:
            _note_arrived(folder, stored, refs)
        raise
    atomic.remove(folder / _ARRIVED)
    return list(stored.values())


def _store(folder: Path, part: ResultPart) -> StoredPart:
    earlier = copies(folder).get(part.kind, [])
    number = max(map(_number, earlier), default=0) + 1
    path = folder / (f"{part.kind}.jsonl.zst" if number == 1 else f"{part.kind}.{number}.jsonl.zst")
    arrived, digest = 0, sha256()
    with (
        atomic.writing(path) as handle,
        zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(handle, closefd=False) as out,
    ):
        for chunk in _whole(part):
            arrived += out.write(chunk)
            if earlier:
                digest.update(chunk)
    same = next((copy for copy in earlier if _content(copy) == digest.digest()), None)
    if same is not None:
        atomic.remove(path)
    return StoredPart(same or path, arrived, part.size, is_new=same is None)


def _content(path: Path) -> bytes:
    """A hash of what a copy holds; of nothing where the process that has the batch by now removed it."""
    digest = sha256()
    with suppress(FileNotFoundError, zstandard.ZstdError):
        for chunk in _chunks(path):
            digest.update(chunk)
    return digest.digest()


_Key = tuple[str, int]
"""Kind of a result file, and its place among the files of that kind."""


def _note_arrived(folder: Path, stored: Mapping[_Key, StoredPart], refs: Mapping[str, str | None]) -> None:
    rows = [[*key, refs.get(key[0]), part.path.name, part.arrived, part.size] for key, part in stored.items()]
    atomic.write_bytes(folder / _ARRIVED, orjson.dumps(rows))


def _arrived(folder: Path) -> Mapping[_Key, tuple[str | None, StoredPart]]:
    """Return what :func:`_note_arrived` noted, as far as the files are still there."""
    try:
        rows: list[Any] = orjson.loads((folder / _ARRIVED).read_bytes())
        parts = {
            (kind, number): (ref, StoredPart(folder / name, arrived, size))
            for kind, number, ref, name, arrived, size in rows
        }
    except (OSError, ValueError, TypeError):
        return {}
    return {key: (ref, part) for key, (ref, part) in parts.items() if part.path.is_file()}


def prune(folder: Path, read: Collection[Path], naming: Collection[Path]) -> None:
    """Remove the copies that name no request of the batch: all where another copy does, else all but the last.

    Only copies that were ``read``: one that another process brought since may hold answers.
    """
    for paths in copies(folder).values():
        copies_read = [path for path in paths if path in read]
        useless = [path for path in copies_read if path not in naming]
        for path in useless if len(useless) < len(copies_read) else useless[:-1]:
            atomic.remove(path)


def _whole(part: ResultPart) -> Iterator[bytes]:
    """The part's bytes; a download that breaks off goes on from there, as long as that brings anything new.

    Raises the ProviderError of the last break.
    """
    arrived, since, breaks = 0, 0, 0
    chunks = part.chunks
    while True:
        try:
            for chunk in chunks:
                arrived += len(chunk)
                yield chunk
        except TransientProviderError as broken:
            breaks += 1
            if part.resume is None or arrived == since or breaks > RESUMES:
                raise
            since = arrived
            chunks = _from(part.resume, arrived, broken)
        else:
            return


def _from(resume: Callable[[int], Iterator[bytes]], start: int, broken: ProviderError) -> Iterator[bytes]:
    """The rest, or the error that broke the download where there is no such thing as a rest."""
    try:
        yield from resume(start)
    except (ProviderReplyError, RequestRefusedError):
        raise broken from None


def lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Lines of a stored part with whether each ended in a newline. Only LF ends a line: a model's U+2028 does not.

    Of a line longer than LONGEST_LINE come its first LONGEST_LINE + 1 bytes. Raises ZstdError where the disk has
    damaged the part.
    """
    pieces: list[bytes] = []
    length = 0
    for chunk in _chunks(path):
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            line = b"".join([*pieces, piece])[: LONGEST_LINE + 1]
            pieces, length = [], 0
            if line.strip():
                yield line, True
        if length <= LONGEST_LINE:
            pieces.append(rest[: LONGEST_LINE + 1 - length])
            length += len(pieces[-1])
    if (line := b"".join(pieces)).strip():
        yield line, False


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield a copy's content. Raises ZstdError where the disk has damaged it."""
    with path.open("rb") as handle, zstandard.ZstdDecompressor().stream_reader(handle) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
