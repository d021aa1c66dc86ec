"""Rows of OpenRouter's batches: chat completions without a method or an address, in text alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import orjson

from layton_batch.sandbox.answerers.questions import ModelReply, Question
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
from layton_batch.sandbox.wire.request_checks import as_count, as_object, no_strangers, one_of

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_PARAMETERS = frozenset(
    [
        "include_reasoning",
        "logit_bias",
        "max_completion_tokens",
        "metadata",
        "min_p",
        "parallel_tool_calls",
        "prediction",
        "reasoning",
        "repetition_penalty",
        "seed",
        "structured_outputs",
        "top_a",
        "top_k",
        "user",
        "verbosity",
    ]
)
RULES = ChatRules("openrouter", _PARAMETERS, EFFORTS, refusals=True)


class OpenRouterRows:
    """One array of results holds all rows; a batch that does not complete shows none."""

    provider = "openrouter"
    error_file = False
    early_output = False
    partial = False

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """Every request is checked after the batch was accepted; the first one that is refused fails the batch."""
        keys: set[str] = set()
        formats: set[bytes] = set()
        for line in lines:
            row = orjson.loads(line)
            key = self.key(row)
            if key in keys:
                return 0, "", BatchRefusal("invalid_request_error", f"custom_id {key!r} is used more than once")
            keys.add(key)
            try:
                question = self.question(row, batch)
            except Rejection as rejection:
                return 0, "", BatchRefusal("invalid_request_error", f"Request {key!r}: {rejection.message}")
            if question.images:
                message = f"Request {key!r}: image parts must be public http(s) URLs; data: URIs are rejected"
                return 0, "", BatchRefusal("invalid_request_error", message)
            formats.add(orjson.dumps(row["body"].get("response_format"), option=orjson.OPT_SORT_KEYS))
            if batch.model.startswith("google/") and len(formats) > 1:
                message = f"Request {key!r}: its response_format differs from that of the requests before it"
                return 0, "", BatchRefusal("invalid_request_error", message)
        return len(keys), batch.model, None

    def key(self, row: Row) -> str:
        return str(row.get("custom_id") or "")

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        body = as_object(row.get("body"), "body")
        question = chat_question(body, RULES, self.key(row), batch.model)
        wanted = body.get("reasoning")
        return question if wanted is None else replace(question, reasoning=_reasoning(wanted))

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        refused = reply.finish == "refusal"
        message: dict[str, object] = {
            "content": None if refused else reply.text,
            "refusal": reply.text if refused else None,
            "reasoning": thinking_text(reply) if reply.reasoning_tokens else None,
        }
        usage = {
            **chat_usage(reply),
            "prompt_tokens_details": {"cached_tokens": reply.cached_input_tokens},
            "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
        }
        body = {**completion(question, message, finish_word(reply), usage), "id": new_id("gen-batch-")}
        response = {"status_code": 200, "request_id": new_id("request_"), "body": body}
        return _line(question.custom_id, response, None)

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        kind = rejection.code or ("server_error" if rejection.status >= 500 else "invalid_request_error")
        return _line(key, None, {"type": kind, "message": rejection.message, "param": rejection.param})

    def unfinished(self, key: str, outcome: Outcome) -> dict[str, object] | None:
        return None

    def output_ids(self) -> tuple[str, str]:
        return new_id("results_"), new_id("errors_")


def error_body(rejection: Rejection) -> dict[str, object]:
    """The form of a refused call: its code is the HTTP status."""
    return {"error": {"code": rejection.status, "message": rejection.message}}


def _reasoning(value: object) -> str | int | None:
    wanted = as_object(value, "reasoning")
    no_strangers(wanted, frozenset({"effort", "max_tokens", "exclude", "enabled"}), "reasoning.")
    if "effort" in wanted and "max_tokens" in wanted:
        raise Rejection(400, "reasoning takes one of effort and max_tokens, not both", param="reasoning")
    if "max_tokens" in wanted:
        return as_count(wanted["max_tokens"], "reasoning.max_tokens")
    return one_of(wanted["effort"], "reasoning.effort", EFFORTS) if "effort" in wanted else None


def _line(key: str, response: Mapping[str, object] | None, error: Mapping[str, object] | None) -> dict[str, object]:
    return {"id": new_id("batch_req_"), "custom_id": key, "response": response, "error": error}
