"""The server's own objects: stored files, batches and billed rows. All are kept as JSON, so all fields are
JSON-valued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["completed", "failed", "expired", "cancelled"]


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
    kind: Literal["input", "output", "error"]
    lines: int | None = None
    mime: str = ""
    display_name: str = ""
    expires: float | None = None
    ready: bool = True
    batch_id: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a whole batch was refused. `line` is 1-based."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


@dataclass(frozen=True, slots=True)
class Fate:
    """What a batch-level fault has decided for one batch, kept with it so that a restart does not forget it."""

    action: Literal["fail", "expire", "cancel", "stop", "late", "unknown_status", "stuck"]
    share: float = 0.5
    name: str = ""
    kind: str = ""
    seconds: float = 0.0
    late: float = 0.0
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in the sense of `questions.Reply`."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    def plus(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """`echo` holds what the provider shows again (metadata, display name, window). Rows run in a seeded order, so
    `executed` says how many of that order are done and `output_bytes` / `error_bytes` how much of the result files
    is valid: bytes beyond them are left from an execution that was killed, and are cut off before it is repeated."""

    id: str
    provider: str
    created: float
    input_id: str
    endpoint: str
    model: str
    echo: Mapping[str, object]
    fate: Fate | None = None
    checked: bool = False
    rows: int = 0
    problem: Problem | None = None
    cancel_asked: float | None = None
    executed: int = 0
    succeeded: int = 0
    failed: int = 0
    unfinished: int = 0
    output_bytes: int = 0
    error_bytes: int = 0
    output_lines: int = 0
    usage: Usage = Usage()
    outcome: Outcome | None = None
    ended: float | None = None
    output_id: str = ""
    error_id: str = ""


@dataclass(frozen=True, slots=True)
class Billed:
    """One executed row. `usd` and `unbatched_usd` are decimal strings, None where the model has no price."""

    provider: str
    batch_id: str
    custom_id: str
    model: str
    usage: Usage
    usd: str | None
    unbatched_usd: str | None
