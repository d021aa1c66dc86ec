"""Raw results: kept as they came, compressed, one file per result part; everything else is rebuilt from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard

from layton_batch import atomic
from layton_batch.providers.protocol import ResultPart

_CHUNK = 1 << 20


def store(folder: Path, parts: Iterable[ResultPart]) -> list[Path]:
    """Stream every part to ``<folder>/<kind>.zst``; memory is one chunk's. Returns the files in order."""
    paths = []
    for part in parts:
        path = folder / f"{part.kind}.jsonl.zst"
        with (
            atomic.writing(path) as handle,
            zstandard.ZstdCompressor(level=3).stream_writer(handle, closefd=False) as out,
        ):
            for chunk in part.chunks:
                out.write(chunk)
        paths.append(path)
    return paths


def lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Lines of a stored part with whether each ended in a newline. Only LF ends a line: a model's U+2028 does not."""
    rest = b""
    with path.open("rb") as handle, zstandard.ZstdDecompressor().stream_reader(handle) as stream:
        while chunk := stream.read(_CHUNK):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from ((line, True) for line in whole if line.strip())
    if rest.strip():
        yield rest, False
