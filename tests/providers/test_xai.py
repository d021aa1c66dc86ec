"""xAI over batchling's adapter: words from counts, every page of results, errors with their codes."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from layton_batch.errors import (
    AmbiguousCallError,
    ProviderReplyError,
)
from layton_batch.providers import provider_class
from layton_batch.providers.longtail import Xai
from layton_batch.records import (
    JsonValue,
    Snapshot,
    Usage,
)
from layton_batch.states import BatchOutcome, ErrorClass, FinishReason, Lifecycle, RequestOutcome
from layton_batch.testing.providers import Answer, Loopback

from .test_longtail import XaiServer, chat, made, submission, told, xai

__all__ = ["made"]


def test_a_file_is_uploaded_and_one_call_makes_the_batch_of_it(tmp_path: Path, made: list[Any]) -> None:
    with Loopback(XaiServer()) as server:
        provider = xai(server, made)
        file = provider.upload(submission(tmp_path))
        assert provider.create(submission(tmp_path, input_ref=file)) == "batch-0"
    uploaded, created = server.calls
    assert (uploaded.path, created.path) == ("/v1/files", "/v1/batches")
    assert (tmp_path / "shard.jsonl").read_bytes() in uploaded.body
    assert json.loads(created.body) == {"name": "lb-tag/3", "input_file_id": "file-0"}
    for call in server.calls:
        assert call.headers["authorization"] == "Bearer secret-key"
        assert "x-batchling-internal" not in call.headers


@pytest.mark.parametrize("reply", [told({}), told({"error": "overloaded"}), told({"id": "b"})])
def test_a_create_whose_reply_names_no_batch_may_have_made_one(tmp_path: Path, made: list[Any], reply: Answer) -> None:
    with Loopback(reply) as server, pytest.raises(AmbiguousCallError, match="names no batch"):
        xai(server, made).create(submission(tmp_path, input_ref="file-0"))


def test_every_page_of_results_is_read(tmp_path: Path, made: list[Any]) -> None:
    with Loopback(XaiServer()) as server:
        provider = xai(server, made)
        batch = provider.create(submission(tmp_path, 5, provider.upload(submission(tmp_path, 5))))
        (part,) = provider.results(Snapshot(batch, "ended", Lifecycle.ENDED, results_ref=batch))
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


def test_xai_find_knows_our_name_on_any_page_of_the_list(tmp_path: Path, made: list[Any]) -> None:
    with Loopback(XaiServer()) as server:
        provider = xai(server, made)
        file = provider.upload(submission(tmp_path))
        for tag in ("one", "two", "three", "lb-tag"):
            assert list(provider.find(submission(tmp_path, input_ref=file))) == []
            provider.create(replace(submission(tmp_path, input_ref=file), tag=tag))
        (hit,) = provider.find(submission(tmp_path, input_ref=file))
        assert list(provider.find(submission(tmp_path, 2, file))) == []
    assert (hit.provider_id, hit.certain) == ("batch-3", True)


@pytest.mark.parametrize(("name", "shows"), [("xai", True), ("openai", True), ("openrouter", True), ("vertex", False)])
def test_a_list_that_shows_our_tag_is_looked_at_though_it_proves_no_absence(name: str, shows: bool) -> None:
    assert provider_class(name).capabilities.shows_ours is shows


@pytest.mark.parametrize(
    "page",
    [{"error": "overloaded"}, {"batches": "none"}, {"batches": ["b"]}, {"data": []}, {"batches": [], "error": 1}],
)
def test_what_is_no_list_of_batches_is_not_one_without_ours(tmp_path: Path, made: list[Any], page: JsonValue) -> None:
    with Loopback(told(page)) as server, pytest.raises(ProviderReplyError, match="holds none"):
        xai(server, made).find(submission(tmp_path, input_ref="file-0"))


def test_a_list_that_repeats_a_page_is_an_error_not_a_loop(tmp_path: Path, made: list[Any]) -> None:
    again = told({"batches": [], "pagination_token": "again"})
    with Loopback(again) as server, pytest.raises(ProviderReplyError, match="goes on"):
        xai(server, made).find(submission(tmp_path, input_ref="file-0"))


@pytest.mark.parametrize("page", [{"error": "overloaded"}, {"results": "none"}, {"results": ["row"]}])
def test_what_is_no_page_of_results_is_not_a_page_without_rows(made: list[Any], page: JsonValue) -> None:
    with Loopback(told(page)) as server:
        (part,) = xai(server, made).results(Snapshot("b", "ended", Lifecycle.ENDED, results_ref="b"))
        with pytest.raises(ProviderReplyError, match="holds none"):
            list(part.chunks)


def test_a_page_that_says_nothing_is_one_without_rows(made: list[Any]) -> None:
    """As JSON made from protocol buffers leaves out what is empty."""
    with Loopback(told({})) as server:
        (part,) = xai(server, made).results(Snapshot("b", "ended", Lifecycle.ENDED, results_ref="b"))
        assert b"".join(part.chunks) == b""


def test_counts_that_are_not_told_do_not_say_that_nothing_was_answered(made: list[Any]) -> None:
    with Loopback(told({"state": {"num_requests": 3, "num_pending": 0, "num_error": "x"}})) as server:
        found = xai(server, made).snapshot("b")
    assert (found.total, found.succeeded, found.failed) == (3, None, None)


def odd_row(odd: str, custom_id: str = "c-1") -> bytes:
    """A row whose reply holds ``odd`` (JSON) besides its answer, "4" and half a character."""
    reply = '{"choices": [{"message": {"content": "4 \\ud800"}, "finish_reason": "stop"}], "odd": ODD}'
    row = '{"batch_request_id": "ID", "batch_result": {"response": {"chat_get_completion": REPLY}}}'
    return row.replace("ID", custom_id).replace("REPLY", reply).replace("ODD", odd).encode()


@pytest.mark.parametrize("odd", ["[" * depth + "]" * depth for depth in (200, 254, 300)] + ["1" + "0" * 30])
def test_what_is_nested_deeply_or_counts_high_does_not_hide_the_answer_beside_it(made: list[Any], odd: str) -> None:
    with Loopback(Answer(body=b'{"results": [%s, %s]}' % (odd_row(odd), odd_row("1", "c-2")))) as server:
        provider = xai(server, made)
        (part,) = provider.results(Snapshot("b", "ended", Lifecycle.ENDED, results_ref="b"))
        found = [provider.decode(line) for line in b"".join(part.chunks).splitlines()]
    assert [(one.custom_id, one.text) for one in found] == [("c-1", "4 \ufffd"), ("c-2", "4 \ufffd")]


@pytest.mark.parametrize("depth", [900, 950, 980, 1000])
def test_a_row_nested_too_deeply_to_be_written_is_unreadable_and_costs_no_other(made: list[Any], depth: int) -> None:
    deep = odd_row("[" * depth + "]" * depth).replace(b" \\ud800", b"")
    page = b'{"results": [%s, %s]}' % (deep, odd_row("1", "c-2").replace(b" \\ud800", b""))
    with Loopback(Answer(body=page)) as server:
        provider = xai(server, made)
        (part,) = provider.results(Snapshot("b", "ended", Lifecycle.ENDED, results_ref="b"))
        first, second = [provider.decode(line) for line in b"".join(part.chunks).splitlines()]
    assert (first.custom_id, second.custom_id, second.text) == ("c-1", "c-2", "4")
    assert first.text == "4" or first.error_class is ErrorClass.UNREADABLE


def test_an_xai_answer_without_counts_says_that_its_cost_is_not_known() -> None:
    for usage in ({}, {"prompt_tokens": 3}, {"prompt_tokens": "x", "completion_tokens": 4}, None):
        row = xai_row(response={"chat_get_completion": chat("4") | {"usage": usage}})
        assert not Xai(None).decode(row).usage.known


def xai_row(**result: JsonValue) -> bytes:
    return json.dumps({"batch_request_id": "c-1", "batch_result": result}).encode()


def test_an_xai_answer_states_its_cost_in_ticks_of_a_dollar() -> None:
    for ticks, usd in ((37_756_000, Decimal("0.0037756")), (None, None), ("many", None)):
        usage = {"prompt_tokens": 3, "completion_tokens": 4, "cost_in_usd_ticks": ticks}
        row = xai_row(response={"chat_get_completion": chat("4") | {"usage": usage}})
        assert Xai(None).decode(row).usage.stated_usd == usd


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
