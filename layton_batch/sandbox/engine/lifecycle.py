"""The life of a batch as a function of the clock, and the execution of its rows. Nothing runs in the background:
whoever looks moves the batch on."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import NamedTuple

import orjson

from layton_batch.sandbox.answerers.questions import (
    Answerer,
    ModelReply,
    Question,
    SandboxUsage,
)
from layton_batch.sandbox.engine.faults import Fault, FaultBook
from layton_batch.sandbox.engine.store import BatchRefusal, BilledRow, SandboxBatch, Store, StoredFile, charge, new_id


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Overrides of the documented limits, for tests; None keeps the provider's own figure."""

    rows: int | None = None
    file_bytes: int | None = None
    line_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """`batch_seconds` runs from create to end; a fifth of it is validation, and a cancel takes a quarter of it.
    `state_dir` None keeps everything in a temporary folder that goes with the sandbox."""

    port: int = 0
    state_dir: Path | None = None
    batch_seconds: float = 0.2
    faults: tuple[Fault, ...] = ()
    answerer: Answerer | None = None
    limits: SandboxLimits = SandboxLimits()
    clock: Callable[[], float] = time.time


@dataclass(eq=False)
class Rejection(Exception):
    """`status` is the HTTP status; `code` goes where the provider's error form has a place for it."""

    status: int
    message: str
    code: str | None = None
    retry_after: float | None = None


Row = Mapping[str, object]


class SandboxDialect(ABC):
    """`error_file`: failed rows go to a file of their own. `partial`: an expired or cancelled batch keeps the rows that
    were done. `file_id`: beginning of the ids of files."""

    provider: str
    error_file = False
    partial = True
    file_id = "file-"

    @abstractmethod
    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """Judge the whole input (`size` in bytes): number of rows, the model they share or "", why it is refused."""

    def key(self, row: Row) -> str:
        """The row's custom_id, "" where it has none."""
        return str(row.get("custom_id") or "")

    @abstractmethod
    def question(self, row: Row, batch: SandboxBatch) -> Question:
        """Raises Rejection for a row that this provider answers with an error."""

    @abstractmethod
    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]: ...

    @abstractmethod
    def failure(self, key: str, rejection: Rejection) -> dict[str, object]: ...

    def unfinished(self, _key: str, _outcome: str) -> dict[str, object] | None:
        """The line for a row that was never run; None where the provider says nothing about such rows."""
        return None


_LOG = logging.getLogger(__name__)


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a JSONL file without their ends; blank ones are no rows."""
    with path.open("rb") as source:
        for line in source:
            if line.strip():
                yield line.rstrip(b"\r\n")


def _shuffled(path: Path, batch: SandboxBatch) -> Iterator[Row]:
    offsets, position = [], 0
    with path.open("rb") as source:
        for line in source:
            offsets += [position] if line.strip() else []
            position += len(line)
        random.Random(f"0:{batch.provider}:{batch.rows}").shuffle(offsets)
        for offset in offsets[: batch.rows]:
            source.seek(offset)
            yield orjson.loads(source.readline())


def _line(row: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(row) + b"\n"
    except TypeError:  # a lone surrogate: JSON can carry it as an escape, which is for the client to survive
        return json.dumps(row, separators=(",", ":")).encode() + b"\n"


OUTCOMES = ("completed", "failed", "expired", "cancelled")
PHASES = ("validating", "running", "finalizing", "cancelling", *OUTCOMES)
_VALIDATING, _FINALIZING, _CANCELLING = 0.2, 0.1, 0.25
"""Shares of a batch's time."""
_HEAD = 1 << 16
_BAD_ENDS = {"expire": "expired", "cancel": "cancelled", "stop": "failed"}


class _End(NamedTuple):
    """The moment at which a batch ends, in which phase, and the share of its rows that ran by then."""

    moment: float
    outcome: str = "completed"
    share: float = 1.0


class SandboxEngine:
    """Creates, moves and cancels batches of all providers. Thread-safe; work on one batch excludes only that batch."""

    def __init__(self, store: Store, faults: FaultBook, config: SandboxConfig, answerer: Answerer) -> None:
        self.store = store
        self.config = config
        self._faults = faults
        self._answerer = answerer
        self._answering = threading.Lock()
        self._locks: dict[tuple[str, str], threading.RLock] = {}
        self._guard = threading.Lock()

    def now(self) -> float:
        return self.config.clock()

    def create(self, dialect: SandboxDialect, batch: SandboxBatch) -> SandboxBatch:
        """Save the batch, checked: what is wrong with it shows after its validation."""
        path, head = self.store.blob(batch.provider, batch.input_id), ""
        problem: BatchRefusal | None = BatchRefusal("invalid_request", f"input file {batch.input_id} does not exist")
        rows, model = 0, ""
        if path.is_file():
            rows, model, problem = dialect.check(batch, lines_of(path), path.stat().st_size)
            with path.open("rb") as source:  # only there do most providers name the model and the first custom_id
                head = source.read(_HEAD).decode("utf-8", "replace")
        fate = self._faults.due(batch.provider, "batch", f"{batch.id}\n{batch.model}\n{dict(batch.echo)}\n{head}")
        if problem is None and fate.action == "fail":
            problem = BatchRefusal(fate.kind or "invalid_request", fate.name or "injected failure of this batch")
        started = batch.created + _VALIDATING * self.config.batch_seconds
        batch = replace(batch, fate=fate, started=started, rows=rows, model=batch.model or model, problem=problem)
        self.store.save(batch)
        return self._shown(batch)

    def current(self, dialect: SandboxDialect, batch_id: str, *, cancel: bool = False) -> SandboxBatch | None:
        """The batch as it is now, to be shown; None if there is none. ``cancel``: start cancelling it before, unless it
        has ended or is being cancelled."""
        with self._lock(dialect.provider, batch_id):
            batch = self.store.batch(dialect.provider, batch_id)
            if batch is None:
                return None
            batch = self._settled(dialect, batch)
            if cancel and batch.ended is None and batch.cancel_asked is None:
                batch = replace(batch, cancel_asked=self.now())
                self.store.save(batch)
            return self._shown(self._settled(dialect, batch))

    def everything(self, dialect: SandboxDialect) -> list[SandboxBatch]:
        """All batches of a provider as they are now, newest first."""
        batches = (self.current(dialect, batch.id) for batch in self.store.batches(dialect.provider))
        return [batch for batch in batches if batch is not None]

    def _shown(self, batch: SandboxBatch) -> SandboxBatch:
        """Rows are answered at the end only; until then as many look done as the clock says. A batch that ended late
        shows neither files nor counts."""
        now, fate = self.now(), batch.fate
        if batch.ended is None:
            done = int(self._share(batch, now) * batch.rows)
            return replace(batch, phase=self._phase(batch, now), succeeded=done, problem=None)
        if fate.action not in (*_BAD_ENDS, "late"):
            return batch
        if now < batch.ended + fate.late:
            batch = replace(batch, output_id="", error_id="")
        elif fate.counts:
            return batch
        return replace(batch, rows=0, succeeded=0, failed=0, unfinished=0)

    def _phase(self, batch: SandboxBatch, now: float) -> str:
        """Return the phase of a batch that has not ended, or the word that a fault gives in its place."""
        if batch.cancel_asked is not None:
            return "cancelling"
        if now < batch.started:
            return "validating"
        if now < self._odd_until(batch):
            return batch.fate.name
        return "finalizing" if now >= self._end(batch).moment - _FINALIZING * self.config.batch_seconds else "running"

    def _settled(self, dialect: SandboxDialect, batch: SandboxBatch) -> SandboxBatch:
        """Run and save a batch whose time has come."""
        end = self._end(batch)
        if batch.ended is not None or self.now() < end.moment:
            return batch
        batch = replace(batch, phase=end.outcome, ended=end.moment)
        if not batch.rows:
            self.store.save(batch)
            return batch
        if end.outcome == "failed" and batch.problem is None:
            batch = replace(batch, problem=BatchRefusal(batch.fate.kind, batch.fate.name or "the batch was stopped"))
        keeps = end.outcome == "completed" or dialect.partial
        return self._run(dialect, batch, int(end.share * batch.rows) if keeps else 0)

    def _end(self, batch: SandboxBatch) -> _End:
        seconds, fate = self.config.batch_seconds, batch.fate
        if batch.cancel_asked is not None:
            moment = batch.cancel_asked + _CANCELLING * seconds
            return _End(moment, "cancelled", self._share(batch, batch.cancel_asked))
        if batch.problem is not None:
            return _End(batch.started, "failed", 0.0)
        if fate.action in _BAD_ENDS:
            return _End(batch.created + seconds, _BAD_ENDS[fate.action], fate.share)
        if fate.action == "stuck":
            return _End(inf)
        return _End(max(batch.created + seconds, self._odd_until(batch)))

    def _odd_until(self, batch: SandboxBatch) -> float:
        if batch.fate.action != "unknown_status":
            return -inf
        return batch.started + (batch.fate.seconds or inf)

    def _share(self, batch: SandboxBatch, moment: float) -> float:
        length = (1 - _VALIDATING) * self.config.batch_seconds
        return min(max((moment - batch.started) / length if length else 1.0, 0.0), 1.0)

    def _lock(self, provider: str, batch_id: str) -> threading.RLock:
        with self._guard:
            return self._locks.setdefault((provider, batch_id), threading.RLock())

    # ---- rows

    def _run(self, dialect: SandboxDialect, batch: SandboxBatch, count: int) -> SandboxBatch:
        """Execute the first ``count`` rows of a shuffled order, which is also the order of the result files, for no
        provider promises another. Write the others as the provider reports rows that never ran.

        One row is in memory at a time. The batch, its result files and its bills are saved together at the end: what an
        earlier execution wrote that was killed does not count.
        """
        ids = [new_id(dialect.file_id), new_id(dialect.file_id)]
        paths = [self.store.blob(batch.provider, name) for name in ids]
        billed: list[BilledRow] = []
        failed = 0
        with paths[0].open("wb") as output, paths[1].open("wb") as errors:
            failures = errors if dialect.error_file else output
            for place, row in enumerate(_shuffled(self.store.blob(batch.provider, batch.input_id), batch)):
                key = dialect.key(row)
                if place >= count:
                    line = dialect.unfinished(key, batch.phase)
                    failures.write(b"" if line is None else _line(line))
                    continue
                try:
                    question = dialect.question(row, batch)
                    fault = self._faults.due(batch.provider, "row", f"{key}\n{question.model}")
                    if fault.action == "missing":
                        continue
                    reply = self._reply(question, fault)
                except Rejection as rejection:
                    failures.write(_line(dialect.failure(key, rejection)))
                    failed += 1
                    continue
                usd = charge(batch.provider, question.model, reply.usage)
                billed.append(BilledRow(batch.provider, batch.id, question.custom_id, question.model, reply.usage, usd))
                output.write(_reply_lines(dialect, row, question, reply, fault.action))
        sizes = {name: path.stat().st_size for name, path in zip(ids, paths, strict=True)}
        output_id, error_id = (name if sizes[name] else "" for name in ids)  # a file exists only where it has lines
        ended = replace(
            batch,
            output_id=output_id,
            error_id=error_id,
            succeeded=len(billed),
            failed=failed,
            unfinished=batch.rows - count,
            usage=sum((row.usage for row in billed), SandboxUsage()),
        )
        files = (
            StoredFile(name, batch.provider, name, "batch_output", batch.ended or 0.0, size, "")
            for name, size in sizes.items()
            if size
        )
        self.store.save(ended, *files, *billed)
        return ended

    def _reply(self, question: Question, fault: Fault) -> ModelReply:
        if fault.action == "error":
            raise Rejection(fault.status, fault.name or "injected failure of this row", code=fault.kind or None)
        try:
            with self._answering:
                reply = self._answerer.answer(question)
        except Exception as error:  # a broken answerer costs its rows, with the reason in them, never the server
            _LOG.exception("the answerer failed on %s", question.custom_id)
            message = f"the sandbox's answerer failed: {type(error).__name__}: {error}"
            raise Rejection(500, message, code="sandbox_answerer") from error
        half = reply.text[: len(reply.text) // 2]
        match fault.action:
            case "malformed_text":
                return replace(reply, text=half + '\\ "{')
            case "truncated":
                return replace(reply, text=half, finish="length")
            case "refused":
                return replace(reply, text="I cannot help with this.", finish="refusal")
        return reply


def _reply_lines(dialect: SandboxDialect, row: Row, question: Question, reply: ModelReply, fault: str) -> bytes:
    """Return a row's lines in the result file."""
    line = _line(dialect.success(row, question, reply))
    match fault:
        case "malformed_line":
            return line[: len(line) // 2] + b"\n"
        case "duplicate":
            return _line(dialect.success(row, question, replace(reply, text=f"{reply.text} (once more)"))) + line
        case "unknown_id":
            stranger = replace(question, custom_id=f"unknown-{question.custom_id}"[:64])
            return _line(dialect.success(row, stranger, reply)) + line
    return line
