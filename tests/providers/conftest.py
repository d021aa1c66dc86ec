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

KEY = "sk-a-secret-key"
BASE_PATHS = {"openai": "/v1", "doubleword": "/v1", "openrouter": "/v1"}

Connected = tuple[Provider, Loopback]
Serve = Callable[..., Connected]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(name, answer, timeout=…)``: the provider and the server it talks to."""
    with ExitStack() as stack:

        def start(name: str, answer: Answer | Callable[[HandlerCall], Answer], timeout: float = 10.0) -> Connected:
            server = stack.enter_context(Loopback(answer))
            patience = CallLimits(timeout)
            provider = connect(name, Access(KEY, server.url + BASE_PATHS.get(name, ""), patience))
            return stack.enter_context(closing(provider)), server

        yield start


def reply(value: object, status: int = 200, **headers: str) -> Answer:
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
    model = ModelSpec("shown", provider, "the-model", "family", **spec)  # type: ignore[arg-type]
    prompt = Prompt("Grade strictly.", parts or ("2+2?",), SCHEMA if schema else None)
    return Request("run7-0001", "item", model, prompt)


def effort(word: str) -> Reasoning:
    return Reasoning(effort=word)


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    path = tmp_path / "shard-1.jsonl"
    path.write_bytes(b'{"custom_id":"a"}\n')
    return Submission(
        "b1",
        "tag-b1",
        path,
        "tag-b1.jsonl",
        file_digest(path, "").sha256,
        1,
        "the-model",
        "file-in",
        intended_at=1_800_000_000.0,
    )
