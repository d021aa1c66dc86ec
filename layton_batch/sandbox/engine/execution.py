"""Runs the rows of a batch: from the stored input file to result files on disk, one row in memory at a time."""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import orjson

from layton_batch.sandbox.answerers.questions import Answerer, CachedPrefix, ModelReply, Question
from layton_batch.sandbox.answerers.reply_forms import text_tokens
from layton_batch.sandbox.engine.dialect import Rejection, Row, SandboxDialect
from layton_batch.sandbox.engine.faults import Fault, FaultBook
from layton_batch.sandbox.engine.ledger import SandboxPrices
from layton_batch.sandbox.engine.store import Billed, SandboxBatch, SandboxUsage

_LOG = logging.getLogger(__name__)


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a JSONL file without their ends; blank ones are no rows."""
    with path.open("rb") as source:
        for line in source:
            if line.strip():
                yield line.rstrip(b"\r\n")


def _offsets(path: Path) -> list[int]:
    offsets, position = [], 0
    with path.open("rb") as source:
        for line in source:
            if line.strip():
                offsets.append(position)
            position += len(line)
    return offsets


class _ResultWriter:
    """A result file that is appended to after cutting it to its valid length."""

    def __init__(self, path: Path, valid: int) -> None:
        path.touch()
        self._file: BinaryIO = path.open("r+b")
        self._file.truncate(valid)
        self._file.seek(valid)
        self.size = valid
        self.lines = 0

    def write(self, line: bytes) -> None:
        self._file.write(line + b"\n")
        self.size += len(line) + 1
        self.lines += 1

    def close(self) -> None:
        self._file.close()


@dataclass(slots=True)
class _ExecutionStep:
    """One stretch of a batch's execution: what it has done so far."""

    output: _ResultWriter
    error: _ResultWriter
    succeeded: int = 0
    failed: int = 0
    usage: SandboxUsage = field(default_factory=SandboxUsage)


class Executor:
    """Answers rows in a seeded order, which is also the order of the result files: no provider promises another."""

    def __init__(self, answerer: Answerer, prices: SandboxPrices, faults: FaultBook, seed: int) -> None:
        self._answerer = answerer
        self._prices = prices
        self._faults = faults
        self._seed = seed
        self._answering = threading.Lock()

    def run(
        self, dialect: SandboxDialect, batch: SandboxBatch, paths: tuple[Path, Path, Path], upto: int, *, end: bool
    ) -> tuple[SandboxBatch, list[Billed]]:
        """Execute rows up to number `upto` of the order; with `end`, write the rest as the provider reports unrun rows.

        `paths` are input, output and error file. Nothing is recorded here: the caller commits the returned batch and
        bills together, and until then the bytes written do not count.
        """
        source, output, error = paths
        order = list(range(batch.rows))
        random.Random(f"{self._seed}:{batch.provider}:{batch.rows}").shuffle(order)
        offsets = _offsets(source)
        step = _ExecutionStep(_ResultWriter(output, batch.output_bytes), _ResultWriter(error, batch.error_bytes))
        billed: list[Billed] = []
        try:
            with source.open("rb") as rows:
                cached = _kept_prefix(dialect, batch, _read(rows, offsets[order[0]])) if order else None
                for number in order[batch.executed : upto]:
                    raw = _read(rows, offsets[number])
                    billed += self._row(dialect, batch, raw, step, None if number == order[0] else cached)
                unrun = order[max(upto, batch.executed) :] if end and batch.outcome != "completed" else []
                for number in unrun:
                    self._unrun(dialect, batch, _read(rows, offsets[number]), step)
        finally:
            step.output.close()
            step.error.close()
        return _advanced(batch, step, max(upto, batch.executed), len(unrun)), billed

    def _row(
        self,
        dialect: SandboxDialect,
        batch: SandboxBatch,
        raw: bytes,
        step: _ExecutionStep,
        cached: CachedPrefix | None,
    ) -> list[Billed]:
        row: Row = orjson.loads(raw)
        key = dialect.key(row)
        try:
            question = dialect.question(row, batch)
            fault = self._faults.due(batch.provider, "row", f"{key}\n{question.model}")
            if fault is not None and fault.action == "missing":
                return []
            reply = _with_cache(question, self._reply(question, fault), cached)
        except Rejection as rejection:
            line = _dump(dialect.failure(key, rejection))
            (step.error if dialect.error_file else step.output).write(line)
            step.failed += 1
            return []
        step.succeeded += 1
        step.usage = step.usage.plus(_usage(reply))
        for line in _written(dialect, row, question, reply, fault):
            step.output.write(line)
        return [self._bill(batch, question, reply)]

    def _reply(self, question: Question, fault: Fault | None) -> ModelReply:
        if fault is not None and fault.action == "error":
            raise Rejection(fault.status, fault.name or "injected failure of this row", code=fault.kind or None)
        try:
            with self._answering:
                reply = self._answerer.answer(question)
        except Exception as error:  # a broken answerer costs its rows, with the reason in them, never the server
            _LOG.exception("the answerer failed on %s", question.custom_id)
            message = f"the sandbox's answerer failed: {type(error).__name__}: {error}"
            raise Rejection(500, message, code="sandbox_answerer") from error
        return _bent(reply, fault)

    def _unrun(self, dialect: SandboxDialect, batch: SandboxBatch, raw: bytes, step: _ExecutionStep) -> None:
        if batch.outcome is None:
            return
        line = dialect.unfinished(dialect.key(orjson.loads(raw)), batch.outcome)
        if line is not None:
            (step.error if dialect.error_file else step.output).write(_dump(line))

    def _bill(self, batch: SandboxBatch, question: Question, reply: ModelReply) -> Billed:
        usage = _usage(reply)
        charge = self._prices.charge(batch.provider, question.model, usage)
        usd, unbatched = (None, None) if charge is None else (format(charge[0], "f"), format(charge[1], "f"))
        return Billed(batch.provider, batch.id, question.custom_id, question.model, usage, usd, unbatched)


def _dump(line: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(line)
    except (
        TypeError
    ):  # a lone surrogate in the text: JSON can carry it as an escape, which is for the client to survive
        return json.dumps(line, separators=(",", ":")).encode()


def _read(rows: BinaryIO, offset: int) -> bytes:
    rows.seek(offset)
    return rows.readline()


def _usage(reply: ModelReply) -> SandboxUsage:
    return SandboxUsage(
        reply.input_tokens,
        reply.cached_input_tokens,
        reply.output_tokens,
        reply.reasoning_tokens,
        reply.cache_write_tokens,
    )


def _kept_prefix(dialect: SandboxDialect, batch: SandboxBatch, raw: bytes) -> CachedPrefix | None:
    """The prefix that the row which a batch runs first leaves in the cache for the others."""
    try:
        return dialect.question(orjson.loads(raw), batch).prefix
    except Rejection:
        return None


def _with_cache(question: Question, reply: ModelReply, cached: CachedPrefix | None) -> ModelReply:
    """The reply with what was read from the cache, or written to it."""
    prefix = question.prefix
    if prefix is None:
        return reply
    tokens = text_tokens(prefix.text) // prefix.step * prefix.step
    if prefix == cached:
        return replace(reply, cached_input_tokens=tokens)
    return replace(reply, cache_write_tokens=tokens) if prefix.bills_writes else reply


def _bent(reply: ModelReply, fault: Fault | None) -> ModelReply:
    """The reply as a row fault leaves it."""
    half = reply.text[: len(reply.text) // 2]
    match fault.action if fault is not None else "":
        case "malformed_text":
            return replace(reply, text=half + '\\ "{')
        case "truncated":
            return replace(reply, text=half, finish="length")
        case "refused":
            return replace(reply, text="I cannot help with this.", finish="refusal")
    return reply


def _written(
    dialect: SandboxDialect, row: Row, question: Question, reply: ModelReply, fault: Fault | None
) -> Iterator[bytes]:
    line = _dump(dialect.success(row, question, reply))
    match fault.action if fault is not None else "":
        case "malformed_line":
            yield line[: len(line) // 2]
            return
        case "duplicate":
            second = replace(reply, text=f"{reply.text} (once more)")
            yield _dump(dialect.success(row, question, second))
        case "unknown_id":
            stranger = f"unknown-{question.custom_id}"[:64]
            yield _dump(dialect.success(row, replace(question, custom_id=stranger), reply))
    yield line


def _advanced(batch: SandboxBatch, step: _ExecutionStep, executed: int, unfinished: int) -> SandboxBatch:
    return replace(
        batch,
        executed=executed,
        succeeded=batch.succeeded + step.succeeded,
        failed=batch.failed + step.failed,
        unfinished=batch.unfinished + unfinished,
        output_bytes=step.output.size,
        error_bytes=step.error.size,
        output_lines=batch.output_lines + step.output.lines,
        usage=batch.usage.plus(step.usage),
    )
