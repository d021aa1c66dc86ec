"""Raw results: kept as they came, compressed, one file per result part; everything else is rebuilt from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard

from layton_batch import atomic
from layton_batch.errors import ProviderError, ProviderReplyError, RequestRefusedError, TransientProviderError
from layton_batch.providers.protocol import ResultPart

_CHUNK = 1 << 20
RESUMES = 20
"""How often one download is taken up where it broke before the connection is given a rest."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A part on disk: how many bytes came, before they were compressed, and how many the provider says there are."""

    path: Path
    arrived: int
    size: int | None = None

    @property
    def is_short(self) -> bool:
        return self.size is not None and self.arrived < self.size


def store(folder: Path, parts: Iterable[ResultPart]) -> list[Stored]:
    """Stream every part to ``<folder>/<kind>.zst``; memory is one chunk's. Returns them in order."""
    stored = []
    for part in parts:
        path = folder / f"{part.kind}.jsonl.zst"
        with (
            atomic.writing(path) as handle,
            zstandard.ZstdCompressor(level=3).stream_writer(handle, closefd=False) as out,
        ):
            arrived = sum(out.write(chunk) for chunk in _whole(part))
        stored.append(Stored(path, arrived, part.size))
    return stored


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
    """Lines of a stored part with whether each ended in a newline. Only LF ends a line: a model's U+2028 does not."""
    rest = b""
    with path.open("rb") as handle, zstandard.ZstdDecompressor().stream_reader(handle) as stream:
        while chunk := stream.read(_CHUNK):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from ((line, True) for line in whole if line.strip())
    if rest.strip():
        yield rest, False
