"""The sandbox refuses what the providers' documents say they refuse, in the form they refuse it in."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from layton_batch.errors import RequestRefusedError
from layton_batch.sandbox import SandboxLimits
from tests.support.sandbox_clients import GRADE, bench, body_of, client, row
from tests.support.tiers import tiered

SHAPED = ("openai", "groq", "doubleword")
each_shaped = pytest.mark.parametrize("provider", tiered(SHAPED, ci=("openai",)))
Rows = list[Any]


def without(line: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != name}


# ---- whole files -----------------------------------------------------------------------------------------------------

BAD_FILES: list[tuple[str, int | None, Callable[[dict[str, Any]], Rows]]] = [
    ("invalid_json_line", 2, lambda good: [good, b'{"custom_id": "x", ']),
    ("invalid_json_line", 1, lambda good: [b'\xff\xfe{"a": 1}']),
    ("duplicate_custom_id", 2, lambda good: [good, good]),
    ("missing_required_parameter", 1, lambda good: [without(good, "custom_id")]),
    ("missing_required_parameter", 1, lambda good: [{**good, "body": {"messages": []}}]),
    ("invalid_url", 1, lambda good: [{**good, "url": "/v1/responses"}]),
    ("empty_file", None, lambda good: []),
]


@each_shaped
def test_a_bad_file_fails_the_whole_batch_with_code_and_line(provider: str, tmp_path: Path) -> None:
    with bench() as b, client(provider, b, tmp_path) as sent:
        for number, (code, line, rows) in enumerate(BAD_FILES):
            batch = sent.submit(rows(row(provider, "a")), str(number))
            b.clock.forward(3)
            found = sent.look(batch)
            told = "" if line is None else f"line {line}: "
            assert (found.outcome, str(found.message).startswith(f"{told}{code}")) == ("failed", True), found.message
        assert b.sandbox.ledger().rows_billed == 0


TWO = ("a", "b")


@pytest.mark.parametrize(("provider", "rows", "limits", "word"), [
    ("openai", [row("openai", "a"), row("openai", "b", model="another-model")], None, "mismatched_model"),
    *(("openai", [row("openai", key) for key in TWO], limits, "invalid_request")
      for limits in (SandboxLimits(rows=1), SandboxLimits(file_bytes=100))),
    ("doubleword", [row("doubleword", "a"), row("doubleword", "b", user="x" * 1_000)],
     SandboxLimits(line_bytes=1_000), "line 2: invalid_request"),
    ("together", [b"{"], None, "JSON"),
    ("together", [{"custom_id": "a", "body": {"messages": []}}], None, "model"),
])  # fmt: skip
def test_what_is_too_much_or_not_alike_fails_the_batch(
    provider: str, rows: Rows, limits: SandboxLimits | None, word: str, tmp_path: Path
) -> None:
    with bench(limits=limits) as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit(rows)
        b.end()
        found = sent.look(batch)
        assert (found.outcome, found.results_ref, found.errors_ref) == ("failed", None, None)
        assert word in str(found.message)
        assert b.sandbox.ledger().rows_billed == 0


def gemini_bad() -> Rows:
    def request(**change: Any) -> dict[str, Any]:
        return {"key": "bad", "request": {**body_of(row("gemini", "bad")), **change}}

    return [
        {"request": body_of(row("gemini", "bad"))},
        b'{"key": "bad", ',
        request(generationConfig={"responseJsonSchema": GRADE}),
        request(generationConfig={"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 5}}),
        request(contents=[{"parts": [{"inlineData": {"mimeType": "image/jpeg", "data": "bm9pbWFnZQ=="}}]}]),
    ]


ONE = SandboxLimits(rows=1)


@pytest.mark.parametrize(("provider", "rows", "limits", "status"), [
    *(("anthropic", rows, None, 400) for rows in (
        [row("anthropic", "with.dot")], [row("anthropic", "k" * 65)], [row("anthropic", "a")] * 2,
        [{"custom_id": "a"}], [])),
    *(("anthropic", [row("anthropic", key) for key in TWO], limits, 413)
      for limits in (ONE, SandboxLimits(file_bytes=100))),
    *(("gemini", [row("gemini", "good"), line], None, 400) for line in gemini_bad()),
    *(("mistral", [row("mistral", "good"), line], None, 422) for line in (
        {"body": {"messages": [{"role": "judge", "content": "x"}]}}, b'{"custom_id": "a", ')),
])  # fmt: skip
def test_who_reads_the_rows_at_once_refuses_the_call(
    provider: str, rows: Rows, limits: SandboxLimits | None, status: int, tmp_path: Path
) -> None:
    with bench(limits=limits) as b, client(provider, b, tmp_path) as sent:
        with pytest.raises(RequestRefusedError) as refused:
            sent.submit(rows)
        assert refused.value.status == status
        assert b.listed() == []


# ---- rows ------------------------------------------------------------------------------------------------------------


def deep(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    schema = {**GRADE, "properties": {"inner": copy.deepcopy(GRADE)}, "required": ["inner"]}
    change(schema["properties"]["inner"])
    return schema


def strict(schema: Mapping[str, Any], name: str = "grade") -> dict[str, Any]:
    form = {"name": name, "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def picture(url: str) -> dict[str, Any]:
    part = {"type": "image_url", "image_url": {"url": url}}
    return {"messages": [{"role": "user", "content": [part]}]}


BAD_BODIES: list[tuple[dict[str, Any], str]] = [
    (strict(without(GRADE, "additionalProperties")), "additionalProperties"),
    (strict({**GRADE, "required": []}), "required"),
    (strict(deep(lambda inner: inner.pop("additionalProperties"))), "additionalProperties"),
    (strict(deep(lambda inner: inner.update(required=[]))), "required"),
    (strict(GRADE, name=""), "name"),
    ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ({"messages": []}, "messages"),
    *((picture(url), "image") for url in ("https://example.org/a.jpg", "data:image/jpeg;base64,bm9pbWFnZQ==")),
]  # fmt: skip


@each_shaped
def test_a_bad_body_is_one_row_of_the_error_file(provider: str, tmp_path: Path) -> None:
    bad = {f"bad-{number:02}": extra for number, (extra, _) in enumerate(BAD_BODIES)}
    with bench() as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit([row(provider, "good"), *(row(provider, name, **extra) for name, extra in bad.items())])
        none = sent.submit([row(provider, "bad", messages=[])], "none")
        b.end()
        found = sent.look(batch)
        output, errors = sent.files(batch)
        assert b.sandbox.ledger().rows_billed == 1
        assert sent.look(none).failed == 1
        assert sent.look(none).results_ref is None  # no file of answers
    assert (found.outcome, found.succeeded, found.failed) == ("completed", 1, len(BAD_BODIES))
    assert [json.loads(line)["custom_id"] for line in output.splitlines()] == ["good"]
    lines = sorted(map(json.loads, errors.splitlines()), key=lambda line: line["custom_id"])
    for line, name, (_, word) in zip(lines, bad, BAD_BODIES, strict=True):
        assert (line["custom_id"], line["error"], line["response"]["status_code"]) == (name, None, 400)
        assert word.lower() in json.dumps(line["response"]["body"]["error"]).lower()


# ---- calls -----------------------------------------------------------------------------------------------------------

PATHS = {
    "openai": "/openai/v1/batches", "groq": "/groq/openai/v1/batches", "doubleword": "/doubleword/v1/batches",
    "anthropic": "/anthropic/v1/messages/batches", "gemini": "/gemini/v1/batches", "mistral": "/mistral/v1/batch/jobs",
    "together": "/together/v1/batches", "openrouter": "/openrouter/api/v1/batches", "xai": "/xai/v1/batches",
}  # fmt: skip
SAID = {
    "anthropic": lambda body: body["error"]["type"] == "authentication_error",
    "gemini": lambda body: body["error"]["status"] == "UNAUTHENTICATED",
    "mistral": lambda body: body["detail"] == "Unauthorized",
    "openrouter": lambda body: body["error"]["code"] == 401,
    "xai": lambda body: body["code"] == "invalid_api_key",
}
HEAD = {"Authorization": "Bearer k", "x-goog-api-key": "k", "anthropic-version": "2023-06-01"}
BODIES = (b"", b"{", b"[]", b"null", b"\xff", b'{"requests": [', b'{"requests": [{},]}', b'{"requests": {}}')


def test_calls_that_cannot_be_served_are_refused_in_the_providers_form_whatever_their_bytes() -> None:
    with bench() as b, httpx.Client(base_url=b.sandbox.url) as http:
        for provider, path in PATHS.items():
            reply = http.get(path)
            shaped = SAID.get(provider, lambda body: body["error"]["code"] == "invalid_api_key")
            assert (reply.status_code, shaped(reply.json())) == (401, True), provider
            lost = http.get(f"{path}/x/y/z", headers=HEAD)
            assert (lost.status_code, bool(lost.json())) == (404, True)
            created = "/gemini/v1/models/m:batchGenerateContent" if provider == "gemini" else path
            for body in BODIES:
                assert 400 <= http.post(created, content=body, headers=HEAD).status_code < 500, (path, body)
        multipart = {**HEAD, "Content-Type": "multipart/form-data; boundary=x"}
        for path in ("/openai/v1/files", "/mistral/v1/files", "/together/v1/files"):
            assert 400 <= http.post(path, content=b"garbage", headers=multipart).status_code < 500, path
        create = {"input_file_id": "file-nothing", "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        file = http.post(
            "/openai/v1/files", headers=HEAD, data={"purpose": "batch"}, files={"file": ("a.jsonl", b"{}")}
        )
        for change in ({}, {"completion_window": "1h"}, {"endpoint": "/v1/nothing"}):
            asked = {**create, "input_file_id": file.json()["id"], **change} if change else create
            assert http.post("/openai/v1/batches", json=asked, headers=HEAD).status_code == 400, change
        assert b.listed() == []
