"""Everything the server remembers: file bytes in a folder, all records in one SQLite file beside it.

A record and the bills of the rows it counts go into one transaction, so a sandbox that is killed and started again
on the same folder neither forgets a batch nor bills a row twice.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal
from urllib.parse import quote

from pydantic import TypeAdapter

from layton_batch.sandbox.engine.faults import Fault

Outcome = Literal["completed", "failed", "expired", "cancelled"]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """`ready` is False while an upload is announced but its bytes have not arrived."""

    id: str
    provider: str
    name: str
    purpose: str
    created: float
    size: int
    sha256: str
    kind: Literal["input", "output", "error"]
    lines: int | None = None
    mime: str = ""
    display_name: str = ""
    expires: float | None = None
    ready: bool = True
    batch_id: str = ""


@dataclass(frozen=True, slots=True)
class BatchRefusal:
    """Why a whole batch was refused. `line` is 1-based."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


@dataclass(frozen=True, slots=True)
class SandboxUsage:
    """Tokens in the sense of `questions.ModelReply`."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    def plus(self, other: SandboxUsage) -> SandboxUsage:
        return SandboxUsage(
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class SandboxBatch:
    """`echo` holds what the provider shows again (metadata, display name, window), `fate` the batch's own fault, which
    outlives a restart. Rows run in a seeded order, so
    `executed` says how many of that order are done and `output_bytes` / `error_bytes` how much of the result files
    is valid: bytes beyond them are left from an execution that was killed, and are cut off before it is repeated."""

    id: str
    provider: str
    created: float
    input_id: str
    endpoint: str
    model: str
    echo: Mapping[str, object]
    fate: Fault | None = None
    checked: bool = False
    rows: int = 0
    problem: BatchRefusal | None = None
    cancel_asked: float | None = None
    executed: int = 0
    succeeded: int = 0
    failed: int = 0
    unfinished: int = 0
    output_bytes: int = 0
    error_bytes: int = 0
    output_lines: int = 0
    usage: SandboxUsage = SandboxUsage()
    outcome: Outcome | None = None
    ended: float | None = None
    output_id: str = ""
    error_id: str = ""


@dataclass(frozen=True, slots=True)
class Billed:
    """One executed row. `usd` and `unbatched_usd` are decimal strings, None where the model has no price."""

    provider: str
    batch_id: str
    custom_id: str
    model: str
    usage: SandboxUsage
    usd: str | None
    unbatched_usd: str | None


_FILE = TypeAdapter(StoredFile)
_BATCH = TypeAdapter(SandboxBatch)
_BILLED = TypeAdapter(Billed)
_CHUNK = 1 << 20
_LONGEST_NAME = 150
_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (seq INTEGER PRIMARY KEY, provider TEXT, id TEXT, body TEXT, UNIQUE (provider, id));
CREATE TABLE IF NOT EXISTS batches (seq INTEGER PRIMARY KEY, provider TEXT, id TEXT, body TEXT, UNIQUE (provider, id));
CREATE TABLE IF NOT EXISTS billed (seq INTEGER PRIMARY KEY, body TEXT);
"""


def new_id(prefix: str, size: int = 12) -> str:
    return prefix + secrets.token_hex(size)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """Thread-safe. Listings are newest first."""

    def __init__(self, folder: Path) -> None:
        self._blobs = folder / "blobs"
        self.incoming = folder / "incoming"
        for path in (self._blobs, self.incoming):
            path.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._db = sqlite3.connect(folder / "index.sqlite3", check_same_thread=False)
        # WAL without an fsync per commit survives a killed process; a lost machine may forget, which a sandbox can
        # afford.
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def blob(self, provider: str, file_id: str) -> Path:
        """Return the path of a file's bytes. A client may make up any id, so an id is never used as a path."""
        name = quote(file_id, safe="")
        return self._blobs / f"{provider}-{name if len(name) < _LONGEST_NAME else _digest(file_id)}"

    def save_bytes(self, provider: str, file_id: str, source: BinaryIO | Iterable[bytes]) -> tuple[int, str]:
        """Stream `source` into the file's place, whole or not at all; returns its size and sha256."""
        target = self.blob(provider, file_id)
        partial = self.incoming / secrets.token_hex(8)
        digest, size = hashlib.sha256(), 0
        chunks = iter(lambda: source.read(_CHUNK), b"") if hasattr(source, "read") else iter(source)
        try:
            with partial.open("wb") as out:
                for chunk in chunks:
                    digest.update(chunk)
                    size += len(chunk)
                    out.write(chunk)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        partial.replace(target)
        return size, digest.hexdigest()

    def put_file(self, record: StoredFile) -> None:
        with self._lock, self._db:
            self._put("files", record.provider, record.id, _FILE.dump_json(record))

    def put_batch(self, record: SandboxBatch) -> None:
        with self._lock, self._db:
            self._put("batches", record.provider, record.id, _BATCH.dump_json(record))

    def commit(self, record: SandboxBatch, billed: Sequence[Billed], files: Sequence[StoredFile]) -> None:
        """One step of a batch's execution: the batch, the bills of its rows and its result files, all or none."""
        with self._lock, self._db:
            self._put("batches", record.provider, record.id, _BATCH.dump_json(record))
            for file in files:
                self._put("files", file.provider, file.id, _FILE.dump_json(file))
            self._db.executemany(
                "INSERT INTO billed (body) VALUES (?)", [(_BILLED.dump_json(row).decode(),) for row in billed]
            )

    def _put(self, table: str, provider: str, key: str, body: bytes) -> None:
        self._db.execute(
            f"INSERT INTO {table} (provider, id, body) VALUES (?, ?, ?) "  # noqa: S608 - table is one of ours
            "ON CONFLICT (provider, id) DO UPDATE SET body = excluded.body",
            (provider, key, body.decode()),
        )

    def file(self, provider: str, file_id: str) -> StoredFile | None:
        body = self._one("files", provider, file_id)
        return None if body is None else _FILE.validate_json(body)

    def batch(self, provider: str, batch_id: str) -> SandboxBatch | None:
        body = self._one("batches", provider, batch_id)
        return None if body is None else _BATCH.validate_json(body)

    def files(self, provider: str) -> list[StoredFile]:
        return [_FILE.validate_json(body) for body in self._all("files", provider)]

    def batches(self, provider: str) -> list[SandboxBatch]:
        return [_BATCH.validate_json(body) for body in self._all("batches", provider)]

    def drop_file(self, provider: str, file_id: str) -> None:
        self._drop("files", provider, file_id)
        self.blob(provider, file_id).unlink(missing_ok=True)

    def drop_batch(self, provider: str, batch_id: str) -> None:
        self._drop("batches", provider, batch_id)

    def billed(self) -> Iterator[Billed]:
        with self._lock:
            bodies = self._db.execute("SELECT body FROM billed ORDER BY seq").fetchall()
        for (body,) in bodies:
            yield _BILLED.validate_json(body)

    def _one(self, table: str, provider: str, key: str) -> str | None:
        with self._lock:
            row = self._db.execute(
                f"SELECT body FROM {table} WHERE provider = ? AND id = ?",  # noqa: S608
                (provider, key),
            ).fetchone()
        return None if row is None else str(row[0])

    def _all(self, table: str, provider: str) -> list[str]:
        with self._lock:
            rows = self._db.execute(
                f"SELECT body FROM {table} WHERE provider = ? ORDER BY seq DESC",  # noqa: S608
                (provider,),
            ).fetchall()
        return [str(row[0]) for row in rows]

    def _drop(self, table: str, provider: str, key: str) -> None:
        with self._lock, self._db:
            self._db.execute(f"DELETE FROM {table} WHERE provider = ? AND id = ?", (provider, key))  # noqa: S608
