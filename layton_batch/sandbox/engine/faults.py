"""Faults: what the sandbox does wrong on purpose, and how often. ``docs/ci.md`` has every key, with an example."""

from __future__ import annotations

import json
import re
import threading
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

PROVIDERS = ("openai", "anthropic", "gemini", "mistral", "together", "groq", "doubleword", "openrouter", "xai")
_HTTP_ACTIONS = frozenset(
    {"status", "status_after", "drop", "drop_after", "not_json", "delay", "truncate", "short", "cut"}
)
CALLS = ("upload", "create", "poll", "results", "list", "cancel")
ACTIONS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(CALLS, _HTTP_ACTIONS),
    "outage": frozenset({"status", "drop"}),
    "row": frozenset(
        {"error", "missing", "duplicate", "unknown_id", "malformed_line", "malformed_text", "truncated", "refused"}
    ),
    "batch": frozenset({"fail", "expire", "cancel", "stop", "late", "unknown_status", "stuck"}),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of a fault file; see the module text. Raises ValueError when the fields make no sense together."""

    on: str
    action: str
    provider: str = "*"
    match: str = ""
    after: int = 0
    times: int = 0
    status: int = 500
    retry_after: float | None = None
    seconds: float = 0.0
    share: float = 0.5
    name: str = ""
    kind: str = ""
    late: float = 0.0
    counts: bool = True

    def __post_init__(self) -> None:
        if self.on not in ACTIONS:
            raise ValueError(f"fault: on = {self.on!r} is not one of {sorted(ACTIONS)}")
        if self.action not in ACTIONS[self.on]:
            raise ValueError(f"fault: action {self.action!r} does not exist on {self.on!r}: {sorted(ACTIONS[self.on])}")
        if self.provider != "*" and self.provider not in PROVIDERS:
            raise ValueError(f"fault: provider {self.provider!r} is neither '*' nor one of {list(PROVIDERS)}")
        if not 100 <= self.status <= 599:
            raise ValueError(f"fault: status {self.status} is not an HTTP status, 100 to 599")
        for name in ("after", "times", "seconds", "late"):
            if getattr(self, name) < 0:
                raise ValueError(f"fault: {name} {getattr(self, name)} is below 0")
        if not 0 <= self.share <= 1:
            raise ValueError(f"fault: share {self.share} is not between 0 and 1")
        if self.action == "unknown_status" and not self.name:
            raise ValueError("fault: unknown_status needs the status word in `name`")
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(f"fault: match {self.match!r} is not a regular expression: {error}") from error

    def covers(self, provider: str, on: str, subject: str) -> bool:
        mine = self.on == on or (self.on == "outage" and on in CALLS)
        return mine and self.provider in ("*", provider) and re.search(self.match, subject) is not None


class FaultBook:
    """Counts the occasions of every fault and says which is due. The counts start anew with each sandbox."""

    def __init__(self, faults: tuple[Fault, ...], clock: Callable[[], float]) -> None:
        self._faults = faults
        self._clock = clock
        self._seen = [0] * len(faults)
        self._began: dict[int, float] = {}
        self._lock = threading.Lock()

    def due(self, provider: str, on: str, subject: str) -> Fault | None:
        due: Fault | None = None
        with self._lock:
            for index, fault in enumerate(self._faults):
                if not fault.covers(provider, on, subject):
                    continue
                self._seen[index] += 1
                turn = self._seen[index] - fault.after
                if due is None and turn > 0 and (fault.times == 0 or turn <= fault.times) and self._lasts(index):
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
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise ValueError(f"{path}: neither TOML nor JSON of faults can be read: {error}") from error
    entries = document
    if isinstance(document, dict):
        _refuse_unknown_keys(document, {"faults"}, f"{path}: a file of faults has tables [[faults]]")
        entries = document.get("faults")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{path}: has no tables [[faults]], and is no list of faults")
    return tuple(_fault(entry, f"{path}: faults[{number}]") for number, entry in enumerate(entries))


def _fault(entry: Mapping[str, object], where: str) -> Fault:
    _refuse_unknown_keys(entry, Fault.__dataclass_fields__.keys(), where)
    try:
        return _FAULT.validate_python(entry)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        key = "".join(f".{part}" for part in detail["loc"])
        reason = "is missing" if detail["type"] == "missing" else detail["msg"].removeprefix("Value error, fault: ")
        raise ValueError(f"{where}{key}: {reason}") from error


_FAULT = TypeAdapter(Fault)


def _refuse_unknown_keys(table: Mapping[str, object], keys: Collection[str], where: str) -> None:
    for name in table:
        if name not in keys:
            raise ValueError(f"{where}: unknown key {name!r}; known keys are {', '.join(sorted(keys))}")
