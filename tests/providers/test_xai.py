"""xAI over batchling's adapter: words from counts, every page of results, errors with their codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from layton_batch.errors import (
    ProviderReplyError,
)
from layton_batch.providers.longtail import Xai
from layton_batch.records import (
    JsonValue,
    Snapshot,
    Usage,
)
from layton_batch.states import BatchOutcome, ErrorClass, FinishReason, Lifecycle, RequestOutcome
from layton_batch.testing import Loopback

from .test_longtail import XaiServer, chat, made, submission, told, xai

__all__ = ["made"]


def test_the_container_comes_first_and_the_requests_in_one_post(tmp_path: Path, made: list[Any]) -> None:
    with Loopback(XaiServer()) as server:
        provider = xai(server, made)
        container = provider.upload(submission(tmp_path))
        assert provider.create(submission(tmp_path, input_ref=container)) == container == "batch-0"
    named, filled = server.calls
    assert json.loads(named.body) == {"name": "lb-tag/3"}
    sent = [json.loads(line) for line in (tmp_path / "shard.jsonl").read_bytes().split(b"\n") if line]
    assert (filled.path, json.loads(filled.body)) == ("/v1/batches/batch-0/requests", {"batch_requests": sent})
    for call in server.calls:
        assert call.headers["authorization"] == "Bearer secret-key"
        assert "x-batchling-internal" not in call.headers


def test_every_page_of_results_is_read(tmp_path: Path, made: list[Any]) -> None:
    with Loopback(XaiServer()) as server:
        provider = xai(server, made)
        container = provider.upload(submission(tmp_path, 5))
        provider.create(submission(tmp_path, 5, container))
        (part,) = provider.results(Snapshot(str(container), "ended", Lifecycle.ENDED, results_ref=container))
        lines = b"".join(part.chunks).splitlines()
    assert [provider.decode(line).custom_id for line in lines] == [f"c-{number}" for number in range(5)]


def test_pages_that_repeat_are_an_error_not_a_loop(made: list[Any]) -> None:
    with Loopback(told({"results": [], "pagination_token": "again"})) as server:
        provider = xai(server, made)
        (part,) = provider.results(Snapshot("b", "ended", Lifecycle.ENDED, results_ref="b"))
        with pytest.raises(ProviderReplyError, match="repeat"):
            list(part.chunks)


@pytest.mark.parametrize(
    ("fields", "word", "state"),
    [
        ({"num_requests": 0, "num_pending": 0}, "pending", Lifecycle.IN_FLIGHT),  # to the adapter this has ended
        ({"num_requests": 4, "num_pending": 4}, "pending", Lifecycle.IN_FLIGHT),
        ({"num_requests": 4, "num_pending": 3, "num_success": 1}, "running", Lifecycle.IN_FLIGHT),
        ({"num_requests": 2, "num_pending": 0, "num_success": 2}, "running", Lifecycle.IN_FLIGHT),  # two are not in yet
        ({"num_requests": 4, "num_pending": 0, "num_success": 3, "num_error": 1}, "ended", Lifecycle.ENDED),
    ],
)
def test_xai_words_come_from_counts(made: list[Any], fields: dict[str, JsonValue], word: str, state: Lifecycle) -> None:
    with Loopback(told({"batch_id": "b", "name": "lb-tag/4", "cancel_time": None, "state": fields})) as server:
        found = xai(server, made).snapshot("b")
    assert (found.provider_status, found.state, found.total) == (word, state, fields["num_requests"])
    assert (found.results_ref is not None) == (state is Lifecycle.ENDED)


@pytest.mark.parametrize(
    ("pending", "said", "word", "outcome", "error_class"),
    [
        (2, None, "cancelling", None, ErrorClass.NONE),
        (0, None, "cancelled", BatchOutcome.CANCELLED, ErrorClass.NONE),
        (0, "Model x is not supported for batch", "failed", BatchOutcome.FAILED, ErrorClass.INVALID_REQUEST),
        (0, "no capacity", "failed", BatchOutcome.FAILED, ErrorClass.PROVIDER_FAULT),
    ],
)
def test_xai_cancelling_shows_in_cancel_time(
    made: list[Any], pending: int, said: str | None, word: str, outcome: BatchOutcome | None, error_class: ErrorClass
) -> None:
    counts = {"num_requests": 4, "num_pending": pending, "num_cancelled": 4 - pending}
    reading = {"batch_id": "b", "cancel_time": "2026-11-21", "cancel_by_xai_message": said, "state": counts}
    with Loopback(told(reading)) as server:
        found = xai(server, made).snapshot("b")
    assert (found.provider_status, found.outcome, found.error_class, found.message) == (
        word,
        outcome,
        error_class,
        said,
    )


def test_xai_find_looks_into_our_container_only(tmp_path: Path, made: list[Any]) -> None:
    with Loopback(XaiServer()) as server:
        provider = xai(server, made)
        container = provider.upload(submission(tmp_path))
        assert list(provider.find(submission(tmp_path))) == []
        assert list(provider.find(submission(tmp_path, input_ref="never-made"))) == []
        assert list(provider.find(submission(tmp_path, input_ref=container))) == []
        provider.create(submission(tmp_path, input_ref=container))
        (hit,) = provider.find(submission(tmp_path, input_ref=container))
        (unlike,) = provider.find(submission(tmp_path, 2, container))
    assert (hit.provider_id, hit.certain, unlike.certain) == (container, True, False)


def xai_row(**result: JsonValue) -> bytes:
    return json.dumps({"batch_request_id": "c-1", "batch_result": result}).encode()


def test_an_xai_answer_counts_reasoning_on_top() -> None:
    found = Xai(None).decode(xai_row(response={"chat_get_completion": chat("4")}))
    assert (found.custom_id, found.text, found.finish_reason) == ("c-1", "4", FinishReason.STOP)
    assert (found.usage, found.served_model) == (Usage(100, 60, 45, 40), "m-1")


@pytest.mark.parametrize(
    ("line", "error_class"),
    [
        (xai_row(error={"code": 3, "message": "boom"}), ErrorClass.INVALID_REQUEST),
        (xai_row(error={"code": 8, "message": "boom"}), ErrorClass.RATE_LIMITED),
        (xai_row(error={"code": "rate_limit_exceeded", "message": "boom"}), ErrorClass.RATE_LIMITED),
        (xai_row(error="boom"), ErrorClass.PROVIDER_FAULT),
        (b'{"batch_request_id": "c-1", "error_message": "boom"}', ErrorClass.PROVIDER_FAULT),
        (b'{"batch_request_id": "c-1", "error": {"message": "boom", "code": 13}}', ErrorClass.PROVIDER_FAULT),
    ],
)
def test_xai_errors_keep_their_codes(line: bytes, error_class: ErrorClass) -> None:
    found = Xai(None).decode(line)
    assert (found.outcome, found.error_class, found.error_message) == (RequestOutcome.ERRORED, error_class, "boom")


def test_an_xai_row_without_a_result_is_unreadable() -> None:
    found = Xai(None).decode(b'{"batch_request_id": "c-1"}')
    assert (found.outcome, found.error_class) == (RequestOutcome.ERRORED, ErrorClass.UNREADABLE)
    assert "neither a reply nor an error" in str(found.error_message)
