"""Everything the server remembers: file bytes in a folder, all records in one SQLite file beside it; and the bill,
every executed row at the sandbox's own prices, in exact decimals.

A batch that ended, the bills of its rows and its result files go into one transaction, so a sandbox that is killed and
started again on the same folder neither forgets a batch nor bills a row twice.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import sqlite3
import threading
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import TypeAdapter

from layton_batch.sandbox.answerers.profiles import bundled_profiles
from layton_batch.sandbox.answerers.questions import SandboxUsage
from layton_batch.sandbox.engine.faults import NO_FAULT, Fault


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
    ready: bool = True


@dataclass(frozen=True, slots=True)
class BatchRefusal:
    """Why a whole batch was refused. `line` is 1-based."""

    code: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class SandboxBatch:
    """`echo` holds what the provider shows again (metadata, display name, window), `fate` the batch's own fault, which
    outlives a restart. `phase` is a phase of `lifecycle`, or the word of a fault; `started` is the end of validation,
    `ended` is None until the rows have run."""

    id: str
    provider: str
    created: float
    input_id: str
    endpoint: str
    model: str
    echo: Mapping[str, object]
    fate: Fault = NO_FAULT
    phase: str = "validating"
    started: float = 0.0
    cancel_asked: float | None = None
    ended: float | None = None
    rows: int = 0
    problem: BatchRefusal | None = None
    succeeded: int = 0
    failed: int = 0
    unfinished: int = 0
    usage: SandboxUsage = field(default_factory=SandboxUsage)
    output_id: str = ""
    error_id: str = ""


@dataclass(frozen=True, slots=True)
class BilledRow:
    """One executed row. `usd` is None where the model has no price. `times_billed` counts the bills of this custom_id
    for this model over all batches: 1 unless it was bought again."""

    provider: str
    batch_id: str
    custom_id: str
    model: str
    usage: SandboxUsage
    usd: Decimal | None
    times_billed: int = 1


Record = TypeVar("Record", StoredFile, SandboxBatch, BilledRow)
_FORMS: dict[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (StoredFile, SandboxBatch, BilledRow)}
_CHUNK = 1 << 20
_TABLE = """CREATE TABLE IF NOT EXISTS {}
    (seq INTEGER PRIMARY KEY, provider TEXT, id TEXT, body TEXT, UNIQUE (provider, id))"""


def new_id(prefix: str, size: int = 12) -> str:
    return prefix + secrets.token_hex(size)


class Store:
    """Thread-safe. Listings are newest first."""

    def __init__(self, folder: Path) -> None:
        self._blobs = folder / "blobs"
        self._blobs.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._db = sqlite3.connect(folder / "index.sqlite3", check_same_thread=False)
        # WAL without an fsync per commit survives a killed process; a lost machine may forget, which a sandbox can
        # afford.
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")
        for kind in _FORMS:
            self._db.execute(_TABLE.format(kind.__name__))

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def blob(self, provider: str, file_id: str) -> Path:
        """Return the path of a file's bytes. A client may make up any id, so an id is never used as a path."""
        return self._blobs / hashlib.sha256(f"{provider} {file_id}".encode()).hexdigest()

    def save_bytes(self, provider: str, file_id: str, source: BinaryIO | Iterable[bytes]) -> tuple[int, str]:
        """Stream `source` into the file's place, which counts once a record names it; returns its size and sha256."""
        digest, size = hashlib.sha256(), 0
        with self.blob(provider, file_id).open("wb") as out:
            for chunk in iter(lambda: source.read(_CHUNK), b"") if hasattr(source, "read") else source:
                digest.update(chunk)
                size += len(chunk)
                out.write(chunk)
        return size, digest.hexdigest()

    def save(self, *records: StoredFile | SandboxBatch | BilledRow) -> None:
        """Save the records, all or none; one with the id of an earlier one replaces it. Bills have no id."""
        with self._lock, self._db:
            for record in records:
                self._db.execute(
                    f"INSERT INTO {type(record).__name__} (provider, id, body) VALUES (?, ?, ?) "  # noqa: S608
                    "ON CONFLICT (provider, id) DO UPDATE SET body = excluded.body",
                    (record.provider, getattr(record, "id", None), _FORMS[type(record)].dump_json(record).decode()),
                )

    def file(self, provider: str, file_id: str) -> StoredFile | None:
        return next(iter(self._read(StoredFile, "provider = ? AND id = ?", provider, file_id)), None)

    def batch(self, provider: str, batch_id: str) -> SandboxBatch | None:
        return next(iter(self._read(SandboxBatch, "provider = ? AND id = ?", provider, batch_id)), None)

    def files(self, provider: str) -> list[StoredFile]:
        return self._read(StoredFile, "provider = ?", provider)

    def batches(self, provider: str) -> list[SandboxBatch]:
        return self._read(SandboxBatch, "provider = ?", provider)

    def billed(self) -> list[BilledRow]:
        """Return the bills in the order in which the rows ran."""
        return self._read(BilledRow, "TRUE")[::-1]

    def _read(self, kind: type[Record], where: str, *values: str) -> list[Record]:
        with self._lock:
            query = f"SELECT body FROM {kind.__name__} WHERE {where} ORDER BY seq DESC"  # noqa: S608
            rows = self._db.execute(query, values).fetchall()
        return [_FORMS[kind].validate_json(body) for (body,) in rows]


_MILLION = Decimal(1_000_000)
_WRITE = Decimal("1.25")
"""Price of a token that is written to a cache for five minutes, over the price of input. Anthropic alone bills it."""
_SNAPSHOT = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{6,8}|latest)\Z")


@dataclass(frozen=True, slots=True)
class Ledger:
    """`total_usd` is exact and leaves out the `unpriced_rows`."""

    rows_billed: int
    total_usd: Decimal
    unpriced_rows: int
    rows: tuple[BilledRow, ...]


@cache
def _rates() -> dict[tuple[str, str], list[Decimal]]:
    """USD per million tokens in a batch by provider and model: of input, of output, and of cached input if it has a
    price of its own."""
    published = tomllib.loads((files("layton_batch.sandbox") / "prices.toml").read_text(encoding="utf-8"))
    return {
        (provider, model): [Decimal(number) for number in entry["batch"]]
        for tables in (bundled_profiles().prices, published)
        for provider, table in tables.items()
        for model, entry in table.items()
    }


def charge(provider: str, model: str, usage: SandboxUsage) -> Decimal | None:
    """Return the price of the tokens in a batch in USD; None for a model without a price."""
    rates = _rates().get((provider, model)) or _rates().get((provider, _SNAPSHOT.sub("", model)))
    if rates is None:
        return None
    read, cached, written = usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens
    fresh = max(read - cached - written, 0) + written * _WRITE
    return (fresh * rates[0] + cached * rates[2 if len(rates) > 2 else 0] + usage.output_tokens * rates[1]) / _MILLION


def summarise(billed: Iterable[BilledRow]) -> Ledger:
    rows = tuple(billed)
    times = Counter((row.provider, row.model, row.custom_id) for row in rows)
    return Ledger(
        rows_billed=len(rows),
        total_usd=sum((row.usd for row in rows if row.usd is not None), Decimal(0)),
        unpriced_rows=sum(row.usd is None for row in rows),
        rows=tuple(replace(row, times_billed=times[row.provider, row.model, row.custom_id]) for row in rows),
    )
