"""Where Doubleword differs from OpenAI, whose SDK it uses."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.batches.batch_file import Line, pack
from layton_batch.errors import AmbiguousCallError, TransientProviderError
from layton_batch.providers import connect
from layton_batch.providers.doubleword import ADDRESS
from layton_batch.providers.protocol import Access
from layton_batch.providers.request_line import request_line
from layton_batch.records import Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.testing.providers import Answer

from .conftest import IMAGE, KEY, Serve, effort, make_request, reply, routes

DOUBLEWORD = connect("doubleword", None)


def test_the_line_is_the_documented_one() -> None:
    line = request_line(
        DOUBLEWORD, make_request("doubleword", "?", IMAGE, reasoning=effort("high"), max_output_tokens=9)
    )
    assert line == (
        b'{"custom_id":"run7-0001","method":"POST","url":"/v1/chat/completions","body":{"model":"the-model","messages":['
        b'{"role":"system","content":"Grade strictly."},{"role":"user","content":[{"type":"text","text":"?"},{"type":'
        b'"image_url","image_url":{"url":"data:image/jpeg;base64,/9j/4AAQ"}}]}],"response_format":{"type":"json_schema",'
        b'"json_schema":{"name":"grade","strict":true,"schema":{"type":"object","properties":{"score":{"type":"integer"}},'
        b'"required":["score"],"additionalProperties":false}}},"reasoning_effort":"high","max_tokens":9}}'
    )


def test_what_the_environment_says_for_openai_is_not_taken_over(
    serve: Serve, submission: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: gate-secret\nauthorization: Bearer other-secret")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "admin-secret")
    provider, server = serve("doubleword", routes({"POST /batches": {"id": "batch_1"}, "GET /files": {"data": []},
                                                   "POST /files": {"id": "file-1"}}))  # fmt: skip
    assert provider.create(submission) == "batch_1"
    assert provider.upload(submission) == "file-1"
    for call in server.calls:
        assert call.headers["authorization"] == f"Bearer {KEY}"
        assert "secret" not in " ".join(call.headers.values()).replace(KEY, "")
    unset = connect("doubleword", Access(KEY))
    assert str(unset._open().base_url).rstrip("/") == ADDRESS  # type: ignore[attr-defined]
    unset.close()  # type: ignore[attr-defined]


def test_a_file_that_exists_before_the_end_is_not_a_result(serve: Serve) -> None:
    provider, _ = serve("doubleword", reply({"status": "in_progress", "output_file_id": "out", "error_file_id": "err"}))
    snapshot = provider.snapshot("b")
    assert (snapshot.state, snapshot.results_ref, snapshot.errors_ref) == (Lifecycle.IN_FLIGHT, None, None)


@pytest.mark.parametrize(("header", "whole"), [("true", False), ("True", False), ("false", True)])
def test_a_file_that_the_server_calls_incomplete_is_not_taken(serve: Serve, header: str, whole: bool) -> None:
    provider, _ = serve("doubleword", routes({"GET /content": Answer(200, b"{}\n", {"X-Incomplete": header})}))
    ended = Snapshot("b", "completed", Lifecycle.ENDED, BatchOutcome.COMPLETED, "out")
    part = next(iter(provider.results(ended)))
    if whole:
        assert b"".join(part.chunks) == b"{}\n"
    else:
        with pytest.raises(TransientProviderError, match="still being written"):
            list(part.chunks)


@pytest.mark.parametrize("answer", [reply({}, 500), Answer(drop=True), Answer(hold=True)])
def test_create_is_one_post(serve: Serve, submission: Submission, answer: Answer) -> None:
    provider, server = serve("doubleword", answer, timeout=0.2 if answer.hold else 10.0)
    with pytest.raises(AmbiguousCallError):
        provider.create(submission)
    assert server.called.wait(10.0)  # a call that the client gave up may come in later
    assert server.posts() == 1


def test_find_reads_every_page_whatever_the_order(serve: Serve, submission: Submission) -> None:
    ours = {"id": "ours", "created_at": 2, "metadata": {"layton_batch": "tag-b1"}}
    provider, _ = serve(
        "doubleword",
        routes({
            "GET /v1/batches": {"data": [{"id": "old", "created_at": 1}], "has_more": True, "last_id": "old"},
            "GET /v1/batches?after=old&limit=100": {"data": [ours], "has_more": False},
        }),
    )  # fmt: skip
    assert [(one.provider_id, one.certain) for one in provider.find(submission)] == [("ours", True)]


def test_results_are_read_as_openais() -> None:
    body = {"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}], "model": "served"}
    response = DOUBLEWORD.decode(
        json.dumps({"custom_id": "c", "response": {"status_code": 200, "body": body}}).encode()
    )
    assert (response.text, response.served_model) == ("4", "served")


def test_a_row_above_its_servers_limit_is_never_sent_and_one_at_the_limit_is(tmp_path: Path) -> None:
    """One such row would have the whole file refused."""
    most = 10_485_760
    lines = [Line("fits", b"x" * (most - 1), None), Line("above", b"x" * most, None)]
    packed = pack(lines, DOUBLEWORD.limits, tmp_path, tmp_path / "requests")
    assert (list(packed.shard_of), list(packed.too_large)) == (["fits"], ["above"])


def test_a_file_is_not_larger_than_its_server_takes(tmp_path: Path) -> None:
    lines = [Line(f"c{number}", b"x" * 10_000_000, None) for number in range(11)]
    sizes = [shard.size_bytes for shard in pack(lines, DOUBLEWORD.limits, tmp_path, tmp_path / "requests").shards]
    assert sum(sizes) > 110_000_000
    assert max(sizes) <= 100_000_000


def test_a_look_asks_for_the_batchs_own_cost(serve: Serve) -> None:
    provider, server = serve("doubleword", reply({"status": "completed", "analytics": {"total_cost": "0.0125"}}))
    assert provider.snapshot("b").stated_usd == Decimal("0.0125")
    assert server.calls[0].path == "/v1/batches/b?include=analytics"


@pytest.mark.parametrize("analytics", [None, {}, [], {"total_cost": None}, {"total_cost": "none"}, {"total_cost": -1}])
def test_a_batch_that_states_no_cost_is_read_as_before(serve: Serve, analytics: object) -> None:
    provider, _ = serve("doubleword", reply({"status": "completed", "analytics": analytics}))
    snapshot = provider.snapshot("b")
    assert (snapshot.state, snapshot.stated_usd) == (Lifecycle.ENDED, None)
