"""Documents of the providers in short: batches, jobs, lists and result rows, with what a test changes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from layton_batch.records import JsonValue, Response, Snapshot, Usage

Json = dict[str, JsonValue]
NOW = 1_800_000_000.0
"""When the submission of the tests was intended: 2027-01-15T08:00:00Z."""
CHAT = ("openai", "mistral", "together", "groq", "doubleword", "openrouter", "xai")
"""Providers whose replies are chat completions."""
TOKENS: Json = {"prompt_tokens": 10, "completion_tokens": 5}


def chat(content: JsonValue = "4", finish: JsonValue = "stop", usage: JsonValue = None, **message: JsonValue) -> Json:
    """Return the body of a chat completion."""
    said: Json = {"role": "assistant", "content": content, **message}
    return {"model": "m-1", "choices": [{"index": 0, "message": said, "finish_reason": finish}], "usage": usage}


def file_row(response: JsonValue, error: JsonValue = None) -> Json:
    """Return a row of a file of results in OpenAI's form."""
    return {"id": "r-1", "custom_id": "c-1", "response": response, "error": error}


def replied(provider: str, body: JsonValue) -> Json:
    """Return the row with which the provider gives this body as the reply to request c-1."""
    if provider == "anthropic":
        return {"custom_id": "c-1", "result": {"type": "succeeded", "message": body}}
    if provider in ("gemini", "vertex"):
        return {"key": "c-1", "status": "", "response": body}
    if provider == "xai":
        return {"batch_request_id": "c-1", "batch_result": {"response": {"chat_get_completion": body}}}
    return file_row({"status_code": 200, "request_id": "q", "body": body})


def claude(text: str = "4", stop: JsonValue = "end_turn", **more: JsonValue) -> Json:
    """Return a message of Anthropic."""
    usage: Json = {"input_tokens": 10, "output_tokens": 5}
    return {"content": [{"type": "text", "text": text}], "stop_reason": stop, "usage": usage, **more}


def gemini_reply(text: str = "4", finish: str = "STOP", **more: JsonValue) -> Json:
    """Return a response of Gemini."""
    usage: Json = {"promptTokenCount": 10, "candidatesTokenCount": 5}
    candidate: Json = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": finish}
    return {"candidates": [candidate], "usageMetadata": usage, **more}


def openai_batch(status: str = "in_progress", **changes: JsonValue) -> Json:
    """Return a batch of OpenAI, or of whoever has its form."""
    return {"id": "batch_1", "created_at": NOW, "status": status, "metadata": None, **changes}


def anthropic_batch(status: str = "in_progress", made: str = "2027-01-15T08:00:10Z", **changes: JsonValue) -> Json:
    """Return a message batch of one request."""
    counts: Json = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    counts["succeeded" if status == "ended" else "processing"] = 1
    return {
        "id": "msgbatch_1", "type": "message_batch", "processing_status": status, "request_counts": counts,
        "created_at": made, "expires_at": "2027-01-16T08:00:00Z", "results_url": None, **changes,
    }  # fmt: skip


def gemini_batch(
    state: str = "BATCH_STATE_RUNNING", name: str = "batches/b-1", tag: str = "tag-b1", **more: JsonValue
) -> Json:
    """Return an operation of Gemini's batch API, of four requests."""
    stats: Json = {"requestCount": "4", "successfulRequestCount": "3", "failedRequestCount": "1"}
    metadata: Json = {"displayName": tag, "state": state, "createTime": "2027-01-15T08:00:01.5Z", "batchStats": stats}
    return {"name": name, "metadata": metadata, **more}


def mistral_job(status: str = "RUNNING", **changes: JsonValue) -> Json:
    """Return a job of Mistral, of four requests."""
    return {
        "id": "job-1", "object": "batch", "input_files": ["file-in"], "endpoint": "/v1/chat/completions",
        "model": "the-model", "agent_id": None, "metadata": {"layton_batch": "tag-b1"}, "status": status, "errors": [],
        "created_at": int(NOW) + 1, "started_at": None, "completed_at": None, "total_requests": 4,
        "completed_requests": 4, "succeeded_requests": 3, "failed_requests": 1, "output_file": None,
        "error_file": None, **changes,
    }  # fmt: skip


ODD_JOBS: dict[str, Json] = {
    "no errors": {"errors": None},
    "errors as texts": {"errors": ["boom", None, 5]},
    "an inline job": {"input_files": None, "requests": [{"custom_id": "a"}]},
    "a time with a fraction": {"created_at": NOW + 1.5},
    "a time in words": {"created_at": "2027-01-15T08:00:01Z"},
    "no time": {"created_at": None},
    "no counts": dict.fromkeys(("total_requests", "succeeded_requests", "failed_requests", "completed_requests")),
    "another kind": {"object": "batch.job", "endpoint": None, "model": None},
    "nested metadata": {"metadata": {"layton_batch": "tag-b1", "a": {"b": [1]}}},
    "more than is documented": {"priority": {"of": ["a", 1]}, "outputs": [7]},
}
"""What jobs of Mistral, ours or others', may look like that is no reason to know nothing of them."""


def openrouter_batch(status: str = "completed", **changes: JsonValue) -> Json:
    """Return a batch of one request, as the quickstart shows one."""
    counts: Json = {"total": 1, "completed": 1 if status == "completed" else 0, "failed": 0}
    return {
        "id": "batch_1", "object": "batch", "endpoint": "/v1/chat/completions", "model": "the-model", "status": status,
        "created_at": NOW, "request_counts": counts, "usage": None, "results": None, "error": None, **changes,
    }  # fmt: skip


_SHORT = {"raw": "raw_finish_reason", "model": "served_model", "code": "error_code", "status": "provider_status"}


def facts(record: Response | Snapshot) -> Mapping[str, object]:
    """Return the fields of a response, with the counts of its usage, or of a reading, by short names as well."""
    found: dict[str, object] = {one.name: getattr(record, one.name) for one in fields(record)}
    if isinstance(record, Response):
        found |= {one.name: getattr(record.usage, one.name) for one in fields(Usage)}
        found |= {"usage_known": record.usage.is_known, "message": record.error_message}
    return found | {short: found[name] for short, name in _SHORT.items() if name in found}


def picked(record: Response | Snapshot, names: Mapping[str, object]) -> Mapping[str, object]:
    """Return only the facts of these names."""
    found = facts(record)
    return {name: found[name] for name in names}
