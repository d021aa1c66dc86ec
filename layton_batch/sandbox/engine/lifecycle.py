"""The life of a batch as a function of the clock. Nothing runs in the background: whoever looks moves the batch on."""

from __future__ import annotations

import threading
from dataclasses import replace
from math import inf
from typing import Literal

from layton_batch.sandbox.engine.configuration import SandboxConfig
from layton_batch.sandbox.engine.dialect import SandboxDialect
from layton_batch.sandbox.engine.execution import Executor, lines_of
from layton_batch.sandbox.engine.faults import FaultBook
from layton_batch.sandbox.engine.store import BatchRefusal, Outcome, SandboxBatch, Store, StoredFile

Phase = Literal[
    "validating", "running", "finalizing", "cancelling", "odd", "completed", "failed", "expired", "cancelled"
]
_FINALIZING = 0.1
_HEAD = 1 << 16
_VEILED = frozenset({"expire", "cancel", "stop", "late"})


class SandboxEngine:
    """Creates, moves and cancels batches of all providers. Thread-safe; work on one batch excludes only that batch."""

    def __init__(self, store: Store, executor: Executor, faults: FaultBook, config: SandboxConfig) -> None:
        self.store = store
        self.config = config
        self._executor = executor
        self._faults = faults
        self._dialects: dict[str, SandboxDialect] = {}
        self._locks: dict[tuple[str, str], threading.RLock] = {}
        self._guard = threading.Lock()

    def speak(self, dialect: SandboxDialect) -> None:
        self._dialects[dialect.provider] = dialect

    def now(self) -> float:
        return self.config.clock()

    def create(self, batch: SandboxBatch) -> SandboxBatch:
        subject = f"{batch.id}\n{batch.model}\n{dict(batch.echo)}\n{self._head(batch)}"
        fault = self._faults.due(batch.provider, "batch", subject)
        batch = replace(batch, fate=fault)
        self.store.put_batch(batch)
        return batch

    def _head(self, batch: SandboxBatch) -> str:
        """The start of the input: only there do most providers name the model and the first custom_id."""
        path = self.store.blob(batch.provider, batch.input_id)
        if not path.is_file():
            return ""
        with path.open("rb") as source:
            return source.read(_HEAD).decode("utf-8", "replace")

    def current(self, provider: str, batch_id: str) -> SandboxBatch | None:
        with self._lock(provider, batch_id):
            batch = self.store.batch(provider, batch_id)
            return None if batch is None else self._shown(self._settle(batch))

    def _shown(self, batch: SandboxBatch) -> SandboxBatch:
        """Return the view of a batch that calls get. A late batch shows neither files nor counts."""
        fate = batch.fate
        if fate is None or batch.ended is None or fate.action not in _VEILED:
            return batch
        if self.now() < batch.ended + fate.late:
            batch = replace(batch, output_id="", error_id="")
        elif fate.counts:
            return batch
        return replace(batch, rows=0, succeeded=0, failed=0, unfinished=0)

    def everything(self, provider: str) -> list[SandboxBatch]:
        """All batches of a provider as they are now, newest first."""
        batches = (self.current(provider, batch.id) for batch in self.store.batches(provider))
        return [batch for batch in batches if batch is not None]

    def cancel(self, batch: SandboxBatch) -> SandboxBatch:
        """Start cancelling; a batch that has ended or is being cancelled stays as it is."""
        with self._lock(batch.provider, batch.id):
            latest = self._settle(self.store.batch(batch.provider, batch.id) or batch)
            if latest.outcome is not None or latest.cancel_asked is not None:
                return latest
            latest = replace(latest, cancel_asked=self.now())
            self.store.put_batch(latest)
            return self._settle(latest)

    def started(self, batch: SandboxBatch) -> float:
        return batch.created + self.config.validating()

    def phase(self, batch: SandboxBatch) -> Phase:
        if batch.outcome is not None:
            return batch.outcome
        now = self.now()
        if batch.cancel_asked is not None:
            return "cancelling"
        if now < self.started(batch):
            return "validating"
        if self._odd_until(batch) > now:
            return "odd"
        return "finalizing" if now >= self._end(batch) - _FINALIZING * self.config.batch_seconds else "running"

    def progress(self, batch: SandboxBatch) -> int:
        """Rows that look done: while the batch runs this follows the clock, as rows are answered only at its end."""
        if batch.outcome is not None or not batch.checked:
            return batch.executed
        return max(batch.executed, int(self._share(batch, self.now()) * batch.rows))

    def _settle(self, batch: SandboxBatch) -> SandboxBatch:
        if batch.outcome is not None:
            return batch
        now = self.now()
        dialect = self._dialects[batch.provider]
        if now >= self.started(batch) or batch.cancel_asked is not None:
            batch = self._checked(dialect, batch)
        if batch.problem is not None and batch.cancel_asked is None:
            return self._conclude(dialect, batch, "failed", 0, self.started(batch))
        end = self._end(batch)
        if now < end:
            return self._ahead(dialect, batch) if dialect.early_output and batch.checked else batch
        return self._conclude(dialect, batch, self._fated(batch), self._final_rows(batch), end)

    def _checked(self, dialect: SandboxDialect, batch: SandboxBatch) -> SandboxBatch:
        if batch.checked:
            return batch
        path = self.store.blob(batch.provider, batch.input_id)
        problem: BatchRefusal | None
        if not path.is_file():
            rows, model, problem = 0, "", BatchRefusal("invalid_request", f"input file {batch.input_id} does not exist")
        else:
            rows, model, problem = dialect.check(batch, lines_of(path), path.stat().st_size)
        if problem is None and batch.fate is not None and batch.fate.action == "fail":
            problem = BatchRefusal(
                batch.fate.kind or "invalid_request", batch.fate.name or "injected failure of this batch"
            )
        batch = replace(batch, checked=True, rows=rows, model=batch.model or model, problem=problem)
        if dialect.early_output and problem is None:
            batch = replace(batch, output_id=dialect.output_ids()[0])
            self.store.commit(batch, [], [self._result(batch, batch.output_id, "output", 0, 0)])
        else:
            self.store.put_batch(batch)
        return batch

    def _end(self, batch: SandboxBatch) -> float:
        if batch.cancel_asked is not None:
            return batch.cancel_asked + self.config.cancelling()
        if batch.fate is not None and batch.fate.action == "stuck":
            return inf
        return max(batch.created + self.config.batch_seconds, self._odd_until(batch))

    def _odd_until(self, batch: SandboxBatch) -> float:
        if batch.fate is None or batch.fate.action != "unknown_status":
            return -inf
        return self.started(batch) + batch.fate.seconds if batch.fate.seconds else inf

    def _fated(self, batch: SandboxBatch) -> Outcome:
        if batch.cancel_asked is not None:
            return "cancelled"
        kinds: dict[str, Outcome] = {"expire": "expired", "cancel": "cancelled", "stop": "failed"}
        return kinds.get(batch.fate.action if batch.fate is not None else "", "completed")

    def _share(self, batch: SandboxBatch, moment: float) -> float:
        length = self.config.batch_seconds - self.config.validating()
        share = 1.0 if length <= 0 else (moment - self.started(batch)) / length
        return min(max(share, 0.0), 1.0)

    def _final_rows(self, batch: SandboxBatch) -> int:
        if batch.problem is not None:
            return 0
        share = 1.0
        if batch.cancel_asked is not None:
            share = self._share(batch, batch.cancel_asked)
        elif batch.fate is not None and batch.fate.action in ("expire", "cancel", "stop"):
            share = batch.fate.share
        return max(batch.executed, int(share * batch.rows))

    def _ahead(self, dialect: SandboxDialect, batch: SandboxBatch) -> SandboxBatch:
        upto = self.progress(batch)
        return batch if upto <= batch.executed else self._execute(dialect, batch, upto, end=False)

    def _conclude(
        self, dialect: SandboxDialect, batch: SandboxBatch, outcome: Outcome, upto: int, ended: float
    ) -> SandboxBatch:
        batch = replace(batch, outcome=outcome, ended=ended)
        if not self.store.blob(batch.provider, batch.input_id).is_file():
            problem = batch.problem or BatchRefusal(
                "invalid_request", f"input file {batch.input_id} does not exist any more"
            )
            batch = replace(batch, outcome="failed", problem=problem)
            self.store.put_batch(batch)
            return batch
        keep = upto if outcome == "completed" or dialect.partial else 0
        return self._execute(dialect, batch, keep, end=True)

    def _execute(self, dialect: SandboxDialect, batch: SandboxBatch, upto: int, *, end: bool) -> SandboxBatch:
        output_id, error_id = dialect.output_ids()
        batch = replace(batch, output_id=batch.output_id or output_id, error_id=batch.error_id or error_id)
        paths = [self.store.blob(batch.provider, name) for name in (batch.input_id, batch.output_id, batch.error_id)]
        rows = upto if batch.problem is None else 0
        batch, billed = self._executor.run(dialect, batch, (paths[0], paths[1], paths[2]), rows, end=end)
        files: list[StoredFile] = []
        if end:
            batch, files = self._results(dialect, batch)
            batch = self._with_reason(batch)
        self.store.commit(batch, billed, files)
        return batch

    def _with_reason(self, batch: SandboxBatch) -> SandboxBatch:
        if batch.fate is None or batch.fate.action != "stop" or batch.outcome != "failed":
            return batch
        return replace(batch, problem=BatchRefusal(batch.fate.kind, batch.fate.name or "the batch was stopped"))

    def _results(self, dialect: SandboxDialect, batch: SandboxBatch) -> tuple[SandboxBatch, list[StoredFile]]:
        """Result files exist only where they have lines; the id of an empty one is taken back."""
        files: list[StoredFile] = []
        if batch.output_bytes or (dialect.early_output and batch.outcome != "failed"):
            files.append(self._result(batch, batch.output_id, "output", batch.output_bytes, batch.output_lines))
        else:
            self.store.blob(batch.provider, batch.output_id).unlink(missing_ok=True)
            batch = replace(batch, output_id="")
        if batch.error_bytes:
            files.append(
                self._result(batch, batch.error_id, "error", batch.error_bytes, batch.failed + batch.unfinished)
            )
        else:
            self.store.blob(batch.provider, batch.error_id).unlink(missing_ok=True)
            batch = replace(batch, error_id="")
        return batch, files

    def _result(
        self, batch: SandboxBatch, name: str, kind: Literal["output", "error"], size: int, lines: int
    ) -> StoredFile:
        return StoredFile(
            id=name,
            provider=batch.provider,
            name=f"{batch.id.replace('/', '_')}_{kind}.jsonl",
            purpose="batch_output",
            created=self.now(),
            size=size,
            sha256="",
            kind=kind,
            lines=lines,
            batch_id=batch.id,
        )

    def _lock(self, provider: str, batch_id: str) -> threading.RLock:
        with self._guard:
            return self._locks.setdefault((provider, batch_id), threading.RLock())
