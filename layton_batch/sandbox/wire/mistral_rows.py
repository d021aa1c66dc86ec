"""Rows of Mistral's batch jobs."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.configuration import SandboxLimits
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.store import BatchRefusal, Outcome, SandboxBatch, new_id
from layton_batch.sandbox.wire.chat_rows import (
    ChatRules,
    chat_question,
    chat_usage,
    completion,
    finish_word,
    thinking_text,
)
from layton_batch.sandbox.wire.request_checks import as_object

_PARAMETERS = frozenset(
    [
        "random_seed",
        "metadata",
        "min_tokens",
        "repetition_penalty",
        "top_k",
        "prompt_logprobs",
        "top_prompt_logprobs",
        "prediction",
        "parallel_tool_calls",
        "prompt_mode",
        "guardrails",
        "prompt_cache_key",
        "service_tier",
        "safe_prompt",
    ]
)
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
RULES = ChatRules(
    "mistral", _PARAMETERS, _EFFORTS, strict_rules=False, bare_image_urls=True, highest_temperature=1.5
)  # fmt: skip


class MistralRows:
    """Failed rows go to a file of their own; rows that were never run are in neither."""

    provider = "mistral"
    error_file = True
    early_output = False
    partial = True

    def __init__(self, limits: SandboxLimits) -> None:
        self._rows = limits.rows or 100_000

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """The upload checked the rows; the job only counts them."""
        rows = sum(1 for _ in lines)
        if rows > self._rows:
            return (
                0,
                "",
                BatchRefusal("too_many_requests", f"the job has {rows} requests, more than the {self._rows} allowed"),
            )
        return rows, batch.model, None

    def key(self, row: Row) -> str:
        return str(row.get("custom_id") or "")

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        body = as_object(row.get("body"), "body")
        named = body.get("model")
        if named not in (None, batch.model):
            raise Rejection(400, f"the job's model is {batch.model}, this row asks for {named}", code="invalid_model")
        return chat_question(body, RULES, self.key(row), batch.model)

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        content: object = reply.text
        if reply.reasoning_tokens and question.reasoning not in (None, "none"):
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": thinking_text(reply)}], "closed": True}
            content = [thought, {"type": "text", "text": reply.text}]
        usage = chat_usage(reply)
        if reply.cached_input_tokens:
            usage["prompt_tokens_details"] = {"cached_tokens": reply.cached_input_tokens}
        message = {"content": content, "tool_calls": None, "prefix": False}
        return _line(question.custom_id, 200, completion(question, message, finish_word(reply), usage))

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return _line(key, rejection.status, orjson.dumps(error_body(rejection)).decode())

    def unfinished(self, key: str, outcome: Outcome) -> dict[str, object] | None:
        return None

    def output_ids(self) -> tuple[str, str]:
        return new_uuid(), new_uuid()


def new_uuid() -> str:
    digits = new_id("", 16)
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def error_body(rejection: Rejection) -> dict[str, object]:
    """Mistral's error form: a list of details for 422, one message otherwise."""
    if rejection.status == 422:
        return {
            "detail": [
                {
                    "type": rejection.code or "value_error",
                    "loc": ["body", rejection.param or ""],
                    "msg": rejection.message,
                }
            ]
        }
    if rejection.status == 401:
        return {"detail": rejection.message}
    kind = "internal_server_error" if rejection.status >= 500 else "invalid_request_error"
    return {
        "object": "error",
        "message": rejection.message,
        "type": kind,
        "param": rejection.param,
        "code": rejection.code,
    }


def _line(key: str, status: int, body: object) -> dict[str, object]:
    response = {"status_code": status, "body": body}
    return {"id": new_id("batch-"), "custom_id": key or None, "response": response, "error": None}
