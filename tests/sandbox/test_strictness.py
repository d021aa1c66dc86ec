"""The sandbox refuses what the providers' documents say they refuse, in the form they refuse it in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from layton_batch.errors import RequestRefusedError
from layton_batch.sandbox import SandboxLimits
from tests.support.sandbox_clients import bench, client, row

Case = Mapping[str, Any]
REFUSED = [json.loads(line) for line in (Path(__file__).parent / "refused.jsonl").read_bytes().splitlines()]
"""Rows that a provider does not take: the whole file, at once or as a batch that fails, or one row by its body."""


def having(key: str) -> list[Any]:
    """Return the cases with this key; a text in place of a row is its bytes."""
    return [pytest.param(case, id=f"{case['provider']} {line}") for line, case in enumerate(REFUSED, 1) if key in case]


def rows_of(case: Case) -> list[Any]:
    return [line.encode("latin-1") if isinstance(line, str) else line for line in case["rows"]]


@pytest.mark.parametrize("case", having("fails"))
def test_a_bad_file_fails_the_whole_batch_with_code_and_line(case: Case, tmp_path: Path) -> None:
    with bench(limits=SandboxLimits(**case.get("limits", {}))) as b, client(case["provider"], b, tmp_path) as sent:
        batch = sent.submit(rows_of(case))
        b.end()
        found = sent.look(batch)
        assert (found.outcome, found.results_ref, found.errors_ref) == ("failed", None, None)
        assert case["fails"] in str(found.message)
        assert b.sandbox.ledger().rows_billed == 0


@pytest.mark.parametrize("case", having("status"))
def test_who_reads_the_rows_at_once_refuses_the_call(case: Case, tmp_path: Path) -> None:
    with bench(limits=SandboxLimits(**case.get("limits", {}))) as b, client(case["provider"], b, tmp_path) as sent:
        with pytest.raises(RequestRefusedError) as refused:
            sent.submit(rows_of(case))
        assert refused.value.status == case["status"]
        assert b.listed() == []


@pytest.mark.parametrize(
    "provider", ["openai", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("groq", "doubleword"))]
)
def test_a_bad_body_is_one_row_of_the_error_file(provider: str, tmp_path: Path) -> None:
    bad = {f"bad-{number:02}": case for number, case in enumerate(case for case in REFUSED if "body" in case)}
    rows = [row(provider, name, **case["body"]) for name, case in bad.items()]
    with bench() as b, client(provider, b, tmp_path) as sent:
        batch, none = sent.submit([row(provider, "good"), *rows]), sent.submit(rows[:1], "none")
        b.end()
        found = sent.look(batch)
        output, errors = sent.files(batch)
        assert b.sandbox.ledger().rows_billed == 1
        assert (sent.look(none).failed, sent.look(none).results_ref) == (1, None)  # no file of answers
    assert (found.outcome, found.succeeded, found.failed) == ("completed", 1, len(bad))
    assert [json.loads(line)["custom_id"] for line in output.splitlines()] == ["good"]
    lines = {line["custom_id"]: line for line in map(json.loads, errors.splitlines())}
    assert lines.keys() == bad.keys()
    for name, case in bad.items():
        response = lines[name]["response"]
        assert (lines[name]["error"], response["status_code"]) == (None, 400)
        assert case["word"].lower() in json.dumps(response["body"]["error"]).lower()


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
