"""Lines and rows of Anthropic's batches as its documents write them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from layton_batch.errors import (
    ProviderReplyError,
)
from layton_batch.providers.anthropic import Anthropic
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

OFFLINE = Anthropic(None)
SCHEMA = ResponseSchema("grade", {"type": "object", "properties": {"score": {"type": "integer"}}})


def request(*parts: str | Image, system: str = "Grade strictly.", schema: bool = True, **spec: Any) -> Request:
    model = spec.pop("model", "claude-opus-4-5")
    asked = ModelSpec("shown", "anthropic", model, "anthropic", **spec)
    return Request("run7-0001", "item", asked, Prompt(system, parts or ("2+2?",), SCHEMA if schema else None))


def params(asked: Request) -> dict[str, Any]:
    line = json.loads(request_line(OFFLINE, asked))
    assert list(line) == ["custom_id", "params"]
    found: dict[str, Any] = line["params"]
    return found


# ---- lines


@pytest.mark.parametrize(
    ("model", "least"), [("claude-opus-5", 512), ("claude-opus-4-8", 1024), ("claude-opus-4-5-20251101", 4096)]
)
def test_a_system_text_that_the_models_cache_keeps_is_marked_for_it(model: str, least: int) -> None:
    text = "four" * least
    marked = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
    assert params(request(system=text, model=model))["system"] == marked
    assert params(request(system=text[1:], model=model))["system"] == text[1:]
    assert params(request(system=text, model="unknown-1"))["system"] == text


def test_a_line_is_what_the_documents_show() -> None:
    asked = request(
        "What is shown?",
        Image("image/jpeg", "/9j/4AAQ"),
        max_output_tokens=4096,
        reasoning=Reasoning(budget_tokens=2048),
    )
    assert json.loads(request_line(OFFLINE, asked)) == {
        "custom_id": "run7-0001",
        "params": {
            "model": "claude-opus-4-5",
            "max_tokens": 4096,
            "system": "Grade strictly.",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is shown?"},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQ"},
                        },
                    ],
                }
            ],
            "thinking": {"type": "enabled", "budget_tokens": 2048},
            "output_config": {
                "format": {
                    "type": "json_schema",
                    "schema": {
                        "type": "object",
                        "properties": {"score": {"type": "integer"}},
                        "required": ["score"],
                        "additionalProperties": False,
                    },
                }
            },
        },
    }


@pytest.mark.parametrize(
    ("reasoning", "thinking", "effort", "max_tokens"),
    [
        (Reasoning(), None, None, 16_000),
        (Reasoning(effort="none"), {"type": "disabled"}, None, 16_000),
        (Reasoning(effort="high"), None, "high", 16_000),
        (Reasoning(budget_tokens=32_000), {"type": "enabled", "budget_tokens": 32_000}, None, 40_000),
    ],
)
def test_reasoning_and_the_default_limit(
    reasoning: Reasoning, thinking: object, effort: object, max_tokens: int
) -> None:
    found = params(request(reasoning=reasoning, schema=False))
    assert found.get("thinking") == thinking
    assert found.get("output_config", {}).get("effort") == effort
    assert found["max_tokens"] == max_tokens


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-8", "claude-fable-5"])
def test_an_effort_of_claude_4_6_and_later_switches_thinking_on(model: str) -> None:
    found = params(request(model=model, reasoning=Reasoning(effort="xhigh"), schema=False))
    assert (found["thinking"], found["output_config"]) == ({"type": "adaptive"}, {"effort": "xhigh"})
    assert "thinking" not in params(request(model=model, schema=False))


@pytest.mark.parametrize("model", ["claude-opus-4-5-20251101", "claude-sonnet-4-5", "wagtail-5"])
def test_an_effort_of_an_older_or_unknown_model_is_sent_alone(model: str) -> None:
    found = params(request(model=model, reasoning=Reasoning(effort="high"), schema=False))
    assert (found.get("thinking"), found["output_config"]) == (None, {"effort": "high"})


def test_passthrough_params_win_and_merge_into_objects() -> None:
    found = params(request(params={"temperature": 0, "max_tokens": 7, "output_config": {"effort": "max"}}))
    assert (found["temperature"], found["max_tokens"]) == (0, 7)
    assert found["output_config"]["effort"] == "max"
    assert found["output_config"]["format"]["type"] == "json_schema"


def test_an_empty_system_text_and_empty_parts_are_left_out() -> None:
    found = params(request("", "x", system=""))
    assert "system" not in found
    assert found["messages"][0]["content"] == [{"type": "text", "text": "x"}]


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"reasoning": Reasoning(effort="minimal")}, "minimal"),
        ({"reasoning": Reasoning(budget_tokens=1023)}, "1024"),
        ({"reasoning": Reasoning(budget_tokens=4096), "max_output_tokens": 4096}, "below max_output_tokens"),
        ({"params": {"stream": True}}, "stream"),
    ],
)
def test_what_the_api_cannot_do_is_said(spec: dict[str, Any], word: str) -> None:
    problems = OFFLINE.check(request(**spec).model)
    assert len(problems) == 1
    assert word in problems[0]


def test_a_sound_spec_has_no_problems() -> None:
    assert OFFLINE.check(request(reasoning=Reasoning(budget_tokens=1024), max_output_tokens=1025).model) == []


# ---- rows


def row(result: JsonValue) -> bytes:
    return json.dumps({"custom_id": "run7-0001", "result": result}).encode()


def succeeded(**fields: JsonValue) -> bytes:
    message: dict[str, JsonValue] = {
        "model": "claude-opus-4-5-20251101",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "text", "text": '{"score"'},
            {"type": "text", "text": ": 3}"},
        ],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 200,
            "cache_read_input_tokens": 3000,
            "output_tokens": 50,
            "output_tokens_details": {"thinking_tokens": 40},
            "service_tier": "batch",
        },
    }
    return row({"type": "succeeded", "message": message | fields})


def test_a_succeeded_row_gives_text_and_whole_usage() -> None:
    assert OFFLINE.decode(succeeded()) == Response(
        "run7-0001",
        RequestOutcome.SUCCEEDED,
        text='{"score": 3}',
        finish_reason=FinishReason.STOP,
        raw_finish_reason="end_turn",
        usage=Usage(3210, 3000, 50, 40, 200),
        served_model="claude-opus-4-5-20251101",
    )


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("stop_sequence", FinishReason.STOP),
        ("pause_turn", FinishReason.OTHER),
        ("a new word", FinishReason.OTHER),
        (None, FinishReason.OTHER),
    ],
)
def test_stop_reasons(stop: str | None, finish: FinishReason) -> None:
    assert OFFLINE.decode(succeeded(stop_reason=stop)).finish_reason is finish


def test_a_refusal_says_why() -> None:
    found = OFFLINE.decode(succeeded(stop_reason="refusal", content=[], stop_details={"explanation": "not this"}))
    assert (found.outcome, found.finish_reason) == (RequestOutcome.SUCCEEDED, FinishReason.REFUSAL)
    assert (found.text, found.refusal) == (None, "not this")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("invalid_request_error", ErrorClass.INVALID_REQUEST),
        ("not_found_error", ErrorClass.INVALID_REQUEST),
        ("request_too_large", ErrorClass.TOO_LARGE),
        ("rate_limit_error", ErrorClass.RATE_LIMITED),
        ("overloaded_error", ErrorClass.PROVIDER_FAULT),
        ("api_error", ErrorClass.PROVIDER_FAULT),
        ("a_new_error", ErrorClass.PROVIDER_FAULT),
    ],
)
def test_errored_rows_are_classed(kind: str, expected: ErrorClass) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "why"}, "request_id": "r"}
    found = OFFLINE.decode(row({"type": "errored", "error": error}))
    assert (found.outcome, found.error_class) == (RequestOutcome.ERRORED, expected)
    assert (found.error_code, found.error_message) == (kind, "why")


@pytest.mark.parametrize(
    ("kind", "outcome"), [("canceled", RequestOutcome.CANCELLED), ("expired", RequestOutcome.EXPIRED)]
)
def test_rows_that_never_ran(kind: str, outcome: RequestOutcome) -> None:
    found = OFFLINE.decode(row({"type": kind}))
    assert (found.outcome, found.error_class) == (outcome, ErrorClass.NOT_EXECUTED)


@pytest.mark.parametrize("result", [None, {"type": "errand"}, {"type": 5}, []])
def test_rows_of_another_form_are_unreadable(result: JsonValue) -> None:
    found = OFFLINE.decode(row(result))
    assert (found.outcome, found.error_class) == (RequestOutcome.ERRORED, ErrorClass.UNREADABLE)
    assert "run7-0001" in str(found.error_message)


def test_a_line_without_a_custom_id_is_refused() -> None:
    with pytest.raises(ProviderReplyError, match="custom_id"):
        OFFLINE.decode(b'{"result": {"type": "expired"}}')


@pytest.mark.parametrize(("stop", "finish"), [("max_tokens", FinishReason.LENGTH), ("refusal", FinishReason.REFUSAL)])
def test_a_reply_that_says_why_there_is_no_text_is_not_malformed(stop: str, finish: FinishReason) -> None:
    found = OFFLINE.decode(succeeded(stop_reason=stop, content=None))
    assert (found.text, found.finish_reason, found.raw_finish_reason) == (None, finish, stop)


@given(
    almost(
        "custom_id result type message content text stop_reason stop_details usage input_tokens output_tokens "
        "output_tokens_details thinking_tokens error",
        "succeeded errored canceled expired text refusal x",
    )
)
def test_decode_never_raises_anything_else(line: bytes) -> None:
    claim_decode_is_total(OFFLINE, line)
