"""Rows of Together's batches."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from layton_batch.sandbox.chat_rows import ChatRules, chat_question, chat_usage, completion, finish_word, thinking_text
from layton_batch.sandbox.checks import as_object
from layton_batch.sandbox.configuration import Limits
from layton_batch.sandbox.dialect import Row
from layton_batch.sandbox.objects import Batch, Outcome, Problem
from layton_batch.sandbox.questions import Question, Reply
from layton_batch.sandbox.rejection import Rejection
from layton_batch.sandbox.store import new_id

_PARAMETERS = frozenset(
    [
        "chat_template_kwargs",
        "compliance",
        "context_length_exceeded_behavior",
        "echo",
        "function_call",
        "logit_bias",
        "min_p",
        "reasoning",
        "repetition_penalty",
        "safety_model",
        "seed",
        "top_k",
    ]
)
_RULES = ChatRules("together", _PARAMETERS, ("low", "medium", "high"), strict_rules=False)


class TogetherRows:
    """Failed rows go to a file of their own; rows that were never run are in neither."""

    provider = "together"
    error_file = True
    early_output = False
    partial = True

    def __init__(self, limits: Limits) -> None:
        self._rows = limits.rows or 50_000
        self._bytes = limits.file_bytes or 100_000_000
        self._line_bytes = limits.line_bytes or 10_000_000

    def check(self, batch: Batch, lines: Iterator[bytes], size: int) -> tuple[int, str, Problem | None]:
        models: set[str] = set()
        number = 0
        try:
            self._bounds(size, number)
            for number, line in enumerate(lines, 1):
                self._bounds(size, number)
                models.add(self._model(line))
            _not_empty(number)
        except Rejection as refused:
            return 0, "", Problem("validation", f"error validating file at line {number}: {refused.message}", number)
        return number, models.pop() if len(models) == 1 else "", None

    def _bounds(self, size: int, number: int) -> None:
        if size > self._bytes:
            raise Rejection(400, f"file has {size} bytes, the limit is {self._bytes}")
        if number > self._rows:
            raise Rejection(400, f"file has more than {self._rows} requests")

    def _model(self, line: bytes) -> str:
        if len(line) > self._line_bytes:
            raise Rejection(400, f"error reading file: a line has more than {self._line_bytes} bytes")
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Rejection(400, f"invalid JSON: {error}") from error
        if (
            not isinstance(row, dict)
            or not isinstance(row.get("custom_id"), str)
            or not isinstance(row.get("body"), dict)
        ):
            raise Rejection(400, "a line is an object with a string custom_id and an object body")
        model = row["body"].get("model")
        if not isinstance(model, str) or not model:
            raise Rejection(400, "body.model is required")
        return model

    def key(self, row: Row) -> str:
        return str(row["custom_id"])

    def question(self, row: Row, batch: Batch) -> Question:
        return chat_question(as_object(row["body"], "body"), _RULES, self.key(row))

    def success(self, row: Row, question: Question, reply: Reply) -> dict[str, object]:
        message: dict[str, object] = {"content": reply.text, "tool_calls": []}
        if reply.reasoning_tokens:
            message["reasoning"] = thinking_text(reply)
        # Where the reasoning count is, and the word for an ordinary end, depend on the model; both forms are shown.
        llama = question.model.startswith("meta-llama/")
        usage = chat_usage(reply)
        if llama:
            usage["completion_tokens_details"] = {"reasoning_tokens": reply.reasoning_tokens}
        else:
            usage["reasoning_tokens"] = reply.reasoning_tokens
        if reply.cached_input_tokens:
            usage["prompt_tokens_details"] = {"cached_tokens": reply.cached_input_tokens}
        finish = finish_word(reply)
        body = completion(question, message, "eos" if llama and finish == "stop" else finish, usage)
        return {"id": new_id("br_"), "custom_id": question.custom_id, "response": {"status_code": 200, "body": body}}

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        code = rejection.code if rejection.code in ("batch_server_error", "batch_client_error") else None
        code = code or ("batch_server_error" if rejection.status >= 500 else "batch_client_error")
        return {"id": new_id("br_"), "custom_id": key, "error": {"code": code, "message": rejection.message}}

    def unfinished(self, key: str, outcome: Outcome) -> dict[str, object] | None:
        return None

    def output_ids(self) -> tuple[str, str]:
        return new_id("file-"), new_id("file-")


def _not_empty(number: int) -> None:
    if not number:
        raise Rejection(400, "file has no requests")
