"""Replies of every form: a dialect raises only errors of providers, and what it reads can be decided on and stored."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import httpx
import httpx2
import pytest

from layton_batch.batches import machine
from layton_batch.clock import SystemClock
from layton_batch.errors import ProviderError, ProviderReplyError
from layton_batch.files.digests import file_digest
from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access, Provider
from layton_batch.providers.request_line import request_line
from layton_batch.records import MatchingBatch, ModelSpec, Prompt, Request, Response, Snapshot, Submission, Usage
from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.states import Lifecycle
from tests.hostile.reply_grammar import bent_reply
from tests.support.batch_states import AT, ended, flying, submitting
from tests.support.tiers import FAMILIES, tiered

IN_SANDBOX = {
    "openai": ("/openai/v1", "gpt-5.1-2025-11-13"),
    "anthropic": ("/anthropic", "claude-opus-4-5-20251101"),
    "gemini": ("/gemini", "gemini-3-flash-preview"),
    "mistral": ("/mistral", "mistral-large-2512"),
    "together": ("/together", "moonshotai/Kimi-K2-Thinking"),
    "groq": ("/groq", "openai/gpt-oss-120b"),
    "doubleword": ("/doubleword/v1", "Qwen/Qwen3-VL-235B-A22B-Instruct-FP8"),
    "openrouter": ("/openrouter/api/v1", "z-ai/glm-5.3"),
}
"""Base paths and models of the providers whose sound replies the sandbox gives."""
NAMES = (*IN_SANDBOX, "xai", "vertex")
KINDS = ("list", "batch", "results")
MOST_STORED = 2**63 - 1
ADDRESS = "http://127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Sound:
    """A batch that has ended, and the replies about it. ``replies``: by kind of call and path."""

    base_url: str
    submission: Submission
    snapshot: Snapshot
    replies: Mapping[str, Mapping[str, bytes]]
    lines: tuple[bytes, ...]


@dataclass(slots=True)
class Wire:
    """Stands in for the connections of both HTTP libraries: each call gets the reply that ``answer`` gives."""

    answer: Callable[[str], bytes]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for library in (httpx, httpx2):
                patch.setattr(library.HTTPTransport, "handle_request", self._handler(library))
            yield

    def _handler(self, library: Any) -> Callable[[object, Any], Any]:
        headers = {"content-type": "application/json", "date": "Wed, 18 Nov 2026 12:00:00 GMT"}

        def handle(_transport: object, request: Any) -> Any:
            return library.Response(200, headers=headers, stream=library.ByteStream(self.answer(request.url.path)))

        return handle


@contextmanager
def recording(replies: dict[str, bytes]) -> Iterator[None]:
    """Keep the replies of calls by path."""
    with pytest.MonkeyPatch.context() as patch:
        for library in (httpx, httpx2):
            send = library.HTTPTransport.handle_request

            def handle(transport: Any, request: Any, send: Any = send, library: Any = library) -> Any:
                reply = send(transport, request)
                content = replies[request.url.path] = reply.read()
                kept = [(key, value) for key, value in reply.headers.multi_items() if key != "content-encoding"]
                return library.Response(reply.status_code, headers=kept, stream=library.ByteStream(content))

            patch.setattr(library.HTTPTransport, "handle_request", handle)
        yield


def called(provider: Provider, kind: str, sound: Sound) -> object:
    """Make the call of this kind, with everything that is read of its reply."""
    if kind == "list":
        return list(provider.find(sound.submission))
    if kind == "batch":
        return provider.snapshot(sound.snapshot.provider_id)
    return lines_of(provider, sound.snapshot)


def lines_of(provider: Provider, snapshot: Snapshot) -> list[bytes]:
    return [line for part in provider.results(snapshot) for line in b"".join(part.chunks).split(b"\n") if line]


@pytest.fixture(scope="module")
def sound_replies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Sound]]:
    folder = tmp_path_factory.mktemp("sound")
    with Sandbox(SandboxConfig(batch_seconds=0.01)) as sandbox:

        @cache
        def of(name: str) -> Sound:
            return written(name, folder) if name not in IN_SANDBOX else recorded(name, folder, sandbox.url)

        yield of


def recorded(name: str, folder: Path, url: str) -> Sound:
    path, model = IN_SANDBOX[name]
    address, clock = url + path, SystemClock()
    replies: dict[str, dict[str, bytes]] = {kind: {} for kind in KINDS}
    with closing(connect(name, Access("sandbox-key", address))) as provider:
        unsent = submission(provider, folder, model, clock.now())
        sent = replace(unsent, input_ref=provider.upload(unsent))
        provider_id = provider.create(sent)
        for _ in range(1000):
            if (snapshot := provider.snapshot(provider_id)).state is Lifecycle.ENDED:
                break
            clock.sleep(0.01)
        sound = Sound(address, sent, snapshot, replies, ())
        for kind in KINDS:
            with recording(replies[kind]):
                called(provider, kind, replace(sound, submission=replace(sent, custom_ids={})))
        return replace(sound, lines=tuple(lines_of(provider, snapshot)))


def submission(provider: Provider, folder: Path, model: str, now: float) -> Submission:
    """Write two requests, and describe them as a batch whose create was just intended."""
    spec, path = ModelSpec("shown", provider.name, model, "family"), folder / f"{provider.name}.jsonl"
    requests = [Request(f"c-{number}", "item", spec, Prompt("Be brief.", ("2+2?",), None)) for number in range(2)]
    path.write_bytes(b"".join(request_line(provider, request) + b"\n" for request in requests))
    return Submission(
        f"b-{provider.name}", "tag-1", path, path.name, file_digest(path, "").sha256, 2, model, None, now, now
    )


CHAT = {
    "model": "m-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "4"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 5, "cost_in_usd_ticks": 12},
}


def written(name: str, folder: Path) -> Sound:
    """Replies as the documents of xAI and Vertex show them."""
    state = {"num_requests": 2, "num_pending": 0, "num_success": 1, "num_error": 1}
    batch = {"batch_id": "batch-1", "name": "tag-1/2", "cancel_time": None, "state": state}
    rows = [
        {"batch_request_id": "c-0", "batch_result": {"response": {"chat_get_completion": CHAT}}},
        {"batch_request_id": "c-1", "batch_result": {"error": {"code": 3, "message": "no"}}},
    ]
    job = {
        "state": "JOB_STATE_SUCCEEDED",
        "outputInfo": {"gcsOutputDirectory": "gs://bucket/runs/x"},
        "completionStats": {"successfulCount": "1", "failedCount": "1"},
    }
    answer = {
        "candidates": [{"content": {"parts": [{"text": "4"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 1},
    }
    lines = [{"key": "c-0", "status": "", "response": answer}, {"key": "c-1", "status": "Bad Request: x"}]
    objects = {"items": [{"name": "runs/x/predictions.jsonl"}]}
    documents: Mapping[str, Mapping[str, Mapping[str, object]]] = {
        "xai": {
            "list": {"/v1/batches": {"batches": [batch], "pagination_token": None}},
            "batch": {"/v1/batches/batch-1": batch},
            "results": {"/v1/batches/batch-1/results": {"results": rows, "pagination_token": None}},
        },
        "vertex": {"list": {}, "batch": {"/v1/projects/p/locations/l/batchPredictionJobs/7": job}, "results": {}},
    }
    replies = {
        kind: {path: json.dumps(document).encode() for path, document in of_kind.items()}
        for kind, of_kind in documents[name].items()
    }
    if name == "vertex":
        text = b"".join(json.dumps(one).encode() + b"\n" for one in lines)
        place = "/storage/v1/b/bucket/o"
        replies["results"] = {place: json.dumps(objects).encode(), f"{place}/runs/x/predictions.jsonl": text}
    provider_id = "batch-1" if name == "xai" else "v1/projects/p/locations/l/batchPredictionJobs/7"
    refs = provider_id if name == "xai" else "gs://bucket/runs/x"
    base = ADDRESS if name == "xai" else f"{ADDRESS}/v1/projects/p/locations/l?gcs=gs://bucket/runs"
    asked = submission(connect(name, None), folder, "gemini-3-flash", AT.now)
    snapshot = Snapshot(provider_id, "ended", Lifecycle.ENDED, results_ref=refs)
    of_lines = tuple(json.dumps(one).encode() for one in (rows if name == "xai" else lines))
    return Sound(base, asked, snapshot, replies, of_lines)


# ---- what is read can be decided on and stored


def claim_storable(value: object) -> None:
    """Claim that each text is UTF-8, each whole number has 64 bits, and each other number is finite."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, int):
        assert abs(value) <= MOST_STORED
    elif isinstance(value, float):
        assert math.isfinite(value)
    elif isinstance(value, Decimal):
        assert value.is_finite()
        assert 0 <= value < 10**9
    elif isinstance(value, Snapshot | Response | Usage | MatchingBatch):
        for name in value.__dataclass_fields__:
            claim_storable(getattr(value, name))


def claim_decided(kind: str, reading: Any) -> None:
    """Claim that the machine decides from the reading, be it an error."""
    if kind == "list":
        machine.after_look(submitting(), reading, AT)
    elif kind == "batch":
        for before in (flying(), replace(flying(), state=Lifecycle.CANCELLING)):
            machine.after_snapshot(before, reading, AT)
    elif isinstance(reading, ProviderError):
        machine.after_failed_download(ended(), reading, AT)


FEW, MANY = (60, 1), (10_000, 2)
"""Replies, and the seed that they are bent by."""


@pytest.mark.parametrize(
    ("name", "kind", "drawn"),
    tiered(NAMES, KINDS, (FEW, MANY), ci=[(name, kind, FEW) for name in FAMILIES for kind in KINDS]),
)
def test_a_reply_of_any_form_is_read_or_is_an_error_of_its_provider(
    sound_replies: Callable[[str], Sound], name: str, kind: str, drawn: tuple[int, int]
) -> None:
    number, seed = drawn
    sound = sound_replies(name)
    known = {path: reply for of_kind in sound.replies.values() for path, reply in of_kind.items()}
    random, read = Random(crc32(f"{name} {kind} {seed}".encode())), 0

    def answer(path: str) -> bytes:
        reply = sound.replies[kind].get(path)
        return known.get(path, b"{}") if reply is None else bent_lines(reply, random)

    with Wire(answer).in_place(), closing(connect(name, Access("a-key", sound.base_url))) as provider:
        for _ in range(number):
            fresh = replace(sound, submission=replace(sound.submission, custom_ids={}))
            try:
                reading: Any = called(provider, kind, fresh)
                read += 1
            except ProviderError as error:
                reading = error
            for value in reading if isinstance(reading, list) else [reading]:
                claim_storable(value)
            claim_decided(kind, reading)
    assert read > number // 10, "almost no reply was read: the sound ones are not"


def bent_lines(reply: bytes, random: Random) -> bytes:
    """Return the reply with one of its lines bent; a reply of one document is one line."""
    try:
        json.loads(reply)
    except ValueError:
        lines = reply.splitlines()
        place = random.randrange(len(lines))
        lines[place] = bent_reply(lines[place], random)
        return b"\n".join(lines) + b"\n"
    return bent_reply(reply, random)


@pytest.mark.parametrize(("name", "drawn"), tiered(NAMES, (FEW, MANY), ci=[(name, FEW) for name in FAMILIES]))
def test_a_result_line_of_any_form_is_read_or_costs_itself(
    sound_replies: Callable[[str], Sound], name: str, drawn: tuple[int, int]
) -> None:
    number, seed = drawn
    sound, provider, random = sound_replies(name), connect(name, None), Random(crc32(f"{name} {seed}".encode()))
    for _ in range(number):
        try:
            response = provider.decode(bent_reply(random.choice(sound.lines), random))
        except ProviderReplyError:
            continue
        assert response.custom_id
        claim_storable(response)
