"""Rows of the OpenAI-shaped batch APIs: OpenAI itself, Groq and Doubleword differ only in a `DialectRules`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import orjson

from layton_batch.sandbox.answerers.questions import CachedPrefix, ModelReply, Question
from layton_batch.sandbox.answerers.reply_forms import text_tokens
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
from layton_batch.sandbox.wire.responses_rows import response_body, responses_question

_OPENAI_CHAT = frozenset(
    [
        "audio",
        "function_call",
        "functions",
        "logit_bias",
        "max_completion_tokens",
        "metadata",
        "modalities",
        "moderation",
        "parallel_tool_calls",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "seed",
        "service_tier",
        "store",
        "stream_options",
        "user",
        "verbosity",
        "web_search_options",
    ]
)
_GROQ_CHAT = frozenset(
    [
        "citation_options",
        "compound_custom",
        "disable_tool_validation",
        "documents",
        "exclude_domains",
        "function_call",
        "functions",
        "include_domains",
        "include_reasoning",
        "logit_bias",
        "max_completion_tokens",
        "metadata",
        "parallel_tool_calls",
        "reasoning_format",
        "search_settings",
        "seed",
        "service_tier",
        "store",
        "user",
    ]
)
_VLLM_CHAT = _OPENAI_CHAT | frozenset(["top_k", "min_p", "repetition_penalty", "chat_template_kwargs"])
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_LAPSED = {
    "expired": ("batch_expired", "This request could not be executed before the completion window expired."),
    "cancelled": ("batch_cancelled", "This request was not executed because the batch was cancelled."),
}


@dataclass(frozen=True, slots=True)
class DialectRules:
    """Differences of one OpenAI-shaped provider."""

    provider: str
    prefix: str
    paths: str
    chat: ChatRules
    endpoints: tuple[str, ...]
    windows: tuple[str, ...]
    file_bytes: int
    line_bytes: int | None = None
    rows: int = 50_000
    one_model: bool = True
    key_length: int | None = None
    early_output: bool = False
    bare_errors: bool = False
    usage: bool = False


OPENAI = DialectRules(
    provider="openai",
    prefix="/openai",
    paths="/v1",
    chat=ChatRules("openai", _OPENAI_CHAT, _EFFORTS, refusals=True),
    endpoints=("/v1/chat/completions", "/v1/responses"),
    windows=("24h",),
    file_bytes=200_000_000,
    usage=True,
)
GROQ = DialectRules(
    provider="groq",
    prefix="/groq",
    paths="/openai/v1",
    chat=ChatRules("groq", _GROQ_CHAT, ("none", "default", "low", "medium", "high")),
    endpoints=("/v1/chat/completions",),
    windows=("24h", "48h", "72h", "96h", "120h", "144h", "168h", *(f"{days}d" for days in range(1, 8))),
    file_bytes=100_000_000,
    one_model=False,
    bare_errors=True,
)
DOUBLEWORD = DialectRules(
    provider="doubleword",
    prefix="/doubleword",
    paths="/v1",
    chat=ChatRules("doubleword", _VLLM_CHAT, _EFFORTS, refusals=True),
    endpoints=("/v1/chat/completions",),
    windows=("1h", "24h"),
    file_bytes=100_000_000,
    line_bytes=10_485_760,
    key_length=64,
    early_output=True,
)


_LEAST_CACHED, _CACHE_STEP = 1024, 128
"""Tokens from which OpenAI keeps a prompt's begin for the next one without being asked, and in which steps it bills
what was read again. Nobody else of this form states a cached price for batches."""


class _Refused(Exception):
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


class OpenAIRows:
    """The dialect of one flavour."""

    error_file = True
    partial = True

    def __init__(self, flavour: DialectRules, limits: SandboxLimits) -> None:
        self.flavour = flavour
        self.provider = flavour.provider
        self.early_output = flavour.early_output
        self._rows = limits.rows or flavour.rows
        self._bytes = limits.file_bytes or flavour.file_bytes
        self._line_bytes = limits.line_bytes or flavour.line_bytes

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """The first thing wrong with the file fails the batch: one entry is what has been seen in `errors.data`."""
        number = 0
        keys: set[str] = set()
        models: set[str] = set()
        try:
            self._bounds(size, number)
            for number, line in enumerate(lines, 1):
                self._bounds(size, number)
                self._row_size(line)
                self._line(batch, line, keys, models)
            _not_empty(number)
        except _Refused as refused:
            return 0, "", BatchRefusal(refused.code, str(refused), number or None, refused.param)
        return number, models.pop() if len(models) == 1 else "", None

    def _bounds(self, size: int, number: int) -> None:
        if size > self._bytes:
            raise _Refused("invalid_request", f"The file has {size} bytes; a batch may have {self._bytes}.")
        if number > self._rows:
            raise _Refused("invalid_request", f"The file has more than the {self._rows} requests a batch may have.")

    def _row_size(self, line: bytes) -> None:
        if self._line_bytes is not None and len(line) > self._line_bytes:
            message = f"This line has {len(line)} bytes; a request may have {self._line_bytes}."
            raise _Refused("invalid_request", message)

    def _line(self, batch: SandboxBatch, line: bytes, keys: set[str], models: set[str]) -> None:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise _Refused("invalid_json_line", f"This line is not parseable as valid JSON: {error}") from error
        if not isinstance(row, dict):
            raise _Refused("invalid_json_line", "This line is not a JSON object.")
        for name, kind in (("custom_id", str), ("method", str), ("url", str), ("body", dict)):
            if not isinstance(row.get(name), kind) or not row[name]:
                raise _Refused("missing_required_parameter", f"Missing required parameter: '{name}'.", name)
        self._ids(row["custom_id"], keys)
        if row["method"] != "POST" or row["url"] != batch.endpoint:
            message = f"{row['method']} {row['url']} does not match the batch endpoint POST {batch.endpoint}."
            raise _Refused("invalid_url", message, "url")
        model = row["body"].get("model")
        if not isinstance(model, str) or not model:
            raise _Refused("missing_required_parameter", "Missing required parameter: 'body.model'.", "body.model")
        models.add(model)
        if self.flavour.one_model and len(models) > 1:
            raise _Refused(
                "mismatched_model", f"All requests of a batch must name one model, not {sorted(models)}.", "body.model"
            )
        if row["body"].get("stream"):
            raise _Refused("streaming_unsupported", "Streaming is not supported in a batch.", "body.stream")

    def _ids(self, key: str, keys: set[str]) -> None:
        longest = self.flavour.key_length
        if longest is not None and len(key) > longest:
            raise _Refused("invalid_request", f"custom_id {key!r} is longer than {longest} characters.", "custom_id")
        if key in keys:
            raise _Refused(
                "duplicate_custom_id", f"The custom_id {key!r} is used more than once in this file.", "custom_id"
            )
        keys.add(key)

    def key(self, row: Row) -> str:
        return str(row["custom_id"])

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        body = as_object(row["body"], "body")
        if batch.endpoint == "/v1/responses":
            question = responses_question(body, self.provider, self.flavour.chat.efforts, self.key(row))
        else:
            question = chat_question(body, self.flavour.chat, self.key(row))
        if self.provider != "openai" or text_tokens(question.system) < _LEAST_CACHED:
            return question
        return replace(question, prefix=CachedPrefix(question.system, _CACHE_STEP))

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        if row["url"] == "/v1/responses":
            return _line(question.custom_id, 200, response_body(question, reply))
        usage = {
            **chat_usage(reply),
            "prompt_tokens_details": {"cached_tokens": reply.cached_input_tokens},
            "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
        }
        return _line(
            question.custom_id, 200, completion(question, self._message(row, reply), finish_word(reply), usage)
        )

    def _message(self, row: Row, reply: ModelReply) -> dict[str, object]:
        body = as_object(row["body"], "body")
        message: dict[str, object] = {"content": reply.text}
        if self.flavour.chat.refusals:
            refused = reply.finish == "refusal"
            message = {"content": None if refused else reply.text, "refusal": reply.text if refused else None}
        shown = body.get("reasoning_format") == "parsed" or body.get("include_reasoning") is True
        if shown and reply.reasoning_tokens:
            message["reasoning"] = thinking_text(reply)
        return message

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return _line(key, rejection.status, error_body(rejection))

    def unfinished(self, key: str, outcome: Outcome) -> dict[str, object] | None:
        if outcome not in _LAPSED:
            return None
        code, message = _LAPSED[outcome]
        return {
            "id": new_id("batch_req_"),
            "custom_id": key,
            "response": None,
            "error": {"code": code, "message": message},
        }

    def output_ids(self) -> tuple[str, str]:
        prefix = "file_" if self.provider == "groq" else "file-"
        return new_id(prefix), new_id(prefix)


def _not_empty(number: int) -> None:
    if not number:
        raise _Refused("empty_file", "The batch input file is empty.")


def error_body(rejection: Rejection) -> dict[str, object]:
    """The OpenAI error form, for calls and for rows."""
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(rejection.status, "server_error" if rejection.status >= 500 else "invalid_request_error")
    error = {"message": rejection.message, "type": kind, "param": rejection.param, "code": rejection.code}
    return {"error": error}


def _line(key: str, status: int, body: Mapping[str, object]) -> dict[str, object]:
    response = {"status_code": status, "request_id": new_id("req_"), "body": body}
    return {"id": new_id("batch_req_"), "custom_id": key, "response": response, "error": None}
