"""Faults: what the sandbox does wrong on purpose, and how often. ``docs/providers.md`` has every key."""

from __future__ import annotations

import json
import re
import threading
import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

PROVIDERS = ("openai", "anthropic", "gemini", "mistral", "together", "groq", "doubleword", "openrouter", "xai")
CALLS = ("upload", "create", "poll", "results", "list", "cancel")
_WIRE_ACTIONS = ("status", "status_after", "drop", "drop_after", "not_json", "delay", "truncate", "short", "cut")
_ACTIONS = {
    **dict.fromkeys(CALLS, _WIRE_ACTIONS),
    "outage": ("status", "drop"),
    "row": ("error", "missing", "duplicate", "unknown_id", "malformed_line", "malformed_text", "truncated", "refused"),
    "batch": ("fail", "expire", "cancel", "stop", "late", "unknown_status", "stuck"),
}
_Amount = Annotated[float, Field(ge=0)]
_Number = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, config={"extra": "forbid"})
class Fault:
    """One entry of a fault file; see the module text. Raises ValueError when the fields make no sense together."""

    on: str
    action: str
    provider: str = "*"
    match: str = ""
    after: _Number = 0
    times: _Number = 0
    status: Annotated[int, Field(ge=100, le=599)] = 500
    retry_after: float | None = None
    seconds: _Amount = 0.0
    share: Annotated[float, Field(ge=0, le=1)] = 0.5
    name: str = ""
    kind: str = ""
    late: _Amount = 0.0
    counts: bool = True

    def __post_init__(self) -> None:
        if self.on not in _ACTIONS:
            raise ValueError(f"on = {self.on!r} is not one of {', '.join(_ACTIONS)}")
        if self.action not in _ACTIONS[self.on]:
            raise ValueError(f"action {self.action!r} is not one of {self.on!r}: {', '.join(_ACTIONS[self.on])}")
        if self.provider not in ("*", *PROVIDERS):
            raise ValueError(f"provider {self.provider!r} is neither '*' nor one of {', '.join(PROVIDERS)}")
        if self.action == "unknown_status" and not self.name:
            raise ValueError("unknown_status needs the status word in `name`")
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(f"match {self.match!r} is not a regular expression: {error}") from error

    def covers(self, provider: str, on: str, subject: str) -> bool:
        mine = self.on == on or (self.on == "outage" and on in CALLS)
        return mine and self.provider in ("*", provider) and re.search(self.match, subject) is not None


NO_FAULT = Fault(on="batch", action="late")
"""A batch that is late by no time, and nothing where no batch is."""


class FaultBook:
    """Counts the occasions of every fault and says which is due. The counts start anew with each sandbox."""

    def __init__(self, faults: tuple[Fault, ...], clock: Callable[[], float]) -> None:
        self._faults = faults
        self._clock = clock
        self._seen = [0] * len(faults)
        self._began: dict[int, float] = {}
        self._lock = threading.Lock()

    def due(self, provider: str, on: str, subject: str) -> Fault:
        """Count the occasion, and return the first fault that is due, or none."""
        due = NO_FAULT
        with self._lock:
            for index, fault in enumerate(self._faults):
                if not fault.covers(provider, on, subject):
                    continue
                self._seen[index] += 1
                turn = self._seen[index] - fault.after
                if due is NO_FAULT and turn > 0 and (fault.times == 0 or turn <= fault.times) and self._lasts(index):
                    due = fault
        return due

    def _lasts(self, index: int) -> bool:
        """An outage goes on for its seconds from the first call it meets."""
        fault, now = self._faults[index], self._clock()
        return fault.on != "outage" or not fault.seconds or now < self._began.setdefault(index, now) + fault.seconds


def load_faults(path: Path) -> tuple[Fault, ...]:
    """Read a fault file (TOML or JSON). Raises ValueError with the file, the fault and its key."""
    try:
        text = path.read_text(encoding="utf-8")
        document: object = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: neither TOML nor JSON of faults can be read: {error}") from error
    if isinstance(document, dict):
        if list(document) != ["faults"]:
            raise ValueError(f"{path}: a file of faults has tables [[faults]] and nothing else, not {sorted(document)}")
        document = document["faults"]
    try:
        return TypeAdapter(tuple[Fault, ...]).validate_python(document)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        number, key = (*detail["loc"], "", "")[:2]
        reason = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "unexpected_keyword_argument":
            reason = f"is none of {', '.join(field.name for field in fields(Fault))}"
        raise ValueError(f"{path}: faults[{number}].{key}: {reason}".replace(".:", ":")) from error
