"""The dialects over batchling's adapters: the contract where it can hold, and what the adapters alone would lose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from layton_batch.errors import (
    AmbiguousCallError,
    NotFoundError,
    ProviderReplyError,
    TransientProviderError,
)
from layton_batch.providers import provider_class
from layton_batch.providers.longtail import Xai
from layton_batch.providers.longtail_vertex import Vertex
from layton_batch.providers.protocol import Access, CallLimits
from layton_batch.providers.request_line import request_line
from layton_batch.records import (
    Image,
    JsonValue,
    ModelSpec,
    Prompt,
    Reasoning,
    Request,
    ResponseSchema,
    Submission,
)
from layton_batch.testing.providers import Answer, HandlerCall, Loopback, ProviderContract
from tests.support.paths import ROOT

from .result_rows import almost, claim_decode_is_total

SCHEMA = ResponseSchema(
    "grade",
    {
        "type": "object",
        "properties": {"score": {"type": "integer"}},
        "required": ["score"],
        "additionalProperties": False,
    },
)


def told(value: JsonValue, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode())


def chat(text: str) -> dict[str, JsonValue]:
    return {
        "model": "m-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 40},
        },
    }


# ---- loopback servers


class XaiServer:
    """Batches of uploaded files; two batches and two results a page; every batch ends at its second reading."""

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = {}
        self.batches: dict[str, dict[str, Any]] = {}

    def __call__(self, call: HandlerCall) -> Answer:
        path, _, query = call.path.partition("?")
        if path == "/v1/files":
            made = f"file-{len(self.files)}"
            lines = [json.loads(line) for line in call.body.split(b"\n") if line.startswith(b'{"custom_id"')]
            self.files[made] = [line["custom_id"] for line in lines]
            return told({"id": made, "filename": "shard.jsonl", "purpose": ""})
        if path == "/v1/batches":
            return self.make(json.loads(call.body)) if call.method == "POST" else self.listed(query)
        batch_id, _, what = path.removeprefix("/v1/batches/").partition("/")
        if batch_id.endswith(":cancel"):
            return told({"error": "batch has ended"}, 400)
        if batch_id not in self.batches:
            return told({"error": "no such batch"}, 404)
        return self.results(batch_id, query) if what == "results" else self.reading(batch_id)

    def make(self, asked: dict[str, Any]) -> Answer:
        if asked.get("input_file_id") not in self.files:
            return told({"error": "no such file"}, 400)
        made = f"batch-{len(self.batches)}"
        self.batches[made] = {"name": asked["name"], "ids": self.files[asked["input_file_id"]], "readings": 0}
        return told(self.shown(made))

    def listed(self, query: str) -> Answer:
        start = int(query.rpartition("pagination_token=")[2]) if "pagination_token=" in query else 0
        names = list(self.batches)
        more = str(start + 2) if start + 2 < len(names) else None
        shown = [self.shown(name) for name in names[start : start + 2]]
        return told({"batches": shown, "pagination_token": more})

    def shown(self, batch_id: str) -> dict[str, JsonValue]:
        return {"batch_id": batch_id, "name": self.batches[batch_id]["name"], "state": self.state(batch_id)}

    def state(self, batch_id: str) -> dict[str, JsonValue]:
        batch = self.batches[batch_id]
        total, over = len(batch["ids"]), batch["readings"] > 1
        return {"num_requests": total, "num_pending": 0 if over else total, "num_success": total if over else 0}

    def reading(self, batch_id: str) -> Answer:
        self.batches[batch_id]["readings"] += 1
        return told(self.shown(batch_id))

    def results(self, batch_id: str, query: str) -> Answer:
        start = int(query.rpartition("pagination_token=")[2]) if "pagination_token=" in query else 0
        ids = self.batches[batch_id]["ids"]
        rows = [
            {"batch_request_id": one, "batch_result": {"response": {"chat_get_completion": chat("4")}}}
            for one in ids[start : start + 2]
        ]
        more = str(start + 2) if start + 2 < len(ids) else None
        return told({"results": rows, "pagination_token": more})


@pytest.fixture
def made() -> Iterator[list[Any]]:
    opened: list[Any] = []
    yield opened
    for provider in opened:
        provider.close()


def xai(server: Loopback, made: list[Any]) -> Xai:
    made.append(provider := Xai(Access("secret-key", f"{server.url}/v1", CallLimits(5.0))))
    return provider


class TestXaiContract(ProviderContract):
    base_path = "/v1"

    @pytest.fixture(autouse=True)
    def _server(self) -> Iterator[None]:
        with Loopback(XaiServer()) as server:
            self.sandbox_url = server.url
            yield

    def make(self, access: Access | None) -> Xai:
        return Xai(access)

    def test_an_unknown_status_is_named(self) -> None:
        """There are no status words to be unknown: a reading without counts is what cannot be understood."""
        with Loopback(told({"batch_id": "b-1", "name": "n"})) as server, pytest.raises(ProviderReplyError):
            self.connect(server.url).snapshot("b-1")


def submission(folder: Path, requests: int = 3, input_ref: str | None = None) -> Submission:
    path = folder / "shard.jsonl"
    encoder = Xai(None)
    lines = [
        request_line(encoder, Request(f"c-{n}", "i", request("xai").model, Prompt("", (f"{n}?",))))
        for n in range(requests)
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return Submission("b", "lb-tag", path, path.name, "0" * 64, requests, "m-1", input_ref)


# ---- lines


def request(provider: str, *parts: str | Image, **spec: Any) -> Request:
    model = ModelSpec("shown", provider, spec.pop("model", "m-1"), "family", **spec)
    return Request("run7-0001", "item", model, Prompt("Grade strictly.", parts or ("2+2?",), SCHEMA))


MESSAGES = [{"role": "system", "content": "Grade strictly."}, {"role": "user", "content": "2+2?"}]
STRICT = {"type": "json_schema", "json_schema": {"name": "grade", "strict": True, "schema": SCHEMA.schema}}


def test_an_xai_line() -> None:
    asked = request("xai", max_output_tokens=2000, reasoning=Reasoning(effort="high"), params={"temperature": 0})
    assert json.loads(request_line(Xai(None), asked)) == {
        "custom_id": "run7-0001",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {
            "model": "m-1",
            "messages": MESSAGES,
            "response_format": STRICT,
            "reasoning_effort": "high",
            "max_completion_tokens": 2000,
            "temperature": 0,
        },
    }


def test_a_vertex_line_is_geminis() -> None:
    asked = request("vertex", "What?", Image("image/png", "aW1n"), reasoning=Reasoning(effort="low"))
    assert json.loads(request_line(Vertex(None), asked)) == {
        "key": "run7-0001",
        "request": {
            "systemInstruction": {"parts": [{"text": "Grade strictly."}]},
            "contents": [
                {
                    "role": "user",
                    "parts": [{"text": "What?"}, {"inlineData": {"mimeType": "image/png", "data": "aW1n"}}],
                }
            ],
            "generationConfig": {
                "responseMimeType": "application/json",
                "responseJsonSchema": SCHEMA.schema,
                "thinkingConfig": {"thinkingLevel": "LOW"},
            },
        },
    }


def test_budgets_are_refused_where_only_efforts_exist() -> None:
    spec = request("xai", reasoning=Reasoning(budget_tokens=5)).model
    assert Xai(None).check(spec)
    assert Vertex(None).check(spec) == []


def test_importing_the_registry_entry_imports_no_adapter() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from layton_batch.providers import provider_class as c; c('xai')(None).decode\n"
        "print([name for name in ('batchling', 'httpx', 'aiohttp') if name in sys.modules])"
    )
    root = ROOT
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert shown.stdout.strip() == "[]"
    assert [provider_class(name) for name in ("xai", "vertex")] == [Xai, Vertex]


def test_an_xai_batch_that_is_not_there(made: list[Any]) -> None:
    with Loopback(told({"error": "no"}, 404)) as server, pytest.raises(NotFoundError):
        xai(server, made).snapshot("b")


def test_a_failed_reading_costs_nothing_but_the_reading(made: list[Any]) -> None:
    answer = Answer(503, headers={"retry-after": "3"})
    with Loopback(answer) as server, pytest.raises(TransientProviderError) as caught:
        xai(server, made).snapshot("b")
    assert caught.value.retry_after == 3


def test_an_xai_create_whose_reply_names_no_batch_may_have_been_carried_out(made: list[Any], tmp_path: Path) -> None:
    with Loopback(told({})) as server, pytest.raises(AmbiguousCallError):
        xai(server, made).create(submission(tmp_path, input_ref="file-1"))


# ---- both


@pytest.mark.parametrize("provider", [Xai(None), Vertex(None)], ids=lambda one: str(one.name))
@given(
    line=almost(
        "batch_request_id batch_result response chat_get_completion error error_message code message custom_id "
        "status key choices content usage completion_tokens reasoning_tokens candidates",
        "3 expired stop x",
    )
)
def test_decode_never_raises_anything_else(provider: Any, line: bytes) -> None:
    claim_decode_is_total(provider, line)


@pytest.mark.parametrize("depth", [254, 900, 990, 1010])
@pytest.mark.parametrize(
    ("provider", "line"),
    [
        (Xai(None), '{"batch_request_id": "c-1", "error": ODD}'),
        (Xai(None), '{"batch_request_id": "c-1", "error": {"code": "x", "message": ODD}}'),
        (Xai(None), '{"batch_request_id": "c-1", "batch_result": {"response": {"chat_get_completion": {"odd": ODD}}}}'),
        (Vertex(None), '{"key": "c-1", "status": ODD}'),
        (Vertex(None), '{"key": "c-1", "response": {"candidates": ODD}}'),
    ],
)
def test_rows_nested_as_deeply_as_can_be_read_are_decoded(provider: Any, line: str, depth: int) -> None:
    assert provider.decode(line.replace("ODD", "[" * depth + "]" * depth).encode()).custom_id == "c-1"
