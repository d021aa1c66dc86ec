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
    """`batch_seconds` runs from create to end; a fifth of it is validation, and a cancel takes a quarter of it.
    `state_dir` None keeps everything in a temporary folder that goes with the sandbox."""

    port: int = 0
    state_dir: Path | None = None
    batch_seconds: float = 0.2
    faults: tuple[Fault, ...] = ()
    answerer: Answerer | None = None
    limits: SandboxLimits = SandboxLimits()
    clock: Callable[[], float] = time.time
