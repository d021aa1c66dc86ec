"""OpenAI's responses form: models without chat completions, by its API reference."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from layton_batch.providers.openai import OpenAI
from layton_batch.providers.request_line import request_line
from layton_batch.records import Image, JsonValue, ModelSpec, Prompt, Reasoning, Request, ResponseSchema, Usage
from layton_batch.runs.status import RunState
from layton_batch.states import ErrorClass, FinishReason, RequestOutcome
from tests.support.lab import MODELS, lab, manifest_text

SCHEMA = ResponseSchema("answer", {"type": "object", "properties": {"x": {"type": "string"}}})
PRO = ModelSpec("pro", "openai", "gpt-5.2-pro", "openai", 9000, Reasoning("high"))


def test_a_line_is_of_the_responses_form() -> None:
    prompt = Prompt("Be brief.", ("What is it?", Image("image/png", "QUJD")), SCHEMA)
    line = orjson.loads(request_line(OpenAI(None), Request("c1", "i1", PRO, prompt)))
    assert line == {
        "custom_id": "c1",
        "method": "POST",
        "url": "/v1/responses",
        "body": {
            "model": "gpt-5.2-pro",
            "instructions": "Be brief.",
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is it?"},
                        {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
                    ],
                }
            ],
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "answer",
                    "strict": True,
                    "schema": {
                        "type": "object",
                        "properties": {"x": {"type": "string"}},
                        "required": ["x"],
                        "additionalProperties": False,
                    },
                }
            },
            "reasoning": {"effort": "high"},
            "max_output_tokens": 9000,
        },
    }


def reply(**changes: JsonValue) -> bytes:
    message: JsonValue = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "42"}]}
    body: dict[str, JsonValue] = {
        "object": "response",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5.2-pro-2025-12-11",
        "output": [{"type": "reasoning", "summary": []}, message],
        "usage": {
            "input_tokens": 30,
            "input_tokens_details": {"cached_tokens": 10},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 15},
            "total_tokens": 50,
        },
    }
    return orjson.dumps({"custom_id": "c1", "response": {"status_code": 200, "body": body | changes}, "error": None})


def test_a_reply_is_its_messages_text_with_its_tokens() -> None:
    found = OpenAI(None).decode(reply())
    assert (found.outcome, found.text, found.finish_reason) == (RequestOutcome.SUCCEEDED, "42", FinishReason.STOP)
    assert found.usage == Usage(30, 10, 20, 15)
    assert found.served_model == "gpt-5.2-pro-2025-12-11"


@pytest.mark.parametrize(
    ("changes", "finish", "text"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, FinishReason.LENGTH, "42"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []},
         FinishReason.LENGTH, None),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": []},
         FinishReason.REFUSAL, None),
        ({"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]},
         FinishReason.REFUSAL, None),
        ({"output": []}, FinishReason.OTHER, None),
        ({"output": "nonsense", "usage": None}, FinishReason.OTHER, None),
    ],
)  # fmt: skip
def test_what_came_was_paid_for_however_it_ended(
    changes: dict[str, JsonValue], finish: FinishReason, text: str | None
) -> None:
    found = OpenAI(None).decode(reply(**changes))
    assert (found.outcome, found.finish_reason, found.text) == (RequestOutcome.SUCCEEDED, finish, text)


def test_a_response_that_failed_without_a_word_is_an_error_by_its_code() -> None:
    error: JsonValue = {"code": "rate_limit_exceeded", "message": "slow down"}
    found = OpenAI(None).decode(reply(status="failed", error=error, output=[]))
    assert (found.outcome, found.error_class) == (RequestOutcome.ERRORED, ErrorClass.RATE_LIMITED)


@pytest.mark.parametrize("name", ["input", "instructions"])
def test_what_the_program_writes_is_not_overridden_by_params(name: str) -> None:
    spec = ModelSpec("pro", "openai", "gpt-5.2-pro", "openai", params={name: "x"})
    assert OpenAI(None).check(spec) == [f"params.{name} cannot be overridden: leave it out"]


def test_a_run_asks_such_a_model_over_responses_and_collects_every_answer(tmp_path: Path) -> None:
    text = manifest_text().replace(f'model = "{MODELS["openai"]}"\nmax', 'model = "gpt-5.2-pro"\nmax')
    with lab(tmp_path) as bench:
        status = bench.finish(text)
        assert status.state is RunState.DONE
        assert status.unanswered == 0
        assert {row.model for row in bench.server.ledger().rows} == {"gpt-5.2-pro", "tern-3-referee"}
        assert set(bench.table(text, "responses").filter(served_model="gpt-5.2-pro")["outcome"]) == {"succeeded"}
