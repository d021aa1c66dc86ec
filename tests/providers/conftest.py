"""Providers connected to a loopback server that answers as told, closed at the end of the test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from layton_batch.files.digests import file_digest
from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access, CallLimits, Provider
from layton_batch.records import Image, ModelSpec, Prompt, Reasoning, Request, ResponseSchema, Submission
from layton_batch.testing.providers import Answer, HandlerCall, Loopback

from .documents import NOW

KEY = "sk-a-secret-key"
BASE_PATHS = {
    **dict.fromkeys(("openai", "doubleword", "openrouter", "xai"), "/v1"),
    "vertex": "/v1/projects/p-1/locations/l-1?gcs=gs://bucket/runs",
}

Connected = tuple[Provider, Loopback]
Serve = Callable[..., Connected]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(name, answer, timeout=…)``: the provider and the server it talks to."""
    with ExitStack() as stack:

        def start(
            name: str,
            answer: Answer | Callable[[HandlerCall], Answer],
            timeout: float = 10.0,
            version: str | None = None,
        ) -> Connected:
            server = stack.enter_context(Loopback(answer))
            access = Access(KEY, server.url + BASE_PATHS.get(name, ""), CallLimits(timeout), api_version=version)
            return stack.enter_context(closing(connect(name, access))), server

        yield start


def reply(value: object, status: int = 200, **headers: str) -> Answer:
    """Answer with a JSON value."""
    return Answer(status, json.dumps(value).encode(), dict(headers))


def routes(table: Mapping[str, object]) -> Callable[[HandlerCall], Answer]:
    """Answers by ``"METHOD /path?query"``, an entry being an Answer or a JSON value; 404 for anything else.

    An entry's key may leave the query out, and the path's prefix: the longest key that fits the end of the path wins.
    """

    def answer(call: HandlerCall) -> Answer:
        for target in (call.path, call.path.partition("?")[0]):
            fits = [key for key in table if _fits(key, call.method, target)]
            if fits:
                value = table[max(fits, key=len)]
                return value if isinstance(value, Answer) else reply(value)
        return reply({"error": {"message": f"no route {call.method} {call.path}"}}, 404)

    return answer


def _fits(key: str, method: str, target: str) -> bool:
    wanted, _, path = key.partition(" ")
    return wanted == method and target.endswith(path)


SCHEMA = ResponseSchema("grade", {"type": "object", "properties": {"score": {"type": "integer"}}})
IMAGE = Image("image/jpeg", "/9j/4AAQ")


def make_request(provider: str, *parts: str | Image, schema: bool = True, **spec: object) -> Request:
    """Return a request of the provider's model: what ``spec`` says of the model besides, and ``system``."""
    system, model = str(spec.pop("system", "Grade strictly.")), spec.pop("model", "the-model")
    asked = ModelSpec("shown", provider, model, "family", **spec)  # type: ignore[arg-type]
    return Request("run7-0001", "item", asked, Prompt(system, parts or ("2+2?",), SCHEMA if schema else None))


def effort(word: str) -> Reasoning:
    """Return a reasoning effort."""
    return Reasoning(effort=word)


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    """A batch file of one request, uploaded."""
    path = tmp_path / "shard-1.jsonl"
    path.write_bytes(b'{"custom_id":"a"}\n')
    digest = file_digest(path, "").sha256
    return Submission("b1", "tag-b1", path, "tag-b1.jsonl", digest, 1, "the-model", "file-in", intended_at=NOW)
