"""A sandbox on a clock that moves when told, with an answerer that echoes, and our own dialects as its clients."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access
from layton_batch.providers.wire_json import request_line
from layton_batch.records import (
    Image,
    ModelSpec,
    Prompt,
    Reasoning,
    Request,
    Response,
    ResponseSchema,
    Snapshot,
    Submission,
)
from layton_batch.sandbox import ModelReply, Question, Sandbox, SandboxConfig, SandboxLimits
from layton_batch.settings import Settings
from tests.support.tiers import FAMILIES, tiered

JPEG = "/9j/4AAQ"
GRADE: dict[str, Any] = {
    "type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"],
    "additionalProperties": False,
}  # fmt: skip
MODELS = {
    "openai": "gpt-5.1-2025-11-13",
    "anthropic": "claude-opus-4-5-20251101",
    "gemini": "gemini-3-flash-preview",
    "mistral": "mistral-large-2512",
    "together": "moonshotai/Kimi-K2.5",
    "groq": "openai/gpt-oss-120b",
    "doubleword": "Qwen/Qwen3-VL-235B-A22B-Instruct-FP8",
}
PROVIDERS = tuple(MODELS)
each_family = pytest.mark.parametrize("provider", tiered(PROVIDERS, ci=FAMILIES))
"""For a test of every provider: one of each wire family at every change."""


@dataclass
class Echo:
    """Answers with the question's own text; 100 tokens in (20 cached), 50 out (10 reasoning)."""

    asked: list[Question] = field(default_factory=list)

    def answer(self, question: Question) -> ModelReply:
        self.asked.append(question)
        return ModelReply(json.dumps({"echo": question.text}), "stop", 100, 20, 50, 10)


@dataclass
class Clock:
    """Stands still until it is told to move."""

    now: float = 1_790_000_000.0

    def forward(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Bench:
    """A sandbox on a stopped clock: batches take 10 s, of which validating 2 s; cancelling takes 2.5 s."""

    sandbox: Sandbox
    clock: Clock
    echo: Echo

    def end(self) -> None:
        """Go past the end of every batch."""
        self.clock.forward(11)

    def page(self, path: str) -> Any:
        """Read one of the sandbox's own pages."""
        with urlopen(f"{self.sandbox.url}/sandbox/{path}", timeout=10) as reply:
            return json.loads(reply.read())

    def listed(self) -> list[str]:
        """Return the ids of all batches."""
        return [batch["id"] for batch in self.page("batches")]


@contextmanager
def bench(*, limits: SandboxLimits | None = None, state: Path | None = None) -> Iterator[Bench]:
    """A sandbox whose clock stands still."""
    clock, echo = Clock(), Echo()
    config = SandboxConfig(
        batch_seconds=10.0, limits=limits or SandboxLimits(), answerer=echo,
        clock=lambda: clock.now, state_dir=state,
    )  # fmt: skip
    with Sandbox(config) as sandbox:
        yield Bench(sandbox, clock, echo)


def row(provider: str, key: str, *parts: str | Image, model: str | None = None, **extra: Any) -> dict[str, Any]:
    """One valid row in the provider's form, ``extra`` merged into its body."""
    spec = ModelSpec("shown", provider, model or MODELS[provider], "family", max_output_tokens=4096)
    return _row(provider, Request(key, "item", spec, Prompt("Be brief.", parts or ("2+2?",))), extra)


def whole_row(provider: str, key: str) -> dict[str, Any]:
    """A row with a system text, two texts, an image, a schema, a reasoning level and an output limit."""
    reasoning = Reasoning(budget_tokens=2048) if provider == "anthropic" else Reasoning("low")
    spec = ModelSpec("shown", provider, MODELS[provider], "family", 4096, reasoning)
    prompt = Prompt("Grade strictly.", ("one", Image("image/jpeg", JPEG), "two"), ResponseSchema("grade", GRADE))
    return _row(provider, Request(key, "item", spec, prompt), {})


def body_of(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row says to the model."""
    found: dict[str, Any] = next(line[name] for name in ("body", "params", "request") if name in line)
    return found


def _row(provider: str, request: Request, extra: Mapping[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(request_line(connect(provider, None), request))
    body_of(line).update(extra)
    return line


@dataclass
class Client:
    """One of our dialects at the sandbox, as it takes rows of any form to their end."""

    name: str
    provider: Any
    there: Bench
    folder: Path

    def submit(self, rows: Sequence[Mapping[str, Any] | bytes], file: str = "shard") -> str:
        """Upload the rows as a file of this name, and have a batch made of it."""
        path = self.folder / f"{file}.jsonl"
        path.write_bytes(
            b"".join((item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in rows)
        )
        digest, model, now = sha256(path.read_bytes()).hexdigest(), MODELS[self.name], self.there.clock.now
        unsent = Submission(file, file, path, path.name, digest, len(rows), model, intended_at=now)
        made: str = self.provider.create(replace(unsent, input_ref=self.provider.upload(unsent)))
        return made

    def look(self, batch: str) -> Snapshot:
        reading: Snapshot = self.provider.snapshot(batch)
        return reading

    def status(self, batch: str) -> str:
        return self.look(batch).provider_status

    def files(self, batch: str) -> tuple[bytes, bytes]:
        """Return the file of results and the one of errors; empty where there is none."""
        parts = {part.kind: b"".join(part.chunks) for part in self.provider.results(self.look(batch))}
        return parts.get("output", b""), parts.get("errors", b"")

    def lines(self, batch: str) -> dict[str, dict[str, Any]]:
        """Return every row of results by its custom_id."""
        whole = [json.loads(line) for line in b"".join(self.files(batch)).split(b"\n") if line]
        return {key_of(line): line for line in whole}

    def decoded(self, line: Mapping[str, Any]) -> Response:
        response: Response = self.provider.decode(json.dumps(line).encode())
        return response


def key_of(line: Mapping[str, Any]) -> str:
    return str(line["key"] if "key" in line else line["custom_id"])


@contextmanager
def client(name: str, there: Bench, folder: Path) -> Iterator[Client]:
    """Our dialect of this provider, talking to the bench."""
    key, address = Settings.from_environment(there.sandbox.environment(), folder).access(name)
    with closing(connect(name, Access(key, address))) as provider:
        yield Client(name, provider, there, folder)
