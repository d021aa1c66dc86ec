"""Lines and rows of Gemini's batches as its documents write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from layton_batch.errors import (
    ProviderReplyError,
)
from layton_batch.providers.gemini import Gemini
from layton_batch.providers.request_line import request_line
from layton_batch.records import (
    Image,
    JsonValue,
    ModelSpec,
    Prompt,
    Reasoning,
    Request,
    Response,
    ResponseSchema,
    Usage,
)
from layton_batch.states import ErrorClass, FinishReason, RequestOutcome

from .result_rows import almost, claim_decode_is_total

OFFLINE = Gemini(None)
SCHEMA = ResponseSchema(
    "grade", {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
)


def request(*parts: str | Image, system: str = "Grade strictly.", schema: bool = True, **spec: Any) -> Request:
    model = ModelSpec("shown", "gemini", spec.pop("model", "gemini-3-flash-preview"), "google", **spec)
    return Request("run7-0001", "item", model, Prompt(system, parts or ("2+2?",), SCHEMA if schema else None))


def body(asked: Request) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request_line(OFFLINE, asked))["request"]
    return found


# ---- lines


def test_a_line_is_what_the_documents_show() -> None:
    asked = request(
        "What is shown?", Image("image/jpeg", "/9j/4AAQ"), max_output_tokens=2000, reasoning=Reasoning(effort="low")
    )
    assert json.loads(request_line(OFFLINE, asked)) == {
        "key": "run7-0001",
        "request": {
            "systemInstruction": {"parts": [{"text": "Grade strictly."}]},
            "contents": [
                {
                    "role": "user",
                    "parts": [
                        {"text": "What is shown?"},
                        {"inlineData": {"mimeType": "image/jpeg", "data": "/9j/4AAQ"}},
                    ],
                }
            ],
            "generationConfig": {
                "responseMimeType": "application/json",
                "responseJsonSchema": {
                    "type": "object",
                    "properties": {"score": {"type": "integer"}},
                    "required": ["score"],
                },
                "maxOutputTokens": 2000,
                "thinkingConfig": {"thinkingLevel": "LOW"},
            },
        },
    }


@pytest.mark.parametrize(
    ("reasoning", "thinking"),
    [
        (Reasoning(), None),
        (Reasoning(effort="none"), {"thinkingBudget": 0}),
        (Reasoning(effort="minimal"), {"thinkingLevel": "MINIMAL"}),
        (Reasoning(effort="high"), {"thinkingLevel": "HIGH"}),
        (Reasoning(budget_tokens=32_000), {"thinkingBudget": 32_000}),
    ],
)
def test_reasoning(reasoning: Reasoning, thinking: object) -> None:
    found = body(request(reasoning=reasoning, schema=False))
    assert found.get("generationConfig", {}).get("thinkingConfig") == thinking


def test_passthrough_params_go_where_the_rest_form_has_them() -> None:
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]
    asked = request(params={"temperature": 0, "safetySettings": safety, "generationConfig": {"topK": 1}})
    found = body(asked)
    assert found["safetySettings"] == safety
    assert found["generationConfig"]["temperature"] == 0
    assert found["generationConfig"]["topK"] == 1
    assert found["generationConfig"]["responseMimeType"] == "application/json"


def test_a_bare_prompt_has_no_configuration() -> None:
    assert list(body(request(system="", schema=False))) == ["contents"]


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"reasoning": Reasoning(effort="max")}, "max"),
        ({"reasoning": Reasoning(effort="low"), "model": "gemini-2.5-pro"}, "budget"),
        ({"reasoning": Reasoning(effort="none")}, "minimal"),
        ({"reasoning": Reasoning(budget_tokens=-2)}, "-1"),
        ({"params": {"max_output_tokens": 5}}, "maxOutputTokens"),
        ({"params": {"contents": []}}, "contents"),
    ],
)
def test_what_the_api_cannot_do_is_said(spec: dict[str, Any], word: str) -> None:
    problems = OFFLINE.check(request(**spec).model)
    assert len(problems) == 1
    assert word in problems[0]


# ---- rows


def answered(**fields: JsonValue) -> bytes:
    reply: dict[str, JsonValue] = {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"text": "let me think", "thought": True}, {"text": '{"score"'}, {"text": ": 3}"}],
                },
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 300,
            "cachedContentTokenCount": 200,
            "candidatesTokenCount": 10,
            "thoughtsTokenCount": 90,
            "totalTokenCount": 400,
        },
        "modelVersion": "gemini-3-flash-preview",
    }
    return json.dumps({"key": "k-1", "response": reply | fields}).encode()


def test_an_answered_row_gives_text_without_thoughts_and_usage_with_them() -> None:
    assert OFFLINE.decode(answered()) == Response(
        "k-1",
        RequestOutcome.SUCCEEDED,
        text='{"score": 3}',
        finish_reason=FinishReason.STOP,
        raw_finish_reason="STOP",
        usage=Usage(300, 200, 100, 90),
        served_model="gemini-3-flash-preview",
    )


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("SAFETY", FinishReason.REFUSAL),
        ("PROHIBITED_CONTENT", FinishReason.REFUSAL),
        ("MALFORMED_RESPONSE", FinishReason.OTHER),
        ("LANGUAGE", FinishReason.OTHER),
    ],
)
def test_finish_reasons(word: str, finish: FinishReason) -> None:
    found = OFFLINE.decode(answered(candidates=[{"finishReason": word}]))
    assert (found.outcome, found.text) == (RequestOutcome.SUCCEEDED, None)
    assert (found.finish_reason, found.raw_finish_reason) == (finish, word)
    assert (found.refusal is not None) == (finish is FinishReason.REFUSAL)


def test_a_blocked_prompt_is_a_refusal() -> None:
    found = OFFLINE.decode(answered(candidates=[], promptFeedback={"blockReason": "SAFETY"}))
    assert (found.outcome, found.finish_reason) == (RequestOutcome.SUCCEEDED, FinishReason.REFUSAL)
    assert (found.raw_finish_reason, found.refusal, found.usage.input_tokens) == ("SAFETY", "SAFETY", 300)


def test_a_row_may_carry_its_key_in_metadata() -> None:
    line = b'{"metadata": {"key": "k-9"}, "response": {"candidates": []}}'
    assert OFFLINE.decode(line).custom_id == "k-9"


@pytest.mark.parametrize(
    ("error", "outcome", "error_class"),
    [
        ({"code": 3, "message": "m"}, RequestOutcome.ERRORED, ErrorClass.INVALID_REQUEST),
        (
            {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"},
            RequestOutcome.ERRORED,
            ErrorClass.INVALID_REQUEST,
        ),
        ({"code": 8, "message": "m"}, RequestOutcome.ERRORED, ErrorClass.RATE_LIMITED),
        ({"code": 429, "message": "m"}, RequestOutcome.ERRORED, ErrorClass.RATE_LIMITED),
        ({"status": "RESOURCE_EXHAUSTED", "message": "m"}, RequestOutcome.ERRORED, ErrorClass.RATE_LIMITED),
        ({"code": 413, "message": "m"}, RequestOutcome.ERRORED, ErrorClass.TOO_LARGE),
        ({"code": 13, "message": "m"}, RequestOutcome.ERRORED, ErrorClass.PROVIDER_FAULT),
        ({"code": 503, "message": "m"}, RequestOutcome.ERRORED, ErrorClass.PROVIDER_FAULT),
        ({"message": "m"}, RequestOutcome.ERRORED, ErrorClass.PROVIDER_FAULT),
        ({"code": 1, "message": "m"}, RequestOutcome.CANCELLED, ErrorClass.NOT_EXECUTED),
    ],
)
def test_errors_are_classed(error: JsonValue, outcome: RequestOutcome, error_class: ErrorClass) -> None:
    found = OFFLINE.decode(json.dumps({"key": "k-1", "error": error}).encode())
    assert (found.outcome, found.error_class, found.error_message) == (outcome, error_class, "m")


def test_a_line_without_a_key_is_refused() -> None:
    with pytest.raises(ProviderReplyError):
        OFFLINE.decode(b'{"response": {}}')


@pytest.mark.parametrize("line", [b'{"key": "k-1"}', b'{"key": "k-1", "response": 5}'])
def test_rows_of_another_form_are_unreadable(line: bytes) -> None:
    found = OFFLINE.decode(line)
    assert (found.custom_id, found.outcome) == ("k-1", RequestOutcome.ERRORED)
    assert found.error_class is ErrorClass.UNREADABLE


@given(
    almost(
        "key metadata response error status code message candidates content parts text thought finishReason "
        "promptFeedback blockReason usageMetadata promptTokenCount thoughtsTokenCount cachedContentTokenCount",
        "STOP SAFETY 12 RESOURCE_EXHAUSTED x",
    )
)
def test_decode_never_raises_anything_else(line: bytes) -> None:
    claim_decode_is_total(OFFLINE, line)
