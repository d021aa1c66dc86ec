"""Lines in, lines out: what all OpenAI-shaped dialects share, without a network."""

from __future__ import annotations

import json
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.errors import (
    ManifestError,
    ProviderError,
    ProviderReplyError,
)
from layton_batch.providers import connect, problems
from layton_batch.providers.openai_shape import class_of_status, snapshot_of
from layton_batch.providers.request_line import request_line
from layton_batch.records import Reasoning, Response, ResponseSchema, Usage
from layton_batch.states import ErrorClass, FinishReason, RequestOutcome

from .conftest import IMAGE, effort, make_request

OPENAI = connect("openai", None)

# ---- encode --------------------------------------------------------------------------------------------------------

GOLDEN = (
    b'{"custom_id":"run7-0001","method":"POST","url":"/v1/chat/completions","body":{"model":"the-model","messages":['
    b'{"role":"system","content":"Grade strictly."},{"role":"user","content":[{"type":"text","text":"What is shown?"},'
    b'{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,/9j/4AAQ"}}]}],"response_format":{"type":'
    b'"json_schema","json_schema":{"name":"grade","strict":true,"schema":{"type":"object","properties":{"score":{"type":'
    b'"integer"}},"required":["score"],"additionalProperties":false}}},"reasoning_effort":"low",'
    b'"max_completion_tokens":2000,"seed":7}}'
)


def test_the_line_is_the_documented_one() -> None:
    request = make_request(
        "openai", "What is shown?", IMAGE, reasoning=effort("low"), max_output_tokens=2000, params={"seed": 7}
    )
    assert request_line(OPENAI, request) == GOLDEN


def test_text_alone_is_one_string_and_an_empty_system_text_no_message() -> None:
    request = make_request("openai", "one", "two", schema=False)
    body = json.loads(request_line(OPENAI, replace(request, prompt=replace(request.prompt, system=""))))["body"]
    assert body == {"model": "the-model", "messages": [{"role": "user", "content": "one\n\ntwo"}]}


def test_params_win_over_what_we_set() -> None:
    line = request_line(OPENAI, make_request("openai", max_output_tokens=5, params={"max_completion_tokens": 9}))
    assert json.loads(line)["body"]["max_completion_tokens"] == 9


def test_half_a_character_does_not_stop_a_line() -> None:
    assert "x\ufffdy" in request_line(OPENAI, make_request("openai", "x\ud800y")).decode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**70, [{"deep": float("-inf")}]])
def test_params_that_json_lacks_are_an_error_naming_the_model(value: object) -> None:
    with pytest.raises(ManifestError, match=r"'shown'.*params"):
        request_line(OPENAI, make_request("openai", params={"x": value}))


def test_strict_mode_gets_what_it_demands_of_every_object_and_nothing_is_overruled() -> None:
    inner = {"type": "object", "properties": {"a": {}}, "required": [], "additionalProperties": True}
    outer = {"type": "object", "properties": {"list": {"type": "array", "items": inner}, "b": {"enum": [1]}}}
    assert ResponseSchema("grade", outer).closed == {
        "type": "object",
        "properties": {"list": {"type": "array", "items": inner}, "b": {"enum": [1]}},
        "required": ["list", "b"],
        "additionalProperties": False,
    }


def test_what_the_api_cannot_do_is_said_before_anything_is_sent() -> None:
    assert problems(OPENAI, make_request("openai", reasoning=effort("xhigh")).model) == []
    bad = make_request("openai", reasoning=Reasoning(budget_tokens=9), params={"stream": True, "model": "x"}).model
    said = " ".join(problems(OPENAI, bad))
    assert "budgets" in said
    assert "params.stream" in said
    assert "params.model" in said
    assert (
        "does not know reasoning effort 'huge'"
        in problems(OPENAI, make_request("o", reasoning=effort("huge")).model)[0]
    )


# ---- decode --------------------------------------------------------------------------------------------------------


def chat(content: object, finish: object = "stop", **message: object) -> dict[str, object]:
    return {
        "model": "the-model-2026",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "prompt_tokens_details": {"cached_tokens": 40},
            "completion_tokens_details": {"reasoning_tokens": 30},
        },
    }


def row(response: object, error: object = None) -> bytes:
    return json.dumps({"id": "batch_req_1", "custom_id": "c-1", "response": response, "error": error}).encode()


def answered(body: object) -> Response:
    return OPENAI.decode(row({"status_code": 200, "request_id": "r", "body": body}))


def test_an_answer_comes_with_its_usage_and_served_model() -> None:
    assert answered(chat("four")) == Response(
        "c-1",
        RequestOutcome.SUCCEEDED,
        text="four",
        finish_reason=FinishReason.STOP,
        raw_finish_reason="stop",
        usage=Usage(100, 40, 50, 30),
        served_model="the-model-2026",
    )


PARTS = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(
    ("body", "text", "finish", "refusal"),
    [
        (chat("", "length"), "", FinishReason.LENGTH, None),
        (chat(None, "stop", refusal="I cannot."), None, FinishReason.REFUSAL, "I cannot."),
        (chat("", "content_filter"), "", FinishReason.REFUSAL, None),
        (chat("x", "tool_calls"), "x", FinishReason.OTHER, None),
        (chat("x", None), "x", FinishReason.OTHER, None),
        (chat("x", {"odd": 1}), "x", FinishReason.OTHER, None),
        (chat(PARTS), "ab", FinishReason.STOP, None),
        (json.dumps(chat("in a string")), "in a string", FinishReason.STOP, None),
    ],
)  # fmt: skip
def test_every_form_of_an_answer_is_read(
    body: object, text: str | None, finish: FinishReason, refusal: str | None
) -> None:
    response = answered(body)
    assert (response.outcome, response.text, response.finish_reason) == (RequestOutcome.SUCCEEDED, text, finish)
    assert response.refusal == refusal


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "reasoning_tokens": 4, "cached_tokens": 3}, Usage(10, 3, 5, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 99}},
         Usage(10, 10, 0, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 0, "completion_tokens_details": {"reasoning_tokens": None}},
         Usage(10)),
        ({"prompt_tokens": 12.0, "completion_tokens": "7", "completion_tokens_details": []}, Usage(12, 0, 7)),
        ({"prompt_tokens": 12, "total_tokens": 20}, Usage(12, 0, 8)),
        ({"completion_tokens": 8, "prompt_tokens": None, "total_tokens": "20"}, Usage(12, 0, 8)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage()),
    ],
)  # fmt: skip
def test_usage_is_counts_or_nothing_and_a_part_never_exceeds_its_whole(usage: object, expected: Usage) -> None:
    assert answered({**chat("x"), "usage": usage}).usage == expected


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (None, Usage(known=False)),
        ([10, 5], Usage(known=False)),
        ({}, Usage(known=False)),
        ({"prompt_tokens": 10}, Usage(10, known=False)),
        ({"prompt_tokens": 10, "total_tokens": 9}, Usage(10, known=False)),
        ({"total_tokens": 20}, Usage(known=False)),
        ({"prompt_tokens": -1, "completion_tokens": "7"}, Usage(0, 0, 7, known=False)),
        ({"prompt_tokens": True, "completion_tokens": 10**30}, Usage(known=False)),
        ({"prompt_tokens": 10, "completion_tokens": 5.5}, Usage(10, known=False)),
        ({"prompt_tokens": "ten", "completion_tokens": "٣"}, Usage(known=False)),
    ],
)
def test_tokens_that_are_not_told_are_unknown_and_not_none(usage: object, told: Usage) -> None:
    response = answered({**chat("x"), "usage": usage})
    assert (response.outcome, response.text, response.usage) == (RequestOutcome.SUCCEEDED, "x", told)


def test_a_paid_reply_that_is_no_object_does_not_tell_its_tokens() -> None:
    assert answered("half a body").usage == Usage(known=False)


ERROR = {"error": {"message": "No such field.", "type": "invalid_request_error", "code": "field"}}
LATE = {"code": "batch_expired", "message": "too late"}


@pytest.mark.parametrize(
    ("line", "outcome", "error_class", "code", "message"),
    [
        (row({"status_code": 400, "body": ERROR}), "errored", "invalid_request", "field", "No such field."),
        (row({"status_code": 400, "body": json.dumps(ERROR)}), "errored", "invalid_request", "field",
         "No such field."),
        (row({"status_code": 404, "body": "gone"}), "errored", "invalid_request", "404", "gone"),
        (row({"status_code": 413, "body": None}), "errored", "too_large", "413", None),
        (row({"status_code": 422, "body": {"detail": "no"}}), "errored", "invalid_request", "422", "no"),
        (row({"status_code": 429, "body": {"error": "slow down"}}), "errored", "rate_limited", "429", "slow down"),
        (row({"status_code": 500, "body": {}}), "errored", "provider_fault", "500", None),
        (row({"status_code": 0, "body": None}), "errored", "provider_fault", "0", None),
        (row({"status_code": 0, "body": ERROR}), "errored", "provider_fault", "0", "No such field."),
        (row({"status_code": 0, "body": {"error": LATE}}), "expired", "not_executed", "batch_expired", "too late"),
        (row({"status_code": 200, "body": ERROR}), "errored", "provider_fault", "field", "No such field."),
        (row(None, LATE), "expired", "not_executed", "batch_expired", "too late"),
        (row(None, {"code": "batch_cancelled"}), "cancelled", "not_executed", "batch_cancelled", None),
        (row(None, "a plain string"), "errored", "provider_fault", None, "a plain string"),
        (row(None, {"code": "rate_limit_exceeded"}), "errored", "rate_limited", "rate_limit_exceeded", None),
        (row(None, {"code": 429, "message": "m"}), "errored", "rate_limited", "429", "m"),
        (row(None, {"code": "invalid_image"}), "errored", "invalid_request", "invalid_image", None),
    ],
)  # fmt: skip
def test_every_form_of_a_failed_row_is_an_outcome(
    line: bytes, outcome: str, error_class: str, code: str | None, message: str | None
) -> None:
    response = OPENAI.decode(line)
    assert (response.outcome, response.error_class) == (outcome, error_class)
    assert (response.error_code, response.error_message) == (code, message)
    assert response.text is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"custom_id": "", "response": null}', "custom_id"),
        (b'{"custom_id": "c", "response": {"status_co', "not JSON"),
    ],
)
def test_a_line_that_names_no_request_says_how(line: bytes, said: str) -> None:
    with pytest.raises(ProviderReplyError, match=said):
        OPENAI.decode(line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (row(None), "neither a response nor an error"),
        (row("text"), "neither a response nor an error"),
        (row({}), "status_code"),
        (row({"status_code": "200 OK", "body": chat("x")}), "status_code"),
        (row({"status_code": 200.5, "body": chat("x")}), "status_code"),
        (row({"status_code": True, "body": chat("x")}), "status_code"),
        (row({"status_code": 7, "body": chat("x")}), "status_code"),
        (row({"status_code": 7, "body": chat("x")}, LATE), "status_code"),
        (row({"status_code": None, "body": "an answer?"}, LATE), "status_code"),
    ],
)
def test_a_row_that_tells_nothing_of_its_request_is_unreadable_and_says_how(line: bytes, said: str) -> None:
    found = OPENAI.decode(line)
    assert (found.custom_id, found.outcome) == ("c-1", RequestOutcome.ERRORED)
    assert found.error_class is ErrorClass.UNREADABLE
    assert said in str(found.error_message)


@pytest.mark.parametrize("status", ["200", 200.0, "201"])
def test_a_status_code_of_another_type_is_read(status: object) -> None:
    assert OPENAI.decode(row({"status_code": status, "body": chat("x")})).text == "x"
    failed = OPENAI.decode(row({"status_code": "429", "body": ERROR}))
    assert failed.error_class is ErrorClass.RATE_LIMITED


@pytest.mark.parametrize("response", [{}, {"status_code": None, "body": None}, {"status_code": "", "body": {}}])
def test_a_row_with_an_empty_response_ends_as_its_error_says(response: dict[str, object]) -> None:
    found = OPENAI.decode(row(response, LATE))
    assert (found.outcome, found.error_class) == (RequestOutcome.EXPIRED, ErrorClass.NOT_EXECUTED)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_lacks_do_not_cost_the_answer_they_stand_beside(word: str) -> None:
    line = row({"status_code": 200, "body": {**chat("x"), "logprobs": ["?"]}}).replace(b'"?"', word.encode())
    assert OPENAI.decode(line).text == "x"


def test_a_byte_order_mark_does_not_cost_the_first_row() -> None:
    assert OPENAI.decode(b"\xef\xbb\xbf" + row({"status_code": 200, "body": chat("x")})).text == "x"


def test_a_response_without_a_status_code_is_taken_by_its_body() -> None:
    assert OPENAI.decode(row({"body": chat("x")})).text == "x"
    assert OPENAI.decode(row({"status_code": None, "body": ERROR})).error_code == "field"


@pytest.mark.parametrize(
    ("finish", "message", "found"),
    [("length", {}, FinishReason.LENGTH), ("stop", {"refusal": "I cannot."}, FinishReason.REFUSAL)],
)
def test_a_reply_that_says_why_there_is_no_text_is_not_malformed(
    finish: str, message: dict[str, object], found: FinishReason
) -> None:
    response = answered(chat(7, finish, **message))
    assert (response.text, response.finish_reason, response.raw_finish_reason) == (None, found, finish)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from([200, 400, "stop"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["custom_id", "response", "error", "status_code", "body", "choices", "message", "content", "usage", "code",
             "text", "type", "prompt_tokens", "prompt_tokens_details", "finish_reason", "refusal", "model", "detail"]
        )
        | st.text(max_size=3),
        inner,
        max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip
ROWS = st.fixed_dictionaries({"custom_id": JSON | st.just("c-1")}, optional={"response": JSON, "error": JSON})
CHOICES = JSON | st.lists(st.fixed_dictionaries({"message": JSON}), max_size=2)
BODIES = JSON | st.fixed_dictionaries({"choices": CHOICES}, optional={"usage": JSON})
RESPONSES = st.fixed_dictionaries({"status_code": st.sampled_from([200, 200, 400, None])}, optional={"body": BODIES})
REPLIES = st.fixed_dictionaries({"custom_id": st.just("c-1"), "response": RESPONSES})


@given(value=JSON | ROWS | REPLIES)
def test_any_json_is_a_response_or_a_reply_error(value: object) -> None:
    for name in ("openai", "together"):
        try:
            response = connect(name, None).decode(json.dumps(value).encode())
        except ProviderReplyError:
            continue
        assert response.custom_id
        assert (response.error_class is ErrorClass.NONE) == (response.outcome is RequestOutcome.SUCCEEDED)


@given(value=st.dictionaries(st.sampled_from(["errors", "request_counts", "output_file_id", "status"]), JSON))
def test_any_batch_object_is_a_snapshot_or_a_provider_error(value: dict[str, object]) -> None:
    for given_status in (value, {**value, "status": "failed"}):
        try:
            snapshot = snapshot_of(given_status, "b-1", "openai")  # type: ignore[arg-type]
        except ProviderError:
            continue
        assert snapshot.provider_id == "b-1"


DEEP = b"[" * 990 + b"]" * 990


@pytest.mark.parametrize(
    "line",
    [
        row(None, "DEEP"),
        row(None, {"message": "DEEP"}),
        row(None, {"code": "DEEP"}),
        row({"status_code": 500, "body": "DEEP"}),
        row({"status_code": 200, "body": "DEEP"}),
        row({"status_code": 200, "body": {**chat("x"), "usage": "DEEP"}}),
        row({"status_code": 200, "body": chat("DEEP")}),
        row({"status_code": "DEEP", "body": None}),
    ],
)
def test_a_value_nested_as_deep_as_json_is_read_is_no_traceback(line: bytes) -> None:
    assert OPENAI.decode(line.replace(b'"DEEP"', DEEP)).custom_id == "c-1"


def test_a_failed_batch_with_errors_nested_deep_can_be_told() -> None:
    deep = orjson.loads(DEEP)
    for errors in ([deep], {"data": [{"code": deep, "message": deep, "line": deep}]}, deep):
        assert snapshot_of({"status": "failed", "errors": errors}, "b", "openai").message


def test_a_status_that_is_none_of_an_error_says_nothing() -> None:
    assert class_of_status(302) is None
    assert class_of_status(401) is ErrorClass.INVALID_REQUEST
    assert {class_of_status(code) for code in (408, 418, 423, 425, 499)} == {ErrorClass.PROVIDER_FAULT}
