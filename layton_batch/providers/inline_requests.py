"""Create calls that carry every request of a batch file in their body, which is streamed from the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from layton_batch.errors import FileError

HEAD, _TAIL = b'{"requests":[', b"]}"
_CHUNK = 1 << 20

CUSTOM_ID = re.compile(rb'"custom_id"\s*:\s*"([A-Za-z0-9_-]{1,64})"')
"""Custom id of a line of a batch or result file. Cannot match inside a text there, where quotes are escaped."""


def body(path: Path, head: bytes = HEAD) -> Iterator[bytes]:
    """The create call's body from a batch file: its lines are JSON without raw newlines, so each newline but the last
    becomes a comma. ``head`` goes before the first of them."""
    yield head
    held = b""
    with path.open("rb") as lines:
        while chunk := lines.read(_CHUNK):
            yield held
            body = chunk.rstrip(b"\n")
            yield body.replace(b"\n", b",")
            held = b"," * (len(chunk) - len(body))
    yield _TAIL


def body_size(path: Path, provider: str, head: bytes = HEAD) -> int:
    """Bytes of :func:`body`. Raises FileError where the file cannot be read."""
    try:
        with path.open("rb") as lines:
            size = lines.seek(0, 2)
            lines.seek(max(0, size - 1))
            return len(head) + size - (lines.read(1) == b"\n") + len(_TAIL)
    except OSError as error:
        raise FileError(f"{provider}: the batch file {path} cannot be read: {error}") from error


def custom_ids(path: Path) -> set[str]:
    """The ids of a batch file, read without parsing its lines; empty where the file is gone."""
    try:
        with path.open("rb") as lines:
            return {match[1].decode() for line in lines if (match := CUSTOM_ID.search(line))}
    except OSError:
        return set()
