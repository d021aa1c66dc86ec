"""Requests sent for each answer: their texts, found again in the run's batch files.

A batch file may have gigabytes. Where each request stands in it is looked up once; a request is read when its page is
written. Texts that answers share are told from others by their content, so that a page holds each once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

import orjson

from layton_batch.files.run_folder import RunFolder
from layton_batch.site.run_tables import table
from layton_batch.states import Role

MOST_BYTES = 4 << 30
"""Most bytes of batch files that are looked through for a site."""
MOST_SYSTEMS = 200
"""Different system texts that a site shows."""
_ID = re.compile(rb'"(?:custom_id|key)":\s*"([^"\\]+)"')
_BODIES = ("body", "params", "request")
_SYSTEMS = ("system", "systemInstruction", "system_instruction", "instructions")
_MESSAGES = ("messages", "contents", "input")
_PICTURE = "(an image)"


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One request. ``system``: the number of its system text, from 1, or 0 where it has none."""

    system: int
    texts: tuple[str, ...]


class SentRequests:
    """The requests of a run's answers, by custom_id, also of answers that another run paid for.

    ``systems``: the number of each system text, from 1.
    """

    def __init__(self, folder: RunFolder, stack: ExitStack) -> None:
        self.systems: dict[str, int] = {}
        self._places: dict[str, tuple[mmap, int, int]] = {}
        reused = _reused(folder)
        own = sorted(folder.batches.glob(f"{Role.PREDICT}-*/request.jsonl"))  # ids begin with the job's role
        sizes = {path: path.stat().st_size for path in (*own, *(path for path, _ in reused.values())) if path.exists()}
        if sum(sizes.values()) > MOST_BYTES:
            return
        for path in (path for path, size in sizes.items() if size):
            content = mmap(stack.enter_context(path.open("rb")).fileno(), 0, access=ACCESS_READ)
            start = 0
            for line in iter(stack.enter_context(content).readline, b""):
                if name := _ID.search(line, 0, 400):
                    self._places[name[1].decode("utf-8", "replace")] = content, start, start + len(line)
                start += len(line)
        for custom_id, (_, paid_as) in reused.items():
            if paid_as in self._places:
                self._places.setdefault(custom_id, self._places[paid_as])

    def of(self, custom_id: str) -> SentRequest | None:
        """Return the request as it was sent last; None if its batch file is missing."""
        if custom_id not in self._places:
            return None
        content, start, end = self._places[custom_id]
        try:
            line = orjson.loads(content[start:end])
        except ValueError:
            return None
        return self._sent(line) if isinstance(line, dict) else None

    def _sent(self, line: Mapping[str, object]) -> SentRequest:
        body = next((content for name in _BODIES if isinstance(content := line.get(name), dict)), line)
        systems = [text for name in _SYSTEMS for text in _texts(body.get(name))]
        texts: list[str] = []
        messages = next((body[name] for name in _MESSAGES if name in body), [])
        for message in messages if isinstance(messages, list) else [messages]:
            role = message.get("role") if isinstance(message, dict) else None
            (systems if role in ("system", "developer") else texts).extend(_texts(message))
        system = "\n\n".join(systems)
        return SentRequest(self.systems.setdefault(system, len(self.systems) + 1) if system else 0, tuple(texts))


def _reused(folder: RunFolder) -> dict[str, tuple[Path, str]]:
    """Return the batch file and the custom_id there of each answer that another run paid for."""
    rows = table(folder, "reused", ("custom_id", "role", "run", "batch_id", "paid_as")).filter(role=str(Role.PREDICT))
    return {
        custom_id: (folder.workspace.batch(run_id, batch_id).request_file, paid_as)
        for custom_id, _, run_id, batch_id, paid_as in rows.iter_rows()
    }


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of a message in order, with a placeholder for an image."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, dict):
        inner = next((value[name] for name in ("text", "content", "parts") if name in value), _PICTURE)
        yield from _texts(_PICTURE if inner is None else inner)
