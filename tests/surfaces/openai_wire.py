"""OpenAI's files and batches, over a ledger of frozen replies."""

from __future__ import annotations

import email.policy
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from email.parser import BytesParser
from typing import Any

from tests.surfaces.frozen_replies import FrozenReply, Ledger, Reply


class OpenAIWire:
    """The calls below ``/v1``. A batch is carried out by its create; its end shows at the first look at it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._files: dict[str, dict[str, Any]] = {}
        self._batches: dict[str, dict[str, Any]] = {}
        self._ends: dict[str, dict[str, Any]] = {}

    def handle(self, method: str, parts: list[str], content_type: str, body: bytes) -> Reply | None:
        """Answer a call. None: the connection is closed without a reply. Raises LookupError for an unknown path."""
        match method, parts:
            case "POST", ["files"]:
                return 200, self._upload(content_type, body)
            case "GET", ["files"]:
                return 200, _page(map(_shown, reversed(self._files.values())))
            case "GET", ["files", name]:
                return 200, _shown(self._files[name])
            case "GET", ["files", name, "content"]:
                return 200, self._files[name]["bytes"]
            case "POST", ["batches"]:
                wanted = json.loads(body)
                model = self._rows(wanted)[0]["body"]["model"]
                return self._ledger.create(model, lambda: self._carry_out(wanted))
            case "GET", ["batches"]:
                return 200, _page(self._ledger.listed(self._batches))
            case "GET", ["batches", name]:
                self._batches[name] |= self._ends[name]
                return 200, self._batches[name]
            case "GET", ["models", name]:
                return 200, {"id": name, "object": "model"}
        raise LookupError(method, parts)

    def _keep(self, filename: str, purpose: str, content: bytes) -> dict[str, Any]:
        name = f"file-{len(self._files) + 1}"
        file = {"id": name, "object": "file", "filename": filename, "purpose": purpose, "bytes": content}
        self._files[name] = file | {"created_at": int(time.time()), "status": "processed"}
        return self._files[name]

    def _upload(self, content_type: str, body: bytes) -> dict[str, Any]:
        head = f"Content-Type: {content_type}\r\n\r\n".encode()
        parts = BytesParser(policy=email.policy.HTTP).parsebytes(head + body).iter_parts()
        fields = {part.get_param("name", header="content-disposition"): part for part in parts}
        purpose = fields["purpose"].get_payload(decode=True).decode()
        return _shown(self._keep(fields["file"].get_filename(), purpose, fields["file"].get_payload(decode=True)))

    def _rows(self, wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._files[wanted["input_file_id"]]["bytes"].splitlines()]

    def _carry_out(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        rows, outputs, errors, fates = self._rows(wanted), [], [], Counter[str]()
        for row in rows:
            body = row["body"]
            reply = self._ledger.answer(body["model"], "\n".join(message["content"] for message in body["messages"]))
            fates["completed" if reply.is_answer else reply.fate or "failed"] += 1
            if reply.fate != "missing":
                line = {"id": "row", "custom_id": row["custom_id"], "response": None, "error": None}
                (outputs if reply.is_answer else errors).append(line | _result(reply, body["model"]))
        name, now = f"batch_{len(self._batches) + 1}", int(time.time())
        batch = {"id": name, "object": "batch", "endpoint": wanted["endpoint"], "metadata": wanted.get("metadata")}
        batch |= {"input_file_id": wanted["input_file_id"], "completion_window": wanted["completion_window"]}
        batch |= {"created_at": now, "expires_at": now + 86_400, "errors": None, "status": "validating"}
        completed = fates["completed"]
        self._batches[name], self._ends[name] = batch, {
            "status": "expired" if fates["expired"] else "completed",
            "output_file_id": self._results(outputs),
            "error_file_id": self._results(errors),
            "request_counts": {"total": len(rows), "completed": completed, "failed": len(rows) - completed},
        }  # fmt: skip
        return batch

    def _results(self, rows: list[dict[str, Any]]) -> str | None:
        lines = "\n".join(map(json.dumps, rows)).encode()
        return str(self._keep("results.jsonl", "batch_output", lines)["id"]) if rows else None


def _result(reply: FrozenReply, model: str) -> dict[str, Any]:
    if reply.fate == "expired":
        text = "This request could not be executed before the completion window expired."
        return {"error": {"code": "batch_expired", "message": text}}
    if reply.error is not None:
        status, code, words = reply.error
        error = {"message": words, "type": code, "code": code}
        return {"response": {"status_code": status, "request_id": "r", "body": {"error": error}}}
    message = {"role": "assistant", "content": reply.by[model]}
    choice = {"index": 0, "message": message, "finish_reason": reply.finish}
    usage = {
        "prompt_tokens": reply.read,
        "completion_tokens": reply.written(model),
        "total_tokens": reply.read + reply.written(model),
        "prompt_tokens_details": {"cached_tokens": reply.cached},
        "completion_tokens_details": {"reasoning_tokens": reply.reasoning},
    }
    body = {"id": "c", "object": "chat.completion", "model": model, "choices": [choice]}
    return {"response": {"status_code": 200, "request_id": "r", "body": body | {"usage": usage}}}


def _shown(file: Mapping[str, Any]) -> dict[str, Any]:
    return {**file, "bytes": len(file["bytes"])}


def _page(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    data = list(rows)
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {}
    return {"object": "list", "data": data, "has_more": False} | ends
