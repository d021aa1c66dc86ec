"""Requests and results that come within a JSON document: a create call that carries every request of a batch file, a
reply that holds every result of a batch. Neither is held in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from layton_batch.errors import FileError
from layton_batch.providers.wire_errors import CUSTOM_ID
from layton_batch.providers.wire_json import JsonObject, parse_json, parse_object

# ---- requests

HEAD, _TAIL = b'{"requests":[', b"]}"
_CHUNK = 1 << 20
_HEAD_BYTES = 1 << 20
"""Bytes at the head of results whose custom_ids tell whose they are."""


def body(path: Path, head: bytes = HEAD) -> Iterator[bytes]:
    """Yield the create call's body from a batch file: its lines are JSON without raw newlines, so each newline but the
    last becomes a comma. ``head`` goes before the first of them."""
    yield head
    held = b""
    with path.open("rb") as lines:
        while chunk := lines.read(_CHUNK):
            yield held
            text = chunk.rstrip(b"\n")
            yield text.replace(b"\n", b",")
            held = b"," * (len(chunk) - len(text))
    yield _TAIL


def body_size(path: Path, provider: str, head: bytes = HEAD) -> int:
    """Return the bytes of :func:`body`. Raises FileError if the file cannot be read."""
    try:
        with path.open("rb") as lines:
            size = lines.seek(0, 2)
            lines.seek(max(0, size - 1))
            return len(head) + size - (lines.read(1) == b"\n") + len(_TAIL)
    except OSError as error:
        raise FileError(f"{provider}: the batch file {path} cannot be read: {error}") from error


def custom_ids(path: Path) -> set[str]:
    """Return the ids of a batch file, read without parsing its lines; none if the file is gone."""
    try:
        with path.open("rb") as lines:
            return {match[1].decode() for line in lines if (match := CUSTOM_ID.search(line))}
    except OSError:
        return set()


def first_custom_ids(results: Iterator[bytes]) -> frozenset[str]:
    """Return the ids that the first 1 MiB of results name."""
    head = b""
    while len(head) < _HEAD_BYTES and (piece := next(results, b"")):
        head += piece
    return frozenset(name.decode() for name in CUSTOM_ID.findall(head))


# ---- results


def inline_results(
    pieces: Iterable[bytes], name: str, provider: str, reply_name: str
) -> tuple[Iterator[bytes], JsonObject]:
    """Return the elements of the array under ``name`` in a JSON object, each as a line without the newline, and the
    object without them. Raises ProviderReplyError for what is no whole object.

    The reply is held on disk. One with what JSON lacks, such as half a surrogate pair, is read in memory.
    """
    rows: Iterator[bytes]
    with TemporaryFile() as file:
        file.writelines(pieces)
        file.flush()
        try:
            fields = msgspec.json.decode(mmap(file.fileno(), 0, access=ACCESS_READ), type=dict[str, msgspec.Raw])
            results = msgspec.json.decode(fields.get(name, b"[]"), type=list[msgspec.Raw])
            rest = {key: parse_json(bytes(value), provider, reply_name) for key, value in fields.items() if key != name}
            if name in fields:
                rest[name] = []
            rows = (bytes(row).replace(b"\n", b" ").replace(b"\r", b" ") for row in results)  # none within a text
        except (msgspec.MsgspecError, ValueError, RecursionError):
            file.seek(0)
            rest = dict(parse_object(file.read(), provider, reply_name))
            rows = iter(())
            if isinstance(listed := rest.get(name), list):
                rows, rest[name] = (json.dumps(row).encode() for row in listed), []
    return rows, rest
