"""A trivial answerer, a settable clock, and each real SDK driven through upload, create, poll and results."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from layton_batch.sandbox import Fault, ModelReply, Question, Sandbox, SandboxConfig, SandboxLimits
from tests.support.tiers import FAMILIES, tiered

JPEG = "/9j/4AAQ"
GRADE = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}
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


class Echo:
    """Answers with the question's own text; 100 tokens in (20 cached), 50 out (10 reasoning)."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def answer(self, question: Question) -> ModelReply:
        self.asked.append(question)
        return ModelReply(json.dumps({"echo": question.text}), "stop", 100, 20, 50, 10)


class Clock:
    """Stands still until it is told to move."""

    def __init__(self, start: float = 1_790_000_000.0) -> None:
        self.now = start
        self._lock = threading.Lock()

    def __call__(self) -> float:
        with self._lock:
            return self.now

    def forward(self, seconds: float) -> None:
        with self._lock:
            self.now += seconds


class Bench:
    """A sandbox on a stopped clock: batches take 10 s, of which validating 2 s; cancelling takes 2.5 s."""

    def __init__(self, sandbox: Sandbox, clock: Clock, echo: Echo) -> None:
        self.sandbox = sandbox
        self.clock = clock
        self.echo = echo

    def end(self) -> None:
        self.clock.forward(11)


@contextmanager
def bench(
    *faults: Fault, limits: SandboxLimits | None = None, state: Path | None = None, answerer: Any = None
) -> Iterator[Bench]:
    clock, echo = Clock(), Echo()
    config = SandboxConfig(
        batch_seconds=10.0,
        faults=faults,
        limits=limits or SandboxLimits(),
        answerer=answerer or echo,
        clock=clock,
        state_dir=state,
    )
    with Sandbox(config) as sandbox:
        yield Bench(sandbox, clock, echo)


def row(provider: str, key: str, text: str = "2+2?", **extra: Any) -> dict[str, Any]:
    """One valid row in the provider's form, `extra` merged into its body."""
    model = MODELS[provider]
    if provider == "anthropic":
        body = {"model": model, "max_tokens": 4096, "messages": [{"role": "user", "content": text}], **extra}
        return {"custom_id": key, "params": body}
    if provider == "gemini":
        return {"key": key, "request": {"contents": [{"role": "user", "parts": [{"text": text}]}], **extra}}
    body = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}], **extra}
    if provider != "mistral":
        body = {"model": model, **body}
    line: dict[str, Any] = {"custom_id": key, "body": body}
    if provider in ("openai", "groq", "doubleword"):
        line = {"method": "POST", "url": "/v1/chat/completions", **line}
    return line


def jsonl(rows: Sequence[Mapping[str, Any] | bytes]) -> bytes:
    return b"".join((item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in rows)


def rows_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


class Driver:
    """One provider's SDK, reduced to what the tests ask of all seven."""

    provider = ""

    def __init__(self, sandbox: Sandbox) -> None:
        self.env = sandbox.environment()

    def submit(self, rows: Sequence[Mapping[str, Any] | bytes], name: str = "shard.jsonl", tag: str = "run-1") -> str:
        raise NotImplementedError

    def status(self, batch: str) -> str:
        raise NotImplementedError

    def listed(self) -> list[str]:
        raise NotImplementedError

    def cancel(self, batch: str) -> None:
        raise NotImplementedError

    def results(self, batch: str) -> tuple[bytes, bytes]:
        """Raw output and error file; empty where there is none."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class OpenAIDriver(Driver):
    provider = "openai"
    window = "24h"

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        import openai

        upper = self.provider.upper()
        self.client = openai.OpenAI(
            api_key=self.env[f"{upper}_API_KEY"], base_url=self.env[f"{upper}_BASE_URL"], max_retries=0
        )

    def submit(self, rows, name="shard.jsonl", tag="run-1", endpoint="/v1/chat/completions"):
        file = self.client.files.create(file=(name, io.BytesIO(jsonl(rows)), "application/jsonl"), purpose="batch")
        created = self.client.batches.create(
            input_file_id=file.id, endpoint=endpoint, completion_window=self.window, metadata={"tag": tag}
        )
        return created.id

    def get(self, batch):
        return self.client.batches.retrieve(batch)

    def status(self, batch):
        return str(self.get(batch).status)

    def listed(self):
        return [item.id for item in self.client.batches.list(limit=2)]

    def cancel(self, batch):
        self.client.batches.cancel(batch)

    def content(self, file_id):
        if not file_id:
            return b""
        with self.client.files.with_streaming_response.content(file_id) as reply:
            return b"".join(reply.iter_bytes())

    def results(self, batch):
        got = self.get(batch)
        return self.content(got.output_file_id), self.content(got.error_file_id)

    def close(self):
        self.client.close()


class DoublewordDriver(OpenAIDriver):
    provider = "doubleword"


class GroqDriver(OpenAIDriver):
    provider = "groq"

    def __init__(self, sandbox: Sandbox) -> None:
        Driver.__init__(self, sandbox)
        import groq

        self.client = groq.Groq(api_key=self.env["GROQ_API_KEY"], base_url=self.env["GROQ_BASE_URL"], max_retries=0)

    def listed(self):
        found, cursor = [], None
        while True:
            page = self.client.batches.list(extra_query={"cursor": cursor} if cursor else {})
            found += [item.id for item in page.data]
            cursor = page.paging["next_cursor"]
            if not cursor:
                return found


class AnthropicDriver(Driver):
    provider = "anthropic"

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        import anthropic

        self.client = anthropic.Anthropic(
            api_key=self.env["ANTHROPIC_API_KEY"], base_url=self.env["ANTHROPIC_BASE_URL"], max_retries=0
        )

    def submit(self, rows, name="shard.jsonl", tag="run-1"):
        return self.client.messages.batches.create(requests=rows).id

    def get(self, batch):
        return self.client.messages.batches.retrieve(batch)

    def status(self, batch):
        return str(self.get(batch).processing_status)

    def listed(self):
        return [item.id for item in self.client.messages.batches.list(limit=2)]

    def cancel(self, batch):
        self.client.messages.batches.cancel(batch)

    def results(self, batch):
        with self.client.messages.batches.with_streaming_response.results(batch) as reply:
            return b"".join(reply.iter_bytes()), b""

    def close(self):
        self.client.close()


class GeminiDriver(Driver):
    provider = "gemini"

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        from google import genai

        options = {"base_url": self.env["GOOGLE_GEMINI_BASE_URL"]}
        self.client = genai.Client(api_key=self.env["GEMINI_API_KEY"], http_options=options)

    def upload(self, rows, name):
        file = io.BytesIO(jsonl(rows))
        return self.client.files.upload(file=file, config={"display_name": name, "mime_type": "application/jsonl"}).name

    def submit(self, rows, name="shard.jsonl", tag="run-1"):
        created = self.client.batches.create(
            model=MODELS["gemini"], src=self.upload(rows, name), config={"display_name": tag}
        )
        return created.name

    def get(self, batch):
        return self.client.batches.get(name=batch)

    def status(self, batch):
        return self.get(batch).state.name

    def listed(self):
        return [item.name for item in self.client.batches.list(config={"page_size": 2})]

    def cancel(self, batch):
        self.client.batches.cancel(name=batch)

    def results(self, batch):
        dest = self.get(batch).dest
        return (self.client.files.download(file=dest.file_name) if dest else b""), b""

    def close(self):
        self.client.close()


class MistralDriver(Driver):
    provider = "mistral"

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        import httpx2
        from mistralai.client import Mistral

        self.http = httpx2.Client(timeout=30, follow_redirects=True)
        self.client = Mistral(
            api_key=self.env["MISTRAL_API_KEY"], server_url=self.env["MISTRAL_BASE_URL"], client=self.http
        )

    def upload(self, rows, name="shard.jsonl"):
        file = {"file_name": name, "content": io.BytesIO(jsonl(rows)), "content_type": "application/jsonl"}
        return self.client.files.upload(file=file, purpose="batch").id

    def submit(self, rows, name="shard.jsonl", tag="run-1"):
        job = self.client.batch.jobs.create(
            endpoint="/v1/chat/completions",
            input_files=[self.upload(rows, name)],
            model=MODELS["mistral"],
            metadata={"tag": tag},
        )
        return job.id

    def get(self, batch):
        return self.client.batch.jobs.get(job_id=batch)

    def status(self, batch):
        return str(self.get(batch).status)

    def listed(self):
        return [job.id for job in self.client.batch.jobs.list(page=0, page_size=100, order_by="-created").data]

    def cancel(self, batch):
        self.client.batch.jobs.cancel(job_id=batch)

    def content(self, file_id):
        if not file_id:
            return b""
        reply = self.client.files.download(file_id=file_id)
        try:
            return b"".join(reply.iter_bytes())
        finally:
            reply.close()

    def results(self, batch):
        job = self.get(batch)
        return self.content(job.output_file), self.content(job.error_file)

    def close(self):
        self.http.close()


class TogetherDriver(OpenAIDriver):
    provider = "together"

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        Driver.__init__(self, sandbox)
        import together

        self.folder = folder
        self.client = together.Together(
            api_key=self.env["TOGETHER_API_KEY"], base_url=self.env["TOGETHER_BASE_URL"], max_retries=0
        )

    def upload(self, rows, name="shard.jsonl"):
        path = self.folder / name
        path.write_bytes(jsonl(rows))
        return self.client.files.upload(file=path, purpose="batch-api", check=False).id

    def create(self, file_id):
        return self.client.batches.create(input_file_id=file_id, endpoint="/v1/chat/completions").job.id

    def submit(self, rows, name="shard.jsonl", tag="run-1"):
        return self.create(self.upload(rows, name))

    def listed(self):
        return [job.id for job in self.client.batches.list()]


@contextmanager
def driver(provider: str, sandbox: Sandbox, folder: Path) -> Iterator[Any]:
    kinds = {
        kind.provider: kind
        for kind in (OpenAIDriver, DoublewordDriver, GroqDriver, AnthropicDriver, GeminiDriver, MistralDriver)
    }
    made = TogetherDriver(sandbox, folder) if provider == "together" else kinds[provider](sandbox)
    try:
        yield made
    finally:
        made.close()
