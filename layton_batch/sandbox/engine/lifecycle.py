"""The life of a batch as a function of the clock. Nothing runs in the background: whoever looks moves the batch on."""

from __future__ import annotations

import threading
from dataclasses import replace
from math import inf
from typing import NamedTuple

from layton_batch.sandbox.engine.configuration import SandboxConfig
from layton_batch.sandbox.engine.dialect import SandboxDialect
from layton_batch.sandbox.engine.execution import Executor, lines_of
from layton_batch.sandbox.engine.faults import FaultBook
from layton_batch.sandbox.engine.store import BatchRefusal, SandboxBatch, Store

OUTCOMES = ("completed", "failed", "expired", "cancelled")
PHASES = ("validating", "running", "finalizing", "cancelling", *OUTCOMES)
_VALIDATING, _FINALIZING, _CANCELLING = 0.2, 0.1, 0.25
"""Shares of a batch's time."""
_HEAD = 1 << 16
_BAD_ENDS = {"expire": "expired", "cancel": "cancelled", "stop": "failed"}


class _End(NamedTuple):
    """When a batch ends, in which phase, and the share of its rows that ran by then."""

    moment: float
    outcome: str = "completed"
    share: float = 1.0


class SandboxEngine:
    """Creates, moves and cancels batches of all providers. Thread-safe; work on one batch excludes only that batch."""

    def __init__(self, store: Store, executor: Executor, faults: FaultBook, config: SandboxConfig) -> None:
        self.store = store
        self.config = config
        self._executor = executor
        self._faults = faults
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
        return self._executor.run(dialect, batch, int(end.share * batch.rows) if keeps else 0)

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
