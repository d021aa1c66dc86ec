"""Result rows of every dialect, as its documents write them and as they were seen: each is read as one response."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal

import pytest

from layton_batch.providers import connect
from layton_batch.providers.result_rows import named_in
from layton_batch.records import JsonValue, Usage
from layton_batch.states import PASSING, ErrorClass, FinishReason, RequestOutcome

from .documents import CHAT, TOKENS, Json, chat, claude, file_row, gemini_reply, picked, replied

Case = tuple[str, JsonValue, dict[str, object]]
"""Provider, row, and what is read of it."""


def claim(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("provider", "row", "expected"), cases)


# ---- answers ---------------------------------------------------------------------------------------------------------

DETAILED: Json = {
    "prompt_tokens": 100, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens_details": {"reasoning_tokens": 30},
}  # fmt: skip
PARTS: JsonValue = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"},
    {"type": "text", "text": "b"},
]  # fmt: skip
CLAUDE: Json = {
    "model": "claude-opus-4-5-20251101", "stop_reason": "end_turn",
    "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    "usage": {"input_tokens": 10, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3000,
              "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 40}},
}  # fmt: skip
THOUGHT: JsonValue = [{"text": "let me think", "thought": True}, {"text": "a"}, {"text": "b"}]
GEMINI: Json = {
    "candidates": [{"content": {"role": "model", "parts": THOUGHT}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 300, "cachedContentTokenCount": 200, "candidatesTokenCount": 10,
                      "thoughtsTokenCount": 90, "totalTokenCount": 400},
    "modelVersion": "gemini-3-flash-preview",
}  # fmt: skip
SAID: JsonValue = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "42"}]}


def responses(**changes: JsonValue) -> JsonValue:
    """A row of OpenAI's responses form."""
    body: Json = {
        "object": "response", "status": "completed", "error": None, "incomplete_details": None,
        "model": "gpt-5.2-pro-2025-12-11", "output": [{"type": "reasoning", "summary": []}, SAID],
        "usage": {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 10}, "output_tokens": 20,
                  "output_tokens_details": {"reasoning_tokens": 15}},
    }  # fmt: skip
    return replied("openai", body | changes)


def cut(reason: str, **more: JsonValue) -> JsonValue:
    return responses(status="incomplete", incomplete_details={"reason": reason}, **more)


REFUSED: JsonValue = [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]
CALLED: JsonValue = {"index": 0, "message": {"role": "assistant", "content": "", "tool_calls": []}, "finish_reason": ""}


@claim([
    *((name, replied(name, chat("4", usage=DETAILED)), {
        "custom_id": "c-1", "text": "4", "finish_reason": "stop", "raw": "stop", "model": "m-1",
        # xAI counts reasoning on top
        "usage": Usage(100, 40, 80, 30) if name == "xai" else Usage(100, 40, 50, 30),
    }) for name in CHAT),
    *((name, replied(name, chat(PARTS)), {"text": "ab", "finish_reason": "stop"}) for name in CHAT),
    ("openai", replied("openai", chat("", "length")), {"text": "", "finish_reason": "length"}),
    ("openai", replied("openai", chat(None, refusal="I cannot.")),
     {"text": None, "finish_reason": "refusal", "refusal": "I cannot."}),
    ("openai", replied("openai", chat("", "content_filter")), {"text": "", "finish_reason": "refusal"}),
    *(("openai", replied("openai", chat("x", finish)), {"text": "x", "finish_reason": "other"})
      for finish in ("tool_calls", None, {"odd": 1})),
    # what says why there is no text is not malformed
    ("openai", replied("openai", chat(7, "length")), {"text": None, "finish_reason": "length", "raw": "length"}),
    ("openai", replied("openai", chat(7, refusal="no")), {"text": None, "finish_reason": "refusal", "raw": "stop"}),
    ("openai", replied("openai", json.dumps(chat("in a string"))), {"text": "in a string", "finish_reason": "stop"}),
    ("openai", file_row({"body": chat()}), {"text": "4"}),
    *(("openai", file_row({"status_code": status, "body": chat()}), {"text": "4"}) for status in ("200", 200.0, "201")),
    ("mistral", replied("mistral", chat("4", "model_length")), {"finish_reason": "length"}),
    ("mistral", replied("mistral", chat("4", "error")), {"finish_reason": "other"}),
    ("together", replied("together", chat("4", "eos", {**TOKENS, "reasoning_tokens": 4}, reasoning="two and two")),
     {"text": "4", "finish_reason": "stop", "raw": "eos", "usage": Usage(10, 0, 5, 4)}),
    ("groq", replied("groq", chat("4", reasoning="two and two")), {"text": "4", "finish_reason": "stop"}),
    # of several choices the last is the answer
    ("xai", replied("xai", {"choices": [CALLED, *chat()["choices"]]}), {"text": "4"}),  # type: ignore[misc]
    *(("xai", replied("xai", chat(usage={**TOKENS, "cost_in_usd_ticks": ticks})), {"stated_usd": usd})
      for ticks, usd in ((37_756_000, Decimal("0.0037756")), (None, None), ("many", None))),
    ("openai", responses(), {"text": "42", "finish_reason": "stop", "usage": Usage(30, 10, 20, 15),
                             "model": "gpt-5.2-pro-2025-12-11"}),
    ("openai", cut("max_output_tokens"), {"outcome": "succeeded", "finish_reason": "length", "text": "42"}),
    ("openai", cut("max_output_tokens", output=[]), {"finish_reason": "length", "text": None}),
    ("openai", cut("content_filter", output=[]), {"finish_reason": "refusal", "text": None}),
    ("openai", responses(output=REFUSED), {"finish_reason": "refusal", "text": None}),
    ("openai", responses(output=[]), {"outcome": "succeeded", "finish_reason": "other", "text": None}),
    ("openai", responses(output="nonsense", usage=None), {"outcome": "succeeded", "finish_reason": "other"}),
    ("anthropic", replied("anthropic", CLAUDE), {
        "custom_id": "c-1", "text": "ab", "finish_reason": "stop", "raw": "end_turn",
        "usage": Usage(3210, 3000, 50, 40, 200), "model": "claude-opus-4-5-20251101"}),
    *(("anthropic", replied("anthropic", claude(stop=stop)), {"finish_reason": finish}) for stop, finish in (
        ("max_tokens", "length"), ("model_context_window_exceeded", "length"), ("stop_sequence", "stop"),
        ("pause_turn", "other"), ("a new word", "other"), (None, "other"))),
    ("anthropic", replied("anthropic", claude(stop="refusal", content=[], stop_details={"explanation": "not this"})),
     {"outcome": "succeeded", "finish_reason": "refusal", "text": None, "refusal": "not this"}),
    *(("anthropic", replied("anthropic", claude(stop=stop, content=None)), {"text": None, "raw": stop})
      for stop in ("max_tokens", "refusal")),
    *((name, replied(name, GEMINI), {
        "custom_id": "c-1", "text": "ab", "finish_reason": "stop", "raw": "STOP", "usage": Usage(300, 200, 100, 90),
        "model": "gemini-3-flash-preview"}) for name in ("gemini", "vertex")),
    *(("gemini", replied("gemini", {"candidates": [{"finishReason": word}]}),
       {"outcome": "succeeded", "text": None, "finish_reason": finish, "raw": word})
      for word, finish in (("MAX_TOKENS", "length"), ("SAFETY", "refusal"), ("PROHIBITED_CONTENT", "refusal"),
                           ("MALFORMED_RESPONSE", "other"), ("LANGUAGE", "other"))),
    ("gemini", replied("gemini", gemini_reply(candidates=[], promptFeedback={"blockReason": "SAFETY"})),
     {"outcome": "succeeded", "finish_reason": "refusal", "raw": "SAFETY", "refusal": "SAFETY", "input_tokens": 10}),
    ("gemini", {"metadata": {"key": "k-9"}, "response": {"candidates": []}}, {"custom_id": "k-9"}),
    # an answer beats an error beside it
    *((name, {**replied(name, gemini_reply()), "status": "odd"}, {"text": "4"}) for name in ("gemini", "vertex")),
    ("xai", {**replied("xai", chat()), "error": "odd"}, {"text": "4"}),
])  # fmt: skip
def test_an_answer_is_read(provider: str, row: JsonValue, expected: Mapping[str, object]) -> None:
    found = connect(provider, None).decode(json.dumps(row).encode())
    assert (found.outcome, found.error_class) == (RequestOutcome.SUCCEEDED, ErrorClass.NONE)
    assert picked(found, expected) == expected


# ---- rows without an answer ------------------------------------------------------------------------------------------

ERROR: Json = {"error": {"message": "No such field.", "type": "invalid_request_error", "code": "field"}}
LATE: Json = {"code": "batch_expired", "message": "too late"}


def failed(kind: str, code: str | None, message: str | None = None, outcome: str = "errored") -> dict[str, object]:
    return {"outcome": outcome, "error_class": kind, "code": code, "message": message, "text": None}


def claude_error(kind: str) -> JsonValue:
    error: Json = {"type": "error", "error": {"type": kind, "message": "why"}, "request_id": "r"}
    return {"custom_id": "c-1", "result": {"type": "errored", "error": error}}


def xai_row(**result: JsonValue) -> JsonValue:
    return {"batch_request_id": "c-1", "batch_result": result}


@claim([
    *(("openai", file_row({"status_code": status, "body": body}), failed(*rest)) for status, body, *rest in (
        (400, ERROR, "invalid_request", "field", "No such field."),
        (400, json.dumps(ERROR), "invalid_request", "field", "No such field."),
        (404, "gone", "invalid_request", "404", "gone"),
        (413, None, "too_large", "413"),
        (422, {"detail": "no"}, "invalid_request", "422", "no"),
        (429, {"error": "slow down"}, "rate_limited", "429", "slow down"),
        ("429", {"error": "slow down"}, "rate_limited", "429", "slow down"),
        (500, {}, "provider_fault", "500"),
        (0, None, "provider_fault", "0"),
        (0, ERROR, "provider_fault", "0", "No such field."),
        (0, {"error": LATE}, "not_executed", "batch_expired", "too late", "expired"),
        (200, ERROR, "provider_fault", "field", "No such field."),
        (None, ERROR, "provider_fault", "field", "No such field."),
    )),
    *(("openai", file_row(response, error), failed(*rest)) for response, error, *rest in (
        (None, LATE, "not_executed", "batch_expired", "too late", "expired"),
        ({}, LATE, "not_executed", "batch_expired", "too late", "expired"),
        ({"status_code": "", "body": {}}, LATE, "not_executed", "batch_expired", "too late", "expired"),
        (None, {"code": "batch_cancelled"}, "not_executed", "batch_cancelled", None, "cancelled"),
        (None, "a plain string", "provider_fault", None, "a plain string"),
        (None, {"code": "rate_limit_exceeded"}, "rate_limited", "rate_limit_exceeded"),
        (None, {"code": 429, "message": "m"}, "rate_limited", "429", "m"),
        (None, {"code": "invalid_image"}, "invalid_request", "invalid_image"),
    )),
    ("openai", responses(status="failed", error={"code": "rate_limit_exceeded", "message": "slow down"}, output=[]),
     {"outcome": "errored", "error_class": "rate_limited"}),
    *(("mistral", file_row({"status_code": status, "body": '{"object": "error", "message": "no such thing"}'}),
       {"outcome": "errored", "error_class": kind, "message": "no such thing"})
      for status, kind in ((422, "invalid_request"), (503, "provider_fault"))),
    # seen with server faults under it: the code alone does not make the row hopeless
    ("together", {"custom_id": "c-1", "error": {"code": "batch_client_error", "message": "Internal Server Error"}},
     failed("provider_fault", "batch_client_error", "Internal Server Error")),
    ("openrouter", file_row(None, {"type": "invalid_request_error", "message": "too long", "param": None}),
     failed("invalid_request", "invalid_request_error", "too long")),
    *(("anthropic", claude_error(kind), failed(error_class, kind, "why")) for kind, error_class in (
        ("invalid_request_error", "invalid_request"), ("not_found_error", "invalid_request"),
        ("request_too_large", "too_large"), ("rate_limit_error", "rate_limited"),
        ("overloaded_error", "provider_fault"), ("api_error", "provider_fault"), ("a_new_error", "provider_fault"))),
    *(("anthropic", {"custom_id": "c-1", "result": {"type": kind}}, {"outcome": outcome, "error_class": "not_executed"})
      for kind, outcome in (("canceled", "cancelled"), ("expired", "expired"))),
    *(("gemini", {"key": "c-1", "error": {"message": "m", **error}}, {"outcome": "errored", "error_class": kind})
      for error, kind in (
          ({"code": 3}, "invalid_request"), ({"code": 400, "status": "INVALID_ARGUMENT"}, "invalid_request"),
          ({"code": 8}, "rate_limited"), ({"code": 429}, "rate_limited"),
          ({"status": "RESOURCE_EXHAUSTED"}, "rate_limited"), ({"code": 413}, "too_large"),
          ({"code": 13}, "provider_fault"), ({"code": 503}, "provider_fault"), ({}, "provider_fault"))),
    ("gemini", {"key": "c-1", "error": {"code": 1, "message": "m"}},
     {"outcome": "cancelled", "error_class": "not_executed", "message": "m"}),
    ("vertex", {"key": "c-1", "status": "Bad Request: too long", "response": {}},
     {"outcome": "errored", "message": "Bad Request: too long"}),
    *(("xai", row, {"outcome": "errored", "error_class": kind, "message": "boom"}) for row, kind in (
        (xai_row(error={"code": 3, "message": "boom"}), "invalid_request"),
        (xai_row(error={"code": 8, "message": "boom"}), "rate_limited"),
        (xai_row(error={"code": "rate_limit_exceeded", "message": "boom"}), "rate_limited"),
        (xai_row(error="boom"), "provider_fault"),
        ({"batch_request_id": "c-1", "error_message": "boom"}, "provider_fault"),
        ({"batch_request_id": "c-1", "error": {"message": "boom", "code": 13}}, "provider_fault"))),
])  # fmt: skip
def test_a_row_without_an_answer_is_an_outcome(provider: str, row: JsonValue, expected: Mapping[str, object]) -> None:
    assert picked(connect(provider, None).decode(json.dumps(row).encode()), expected) == expected


@pytest.mark.parametrize(("provider", "row"), [
    *((name, file_row(None)) for name in CHAT if name != "xai"),
    *(("openai", file_row(*told)) for told in (
        ("text",), ({},), ({"status_code": "200 OK", "body": chat()},), ({"status_code": 200.5, "body": chat()},),
        ({"status_code": True, "body": chat()},), ({"status_code": 7, "body": chat()},),
        ({"status_code": 7, "body": chat()}, LATE), ({"status_code": None, "body": "an answer?"}, LATE))),
    *(("anthropic", {"custom_id": "c-1", "result": result}) for result in (None, {"type": "errand"}, {"type": 5}, [])),
    ("gemini", {"key": "c-1"}), ("gemini", {"key": "c-1", "response": 5}), ("vertex", {"key": "c-1", "status": ""}),
    ("xai", {"batch_request_id": "c-1"}), ("xai", xai_row()),
])  # fmt: skip
def test_a_row_that_tells_nothing_is_unreadable_and_not_bought_again(provider: str, row: JsonValue) -> None:
    found = connect(provider, None).decode(json.dumps(row).encode())
    assert (found.custom_id, found.outcome) == ("c-1", RequestOutcome.ERRORED)
    assert found.error_class is ErrorClass.UNREADABLE
    assert found.error_message
    assert found.error_class not in PASSING


# ---- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("usage", "expected"), [
    ({"prompt_tokens": 10, "completion_tokens": 5, "reasoning_tokens": 4, "cached_tokens": 3}, Usage(10, 3, 5, 4)),
    ({"prompt_tokens": 10, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 99}}, Usage(10, 10)),
    ({"prompt_tokens": 10, "completion_tokens": 0, "completion_tokens_details": {"reasoning_tokens": None}}, Usage(10)),
    ({"prompt_tokens": 12.0, "completion_tokens": "7", "completion_tokens_details": []}, Usage(12, 0, 7)),
    ({"prompt_tokens": 12, "total_tokens": 20}, Usage(12, 0, 8)),
    ({"completion_tokens": 8, "prompt_tokens": None, "total_tokens": "20"}, Usage(12, 0, 8)),
    ({"prompt_tokens": 0, "completion_tokens": 0}, Usage()),
    # what is not told is unknown, and not none
    (None, Usage(is_known=False)),
    ([10, 5], Usage(is_known=False)),
    ({}, Usage(is_known=False)),
    ({"prompt_tokens": 10}, Usage(10, is_known=False)),
    ({"prompt_tokens": 10, "total_tokens": 9}, Usage(10, is_known=False)),
    ({"total_tokens": 20}, Usage(is_known=False)),
    ({"prompt_tokens": -1, "completion_tokens": "7"}, Usage(0, 0, 7, is_known=False)),
    ({"prompt_tokens": True, "completion_tokens": 10**30}, Usage(is_known=False)),
    ({"prompt_tokens": 10, "completion_tokens": 5.5}, Usage(10, is_known=False)),
    ({"prompt_tokens": "ten", "completion_tokens": "٣"}, Usage(is_known=False)),
])  # fmt: skip
def test_usage_is_counts_or_unknown_and_a_part_never_exceeds_its_whole(usage: JsonValue, expected: Usage) -> None:
    found = connect("openai", None).decode(json.dumps(replied("openai", chat(usage=usage))).encode())
    assert (found.text, found.usage) == ("4", expected)


@pytest.mark.parametrize("provider", [*CHAT, "anthropic", "gemini", "vertex"])
def test_a_reply_without_readable_usage_keeps_its_text_and_says_so(provider: str) -> None:
    for usage in (None, "ten", [10, 5], {"prompt_tokens": [], "x": -1}):
        body = chat() if provider in CHAT else claude() if provider == "anthropic" else gemini_reply()
        body |= {"usage": usage, "usageMetadata": usage}
        found = connect(provider, None).decode(json.dumps(replied(provider, body)).encode())
        assert (found.outcome, found.text, found.usage) == (RequestOutcome.SUCCEEDED, "4", Usage(is_known=False))


# ---- replies that are not of the documented form ---------------------------------------------------------------------


def choice(message: JsonValue) -> Json:
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


NO_CHAT: list[Json] = [
    {}, {"choices": []}, {"choices": None}, {"choices": ["4"]}, {"choices": [{"index": 0, "finish_reason": "stop"}]},
    choice(None), choice({"content": 7}), choice({"content": {"text": "4"}}),
]  # fmt: skip
NO_CANDIDATES: list[Json] = [{}, *({"candidates": listed} for listed in (
    [], None, [7], [{}], [{"content": "4"}], [{"content": {"parts": {"text": "4"}}}]))]  # type: ignore[dict-item]  # fmt: skip
NO_CONTENT: list[Json] = [{"stop_reason": "end_turn", **content} for content in (
    {}, {"content": None}, {"content": "4"}, {"content": {"type": "text", "text": "4"}})]  # type: ignore[dict-item]  # fmt: skip
MALFORMED: Mapping[str, list[Json]] = {
    **dict.fromkeys(CHAT, NO_CHAT), "anthropic": NO_CONTENT, "gemini": NO_CANDIDATES, "vertex": NO_CANDIDATES,
}  # fmt: skip
"""Bodies of paid replies without anything to read."""
COUNTED: Json = {
    "usage": {**TOKENS, "input_tokens": 10, "output_tokens": 5},
    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5},
}


@pytest.mark.parametrize("provider", MALFORMED)
def test_a_malformed_reply_is_an_answer_without_text_and_charged(provider: str) -> None:
    for body in MALFORMED[provider]:
        found = connect(provider, None).decode(json.dumps(replied(provider, {**COUNTED, **body})).encode())
        assert (found.custom_id, found.outcome, found.text) == ("c-1", RequestOutcome.SUCCEEDED, None), body
        assert (found.finish_reason, found.raw_finish_reason) == (FinishReason.OTHER, "malformed"), body
        assert (found.error_class, found.usage) == (ErrorClass.NONE, Usage(10, 0, 5)), body


@pytest.mark.parametrize(("line", "names"), [
    (b'{"id": "b-1", "custom_id": "r1-000002", "response": {"sta', ["r1-000002"]),
    (b'{"key" :\t"r1-000002", "response": {"candi', ["r1-000002"]),
    (b'h_request_id": "x"}, "batch_request_id":"r1-000002"}', ["r1-000002"]),
    (b'{"custom_id": "a", "resp{"custom_id": "b", "response": {}}{"custom_id": "a"', ["a", "b"]),
    (b'{"id": "b-1", "custom_id": "r1-0000', []),
    (b'ent": "say \\"custom_id\\": \\"r1-000009\\" and stop"}]}}', []),
    (b'{"custom_id": "a b", "key": ""', []),
])  # fmt: skip
def test_the_requests_a_damaged_line_names_are_read_outside_of_texts(line: bytes, names: list[str]) -> None:
    assert named_in(line) == names
