"""Rows of Gemini's batch mode, in the camelCase REST form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.dialect import Rejection, Row
from layton_batch.sandbox.engine.store import BatchRefusal, Outcome, SandboxBatch, new_id
from layton_batch.sandbox.wire.request_checks import (
    as_count,
    as_list,
    as_object,
    as_text,
    image_bytes,
    one_of,
    temperature,
)

_REQUEST = frozenset(
    [
        "contents",
        "systemInstruction",
        "generationConfig",
        "safetySettings",
        "tools",
        "toolConfig",
        "cachedContent",
        "model",
        "labels",
        "serviceTier",
    ]
)
_GENERATION = frozenset(
    [
        "stopSequences",
        "responseMimeType",
        "responseSchema",
        "responseJsonSchema",
        "responseModalities",
        "candidateCount",
        "maxOutputTokens",
        "temperature",
        "topP",
        "topK",
        "seed",
        "presencePenalty",
        "frequencyPenalty",
        "responseLogprobs",
        "logprobs",
        "enableEnhancedCivicAnswers",
        "speechConfig",
        "thinkingConfig",
        "imageConfig",
        "mediaResolution",
    ]
)
_THINKING = frozenset({"thinkingLevel", "thinkingBudget", "includeThoughts"})
_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class GeminiRows:
    """Good and failed rows share one file; an expired or cancelled job has none."""

    provider = "gemini"
    error_file = False
    early_output = False
    partial = False

    def check(self, batch: SandboxBatch, lines: Iterator[bytes], size: int) -> tuple[int, str, BatchRefusal | None]:
        """Every row was checked when the batch was created."""
        return batch.rows, "", None

    def key(self, row: Row) -> str:
        return str(row["key"])

    def question(self, row: Row, batch: SandboxBatch) -> Question:
        request = as_object(row["request"], "request")
        _known(request, _REQUEST, "request")
        text, images = _contents(request.get("contents"))
        config = as_object(request.get("generationConfig") or {}, "generationConfig")
        _known(config, _GENERATION, "generationConfig")
        temperature(config, 2.0)
        limit = config.get("maxOutputTokens")
        return Question(
            provider=self.provider,
            model=batch.model,
            system=_system(request.get("systemInstruction")),
            text=text,
            images=images,
            schema=_schema(config),
            reasoning=_reasoning(config),
            max_output_tokens=None if limit is None else as_count(limit, "maxOutputTokens"),
            custom_id=self.key(row),
        )

    def success(self, row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
        return {"key": question.custom_id, "response": _response(row, question, reply)}

    def failure(self, key: str, rejection: Rejection) -> dict[str, object]:
        return {"key": key, "error": {"code": rejection.status, "message": rejection.message}}

    def unfinished(self, key: str, outcome: Outcome) -> dict[str, object] | None:
        return None

    def output_ids(self) -> tuple[str, str]:
        return new_id("files/batch-", 18), new_id("files/unused-", 18)


def error_body(rejection: Rejection) -> dict[str, object]:
    """Google's error form for calls."""
    own = rejection.code if rejection.code is not None and rejection.code.isupper() else None
    status = own or _STATUS.get(rejection.status, "INTERNAL" if rejection.status >= 500 else "FAILED_PRECONDITION")
    return {"error": {"code": rejection.status, "message": rejection.message, "status": status}}


def _known(body: Mapping[str, object], names: frozenset[str], where: str) -> None:
    for name in body:
        if name not in names:
            raise Rejection(
                400, f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}': Cannot find field."
            )


def _system(value: object) -> str:
    if value is None:
        return ""
    parts = _parts(as_object(value, "systemInstruction"), "systemInstruction")
    return "\n".join(part for part in parts if isinstance(part, str))


def _contents(value: object) -> tuple[str, tuple[bytes, ...]]:
    contents = as_list(value, "contents")
    if not contents:
        raise Rejection(400, "contents is not specified")
    text: list[str] = []
    images: list[bytes] = []
    for index, entry in enumerate(contents):
        content = as_object(entry, f"contents[{index}]")
        role = one_of(content.get("role", "user"), f"contents[{index}].role", ("user", "model"))
        for part in _parts(content, f"contents[{index}]"):
            if isinstance(part, bytes):
                images.append(part)
            elif role == "user":
                text.append(part)
    return "\n".join(text), tuple(images)


def _parts(content: Mapping[str, object], field: str) -> Iterator[str | bytes]:
    _known(content, frozenset({"role", "parts"}), field)
    for index, entry in enumerate(as_list(content.get("parts"), f"{field}.parts")):
        where = f"{field}.parts[{index}]"
        part = as_object(entry, where)
        _known(part, frozenset({"text", "inlineData", "thought", "thoughtSignature", "mediaResolution"}), where)
        if "inlineData" in part:
            blob = as_object(part["inlineData"], f"{where}.inlineData")
            _known(blob, frozenset({"mimeType", "data", "displayName"}), f"{where}.inlineData")
            yield image_bytes(blob.get("data"), blob.get("mimeType"), f"{where}.inlineData")
        else:
            yield as_text(part.get("text"), f"{where}.text")


def _schema(config: Mapping[str, object]) -> Mapping[str, object] | None:
    fields = [name for name in ("responseJsonSchema", "responseSchema") if config.get(name) is not None]
    if not fields:
        return None
    if len(fields) > 1:
        raise Rejection(400, "responseSchema and responseJsonSchema cannot both be set")
    if config.get("responseMimeType") != "application/json":
        raise Rejection(400, f"{fields[0]} needs responseMimeType application/json")
    schema = as_object(config[fields[0]], fields[0])
    if fields[0] == "responseSchema" and "additionalProperties" in schema:
        raise Rejection(400, "Invalid JSON payload received. Unknown name \"additionalProperties\" at 'responseSchema'")
    return schema


def _reasoning(config: Mapping[str, object]) -> str | int | None:
    if config.get("thinkingConfig") is None:
        return None
    thinking = as_object(config["thinkingConfig"], "thinkingConfig")
    _known(thinking, _THINKING, "thinkingConfig")
    level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if level is not None and budget is not None:
        raise Rejection(400, "thinkingLevel and thinkingBudget cannot both be set")
    if level is not None:
        return one_of(level, "thinkingLevel", _LEVELS).lower()
    return None if budget is None else as_count(budget, "thinkingBudget", -1)


def _response(row: Row, question: Question, reply: ModelReply) -> dict[str, object]:
    response: dict[str, object] = {
        "usageMetadata": _usage(reply),
        "modelVersion": question.model,
        "responseId": new_id(""),
    }
    if reply.finish == "refusal" and not reply.output_tokens:
        return {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **response}
    parts: list[dict[str, object]] = []
    if _shows_thoughts(row) and reply.reasoning_tokens:
        parts.append({"text": f"(reasoning of {reply.reasoning_tokens} tokens)", "thought": True})
    if reply.text:
        parts.append({"text": reply.text})
    finish = {"length": "MAX_TOKENS", "refusal": "SAFETY"}.get(reply.finish, "STOP")
    content: dict[str, object] = {"role": "model", "parts": parts} if parts else {"role": "model"}
    return {"candidates": [{"content": content, "finishReason": finish, "index": 0}], **response}


def _shows_thoughts(row: Row) -> bool:
    config = as_object(as_object(row["request"], "request").get("generationConfig") or {}, "generationConfig")
    return bool(as_object(config.get("thinkingConfig") or {}, "thinkingConfig").get("includeThoughts"))


def _usage(reply: ModelReply) -> dict[str, int]:
    """Thoughts are counted apart from the candidates; zero counts are left out, as proto JSON does."""
    counts = {
        "promptTokenCount": reply.input_tokens,
        "cachedContentTokenCount": reply.cached_input_tokens,
        "candidatesTokenCount": reply.output_tokens - reply.reasoning_tokens,
        "thoughtsTokenCount": reply.reasoning_tokens,
        "totalTokenCount": reply.input_tokens + reply.output_tokens,
    }
    return {name: count for name, count in counts.items() if count}
