"""Providers connected to a loopback server that answers as told, closed at the end of the test or of its module."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

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
Play = Callable[..., Connected]
Wire = Callable[..., list[HandlerCall]]


def _connected(stack: ExitStack, name: str, server: Loopback, timeout: float = 10.0) -> Provider:
    access = Access(KEY, server.url + BASE_PATHS.get(name, ""), CallLimits(timeout))
    return stack.enter_context(closing(connect(name, access)))


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(name, answer, timeout=…)``: a new connection of the provider, and the server it talks to."""
    with ExitStack() as stack:

        def start(name: str, answer: Answer | Callable[[HandlerCall], Answer], timeout: float = 10.0) -> Connected:
            server = stack.enter_context(Loopback(answer))
            return _connected(stack, name, server, timeout), server

        yield start


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    """``play(name, replies)``: the provider's one connection of the module; its server gives these replies from now on.

    ``replies``: by a part of the path with its query, which ends with ``&``; the first that fits is given, and one
    under "" always fits.
    """
    with ExitStack() as stack:
        now: dict[str, Mapping[str, Any]] = {}

        @cache
        def start(name: str) -> Connected:
            def answer(call: HandlerCall) -> Answer:
                return as_answer(next(said for part, said in now[name].items() if part in f"{call.path}&"))

            server = stack.enter_context(Loopback(answer))
            return _connected(stack, name, server), server

        def say(name: str, replies: Mapping[str, Any]) -> Connected:
            now[name] = replies
            provider, server = start(name)
            server.calls.clear()
            return provider, server

        yield say


def answer_calls(
    patch: pytest.MonkeyPatch, answer: Callable[[HandlerCall], Answer], size: int = 1 << 16
) -> list[HandlerCall]:
    """Let no call of either HTTP library leave this process, whatever its host; replies come in pieces of ``size``.
    Return the list of calls to come."""
    calls: list[HandlerCall] = []

    def handle(library: Any, request: Any) -> Any:
        headers = {name.lower(): value for name, value in request.headers.items()}
        calls.append(HandlerCall(request.method, request.url.raw_path.decode(), headers, request.read()))
        said = answer(calls[-1])
        pieces = [said.body[at : at + size] for at in range(0, len(said.body), size)]
        stream = type("Pieces", (library.SyncByteStream,), {"__iter__": lambda _self: iter(pieces)})()
        return library.Response(said.status, headers=dict(said.headers), stream=stream)

    for library in (httpx, httpx2):
        called = partial(handle, library)
        patch.setattr(library.HTTPTransport, "handle_request", lambda _self, asked, go=called: go(asked))
    return calls


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    return partial(answer_calls, monkeypatch)


def as_answer(said: Any) -> Answer:
    """Make an answer of a reply as files of cases have it: a document, or ``$text`` with its ``$status``."""
    if isinstance(said, Answer):
        return said
    if isinstance(said, dict) and "$text" in said:
        return Answer(said.get("$status", 200), said["$text"].encode(), said.get("$headers", {}))
    return reply(said)


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


def make_request(provider: str, *parts: str | Image, **spec: Any) -> Request:
    """Return a request of the provider's model: what ``spec`` says of the model, and ``system``."""
    system, model = spec.pop("system", "Grade strictly."), spec.pop("model", "the-model")
    if "reasoning" in spec:
        spec["reasoning"] = Reasoning(**spec["reasoning"])
    asked = ModelSpec("shown", provider, model, "family", **spec)
    return Request("run7-0001", "item", asked, Prompt(system, parts or ("2+2?",), SCHEMA))


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    """A batch file of one request, uploaded."""
    path = tmp_path / "shard-1.jsonl"
    path.write_bytes(b'{"custom_id":"a"}\n')
    digest = sha256(path.read_bytes()).hexdigest()
    return Submission("b1", "tag-b1", path, "tag-b1.jsonl", digest, 1, "the-model", "file-in", intended_at=NOW)
