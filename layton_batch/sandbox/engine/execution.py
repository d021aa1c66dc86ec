"""Runs the rows of a batch: from the stored input file to result files on disk, one row in memory at a time."""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from layton_batch.sandbox.answerers.questions import Answerer, CachedPrefix, ModelReply, Question, SandboxUsage
from layton_batch.sandbox.answerers.reply_forms import text_tokens
from layton_batch.sandbox.engine.dialect import Rejection, Row, SandboxDialect
from layton_batch.sandbox.engine.faults import Fault, FaultBook
from layton_batch.sandbox.engine.ledger import charge
from layton_batch.sandbox.engine.store import BilledRow, SandboxBatch, Store, StoredFile, new_id

_LOG = logging.getLogger(__name__)


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a JSONL file without their ends; blank ones are no rows."""
    with path.open("rb") as source:
        for line in source:
            if line.strip():
                yield line.rstrip(b"\r\n")


@dataclass(slots=True)
class _ExecutionStep:
    """Results of the rows so far. ``prefix`` is what they left in the provider's cache."""

    billed: list[BilledRow] = field(default_factory=list)
    failed: int = 0
    prefix: CachedPrefix | None = None


class Executor:
    """Answers rows in a shuffled order, which is also the order of the result files: no provider promises another."""

    def __init__(self, store: Store, answerer: Answerer, faults: FaultBook) -> None:
        self._store = store
        self._answerer = answerer
        self._faults = faults
        self._answering = threading.Lock()

    def run(self, dialect: SandboxDialect, batch: SandboxBatch, count: int) -> SandboxBatch:
        """Execute the first ``count`` rows of the order, and write the others as the provider reports rows that never
        ran. The batch, its result files and its bills are saved together at the end: what an earlier execution wrote
        that was killed does not count."""
        ids = [new_id(dialect.file_id), new_id(dialect.file_id)]
        paths = [self._store.blob(batch.provider, name) for name in ids]
        step = _ExecutionStep()
        with paths[0].open("wb") as output, paths[1].open("wb") as errors:
            failures = errors if dialect.error_file else output
            for place, row in enumerate(_shuffled(self._store.blob(batch.provider, batch.input_id), batch)):
                if place < count:
                    try:
                        output.write(self._answered(dialect, batch, row, step))
                    except Rejection as rejection:
                        failures.write(_line(dialect.failure(dialect.key(row), rejection)))
                        step.failed += 1
                elif (line := dialect.unfinished(dialect.key(row), batch.phase)) is not None:
                    failures.write(_line(line))
        files = [
            StoredFile(name, batch.provider, name, "batch_output", batch.ended or 0.0, size, "")
            for name, path in zip(ids, paths, strict=True)
            if (size := path.stat().st_size)
        ]
        written = {file.id for file in files}
        ended = replace(
            batch,
            output_id=ids[0] if ids[0] in written else "",  # a file exists only where it has lines
            error_id=ids[1] if ids[1] in written else "",
            succeeded=len(step.billed),
            failed=step.failed,
            unfinished=batch.rows - count,
            usage=sum((row.usage for row in step.billed), SandboxUsage()),
        )
        self._store.save(ended, *files, *step.billed)
        return ended

    def _answered(self, dialect: SandboxDialect, batch: SandboxBatch, row: Row, step: _ExecutionStep) -> bytes:
        """Return the row's lines in the result file. Raises Rejection."""
        question = dialect.question(row, batch)
        fault = self._faults.due(batch.provider, "row", f"{dialect.key(row)}\n{question.model}")
        if fault.action == "missing":
            return b""
        reply = _with_cache(question, self._reply(question, fault), step.prefix)
        step.prefix = step.prefix or question.prefix
        usd = charge(batch.provider, question.model, reply.usage)
        step.billed.append(BilledRow(batch.provider, batch.id, question.custom_id, question.model, reply.usage, usd))
        line = _line(dialect.success(row, question, reply))
        match fault.action:
            case "malformed_line":
                return line[: len(line) // 2] + b"\n"
            case "duplicate":
                second = replace(reply, text=f"{reply.text} (once more)")
                return _line(dialect.success(row, question, second)) + line
            case "unknown_id":
                stranger = replace(question, custom_id=f"unknown-{question.custom_id}"[:64])
                return _line(dialect.success(row, stranger, reply)) + line
        return line

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


def _with_cache(question: Question, reply: ModelReply, cached: CachedPrefix | None) -> ModelReply:
    """The reply with what was read from the cache, or written to it."""
    prefix = question.prefix
    if prefix is None:
        return reply
    tokens = text_tokens(prefix.text) // prefix.step * prefix.step
    if prefix == cached:
        return replace(reply, cached_input_tokens=tokens)
    return replace(reply, cache_write_tokens=tokens) if prefix.bills_writes else reply
