"""Batch files: packing encoded lines into files that a provider will take, and the batch of what a file holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import file_digest, sha256
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

from layton_batch.errors import DamagedTableError
from layton_batch.files import atomic
from layton_batch.providers.protocol import Limits
from layton_batch.records import Batch, Job, NewAttempt, Shard
from layton_batch.runs.context import Run
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle


class RequestCosts(NamedTuple):
    """Costs of a request in USD: the most it can cost, and the probable cost. None: its model has no known price."""

    most: Decimal | None
    expected: Decimal | None


@dataclass(slots=True)
class OpenShard:
    """A batch file that is being written."""

    handle: BinaryIO
    digest: Any = field(default_factory=sha256)
    requests: int = 0
    size: int = 0
    max_cost: Decimal | None = Decimal(0)
    expected_usd: Decimal | None = Decimal(0)

    def add(self, line: bytes, cost: RequestCosts) -> None:
        """Write a line, given without its newline, and count what it can and will probably cost."""
        content = line + b"\n"
        self.handle.write(content)
        self.digest.update(content)
        self.requests += 1
        self.size += len(content)
        self.max_cost = _sum(self.max_cost, cost.most)
        self.expected_usd = _sum(self.expected_usd, cost.expected)

    def written(self, name: str, path: str) -> Shard:
        """Return the contents of the finished file."""
        return Shard(name, path, self.requests, self.size, self.digest.hexdigest(), self.max_cost, self.expected_usd)


def _sum(amount: Decimal | None, more: Decimal | None) -> Decimal | None:
    return None if amount is None or more is None else amount + more


@dataclass(slots=True)
class BatchFiles(AbstractContextManager["BatchFiles"]):
    """The files of a job, as few as the limits allow, written while the block lasts. The same lines always give the
    same files; of one that is not full when the block ends with an error nothing is left.

    ``file_of`` gives a shard's file, ``root`` is what the shards' paths are relative to, ``first`` the number of the
    first one.
    """

    limits: Limits
    root: Path
    file_of: Callable[[str], Path]
    first: int = 1
    shards: list[Shard] = field(default_factory=list)
    _shard: OpenShard | None = None
    _file: ExitStack = field(default_factory=ExitStack)

    def add(self, line: bytes, cost: RequestCosts) -> str | None:
        """Put a line at the end. Returns its shard; None: the line is larger than the provider takes, and in no
        file."""
        size = len(line) + 1
        if size > min(self.limits.max_line_bytes, self.limits.max_bytes):
            return None
        shard = self._shard
        if shard is not None and (
            shard.requests >= self.limits.max_requests or shard.size + size > self.limits.max_bytes
        ):
            self._close()
            shard = None
        shard = shard or self._opened()
        shard.add(line, cost)
        return self._name

    @property
    def _name(self) -> str:
        return f"s{self.first + len(self.shards):04d}"

    @property
    def _path(self) -> Path:
        return self.file_of(self._name)

    def _opened(self) -> OpenShard:
        self._shard = OpenShard(self._file.enter_context(atomic.writing(self._path)))
        return self._shard

    def _close(self) -> None:
        if self._shard is not None:
            self._file.close()
            self.shards.append(self._shard.written(self._name, self._path.relative_to(self.root).as_posix()))
            self._shard = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._close()
        else:
            self._file.__exit__(kind, error, trace)


def files_needed(sizes: Iterable[int], limits: Limits) -> int:
    """Count the files that lines of these sizes (without the newline) need. Each line fits alone."""
    files, requests, filled = 0, 0, 0
    for size in sizes:
        full = requests >= limits.max_requests or filled + size + 1 > limits.max_bytes
        if files == 0 or (full and requests):
            files, requests, filled = files + 1, 0, 0
        requests, filled = requests + 1, filled + size + 1
    return files


def check_file(run: Run, batch: Batch) -> None:
    """Raise DamagedTableError where the batch file is not what was planned: what is paid for must be what was asked."""
    path = run.folder.workspace.root / batch.path
    try:
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DamagedTableError(f"its file {path} cannot be read ({error.strerror}): put it back", path) from error
    if digest != batch.sha256:
        raise DamagedTableError(f"its file {path} was changed since it was planned: put it back", path)


def new_batch(job: Job, batch_id: str, shard: Shard, content: Sequence[NewAttempt], **columns: Any) -> Batch:
    """Return a batch of what a file holds: planned, and the first attempt, unless ``columns`` say otherwise."""
    first: dict[str, Any] = {"state": Lifecycle.PLANNED, "attempt": 1, "tag": ""}
    return Batch(
        id=batch_id,
        job_id=job.id,
        shard_id=shard.id,
        provider=job.spec.provider,
        model=job.spec.model,
        requests=shard.requests,
        path=shard.path,
        sha256=shard.sha256,
        size_bytes=shard.size_bytes,
        content=content,
        **first | columns,
    )


def unsent_batch(
    job: Job,
    shard_id: str,
    content: Sequence[NewAttempt],
    outcome: BatchOutcome,
    reason: str,
    *,
    error_class: ErrorClass = ErrorClass.NONE,
    sha256: str = "",
) -> Batch:
    """Return a collected batch without a batch file: a file brought its answers (``sha256``: of these), or nothing of
    them can be sent."""
    shard = Shard(shard_id, "", len(content), 0, sha256, None, None)
    over = {"state": Lifecycle.COLLECTED, "outcome": outcome, "error_class": error_class, "reason": reason}
    return new_batch(job, f"{job.id}.{shard_id}", shard, content, **over)
