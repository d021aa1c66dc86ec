"""Setup of a sandbox."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from layton_batch.sandbox.answerers.questions import Answerer
from layton_batch.sandbox.engine.faults import Fault


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Overrides of the documented limits, for tests; None keeps the provider's own figure."""

    rows: int | None = None
    file_bytes: int | None = None
    line_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """`batch_seconds` runs from create to end and includes `validating_seconds` (None: a fifth of it).
    `cancel_seconds` is how long the transitional cancelling state lasts (None: a quarter of `batch_seconds`).
    `state_dir` None keeps everything in a temporary folder that goes with the sandbox. `seed` shuffles the order of
    results. `models`: ids that every provider's catalogue has beside the made-up ones."""

    port: int = 0
    state_dir: Path | None = None
    batch_seconds: float = 0.2
    validating_seconds: float | None = None
    cancel_seconds: float | None = None
    faults: tuple[Fault, ...] = ()
    answerer: Answerer | None = None
    limits: SandboxLimits = SandboxLimits()
    clock: Callable[[], float] = time.time
    seed: int = 0
    models: frozenset[str] = frozenset()

    def validating(self) -> float:
        return self.batch_seconds * 0.2 if self.validating_seconds is None else self.validating_seconds

    def cancelling(self) -> float:
        return self.batch_seconds * 0.25 if self.cancel_seconds is None else self.cancel_seconds
