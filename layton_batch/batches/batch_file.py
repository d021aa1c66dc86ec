"""Batch files: packing encoded lines into files that a provider will take, and what a file holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from layton_batch.costs.estimate import estimate_request
from layton_batch.costs.prices import PriceBook
from layton_batch.errors import DamagedTableError
from layton_batch.files import atomic, tables
from layton_batch.providers.protocol import Limits, Provider
from layton_batch.records import Batch, Request, Shard
from layton_batch.run.context import Run


@dataclass(frozen=True, slots=True)
class Line:
    """One encoded request, and the most it can cost (None: no known price)."""

    custom_id: str
    content: bytes
    max_cost: Decimal | None


def line_of(request: Request, provider: Provider, prices: PriceBook) -> Line:
    """The request as the provider takes it, and the most it can cost."""
    return Line(request.custom_id, provider.encode(request), estimate_request(request, prices))


@dataclass(slots=True)
class Packed:
    """What came of packing: the files, which request lies in which, and those too large for this provider."""

    shards: list[Shard] = field(default_factory=list)
    shard_of: dict[str, str] = field(default_factory=dict)
    max_cost: dict[str, Decimal | None] = field(default_factory=dict)
    too_large: list[str] = field(default_factory=list)


@dataclass(slots=True)
class OpenShard:
    """A batch file that is being written."""

    handle: BinaryIO
    digest: Any
    requests: int = 0
    size: int = 0
    max_cost: Decimal | None = Decimal(0)

    def add(self, line: Line) -> None:
        """One line more."""
        content = line.content + b"\n"
        self.handle.write(content)
        self.digest.update(content)
        self.requests += 1
        self.size += len(content)
        known = self.max_cost is not None and line.max_cost is not None
        self.max_cost = self.max_cost + line.max_cost if known else None  # type: ignore[operator]

    def written(self, name: str, path: str) -> Shard:
        """What the file holds."""
        return Shard(name, path, self.requests, self.size, self.digest.hexdigest(), self.max_cost)


def pack(lines: Iterable[Line], limits: Limits, root: Path, folder: Path, first: int = 1) -> Packed:
    """Write ``lines``, in order, to as few files as the limits allow under ``folder``; memory is one line's.

    The same lines always give the same files. ``root`` is what the shards' paths are relative to, ``first`` the number
    of the first one.
    """
    packed = Packed()
    pending = iter(lines)
    line = _next_fitting(pending, limits, packed)
    while line is not None:
        name = f"s{first + len(packed.shards):04d}"
        path = folder / f"{name}.jsonl"
        with ExitStack() as stack:
            shard = OpenShard(stack.enter_context(atomic.writing(path)), sha256())
            line = _fill(shard, line, pending, limits, packed, name)
        packed.shards.append(shard.written(name, path.relative_to(root).as_posix()))
    return packed


def files_needed(sizes: Iterable[int], limits: Limits) -> int:
    """How many files :func:`pack` makes of lines of these sizes (without the newline) that all fit by themselves."""
    files, requests, filled = 0, 0, 0
    for size in sizes:
        full = requests >= limits.max_requests or filled + size + 1 > limits.max_bytes
        if files == 0 or (full and requests):
            files, requests, filled = files + 1, 0, 0
        requests, filled = requests + 1, filled + size + 1
    return files


def _fill(
    shard: OpenShard, first: Line, pending: Iterator[Line], limits: Limits, packed: Packed, name: str
) -> Line | None:
    """Fill one file; returns the first line that no longer fits, or None at the end."""
    line: Line | None = first
    while line is not None:
        full = shard.requests >= limits.max_requests or shard.size + len(line.content) + 1 > limits.max_bytes
        if full and shard.requests:
            return line
        shard.add(line)
        packed.shard_of[line.custom_id] = name
        packed.max_cost[line.custom_id] = line.max_cost
        line = _next_fitting(pending, limits, packed)
    return None


def _next_fitting(pending: Iterator[Line], limits: Limits, packed: Packed) -> Line | None:
    for line in pending:
        if len(line.content) + 1 <= min(limits.max_line_bytes, limits.max_bytes):
            return line
        packed.too_large.append(line.custom_id)
    return None


def batch_requests(run: Run, batch: Batch) -> pl.DataFrame:
    """``custom_id, item_id, max_cost`` (exact text, null: unknown) of every line of the batch's file, in its order."""
    requests = tables.read_part(
        run.folder.part("requests", batch.job_id), columns=["custom_id", "item_id", "shard_id", "max_cost"]
    )
    attempt = run.folder.part("attempts", batch.id)
    if not attempt.exists():
        return requests.filter(pl.col("shard_id") == batch.shard_id).drop("shard_id")
    repeated = tables.read_part(attempt)
    return repeated.join(requests.drop("shard_id", "max_cost"), on="custom_id", how="left", maintain_order="left")


def check_file(run: Run, batch: Batch) -> None:
    """Raises DamagedTableError where the batch file is not what was planned: what is paid for must be what was asked,
    also when lines of it go again."""
    path = run.folder.root / batch.path
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DamagedTableError(f"its file {path} cannot be read: {error.strerror}", path) from error
    if found != batch.sha256:
        raise DamagedTableError(f"its file {path} was changed since it was planned: put it back", path)
