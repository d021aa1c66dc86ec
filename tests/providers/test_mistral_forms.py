"""Lines and rows of Mistral's batches as its documents write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from layton_batch.providers.mistral import Mistral
from layton_batch.providers.request_line import request_line
from layton_batch.records import (
    Image,
    JsonValue,
    ModelSpec,
    Prompt,
    Reasoning,
    Request,
    ResponseSchema,
    Usage,
)
from layton_batch.states import ErrorClass, FinishReason, RequestOutcome

from .result_rows import almost, claim_decode_is_total

OFFLINE = Mistral(None)
SCHEMA = ResponseSchema(
    "grade",
    {
        "type": "object",
        "properties": {"score": {"type": "integer"}},
        "required": ["score"],
        "additionalProperties": False,
    },
)


def request(*parts: str | Image, **spec: Any) -> Request:
    model = ModelSpec("shown", "mistral", "mistral-large-2512", "mistral", **spec)
    return Request("run7-0001", "item", model, Prompt("Grade strictly.", parts or ("2+2?",), SCHEMA))


# ---- lines


def test_a_line_is_what_the_documents_show() -> None:
    asked = request(
        "What is shown?", Image("image/jpeg", "/9j/4AAQ"), max_output_tokens=2000, reasoning=Reasoning(effort="high")
    )
    line = json.loads(request_line(OFFLINE, asked))
    assert line == {
        "custom_id": "run7-0001",
        "body": {
            "messages": [
                {"role": "system", "content": "Grade strictly."},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is shown?"},
                        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/4AAQ"}},
                    ],
                },
            ],
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "grade",
                    "strict": True,
                    "schema": {
                        "type": "object",
                        "properties": {"score": {"type": "integer"}},
                        "required": ["score"],
                        "additionalProperties": False,
                    },
                },
            },
            "reasoning_effort": "high",
            "max_tokens": 2000,
        },
    }


def test_params_win_and_budgets_are_refused() -> None:
    body = json.loads(request_line(OFFLINE, request(params={"random_seed": 7, "max_tokens": 5})))["body"]
    assert (body["random_seed"], body["max_tokens"]) == (7, 5)
    (problem,) = OFFLINE.check(request(reasoning=Reasoning(budget_tokens=9)).model)
    assert "budget" in problem
    assert OFFLINE.check(request(reasoning=Reasoning(effort="minimal")).model) == []


# ---- rows


def row(body: JsonValue, status: int = 200, error: JsonValue = None) -> bytes:
    response = {"status_code": status, "body": body}
    return json.dumps({"id": "batch-1", "custom_id": "c-1", "response": response, "error": error}).encode()


def chat(content: JsonValue, finish: str = "stop") -> JsonValue:
    return {
        "model": "mistral-large-2512",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 64},
        },
    }


def test_a_string_content() -> None:
    found = OFFLINE.decode(row(chat('{"score": 3}')))
    assert (found.outcome, found.text, found.finish_reason) == (
        RequestOutcome.SUCCEEDED,
        '{"score": 3}',
        FinishReason.STOP,
    )
    assert (found.usage, found.served_model) == (Usage(100, 64, 20), "mistral-large-2512")


def test_a_content_of_chunks_leaves_thinking_out() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    found = OFFLINE.decode(row(chat([thinking, {"type": "text", "text": "4"}, {"type": "text", "text": "2"}])))
    assert found.text == "42"


@pytest.mark.parametrize(
    ("word", "finish"),
    [("length", FinishReason.LENGTH), ("model_length", FinishReason.LENGTH), ("error", FinishReason.OTHER)],
)
def test_finish_reasons(word: str, finish: FinishReason) -> None:
    assert OFFLINE.decode(row(chat("4", word))).finish_reason is finish


@pytest.mark.parametrize(
    ("status", "error_class"),
    [
        (400, ErrorClass.INVALID_REQUEST),
        (422, ErrorClass.INVALID_REQUEST),
        (413, ErrorClass.TOO_LARGE),
        (429, ErrorClass.RATE_LIMITED),
        (503, ErrorClass.PROVIDER_FAULT),
    ],
)
def test_error_bodies_come_as_text_that_holds_json(status: int, error_class: ErrorClass) -> None:
    found = OFFLINE.decode(row('{"object": "error", "message": "no such thing", "type": "bad"}', status))
    assert (found.outcome, found.error_class) == (RequestOutcome.ERRORED, error_class)
    assert found.error_message == "no such thing"


@given(
    almost(
        "id custom_id response error status_code body choices message content text type finish_reason usage "
        "prompt_tokens completion_tokens prompt_tokens_details cached_tokens",
        "200 text stop batch_expired x",
    )
)
def test_decode_never_raises_anything_else(line: bytes) -> None:
    claim_decode_is_total(OFFLINE, line)
