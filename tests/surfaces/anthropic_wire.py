"""Anthropic's message batches, over a ledger of frozen replies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.surfaces.frozen_replies import FrozenReply, Ledger, Reply

STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


class AnthropicWire:
    """The calls below ``/v1/messages/batches`` of an address. A batch is carried out by its create."""

    def __init__(self, ledger: Ledger, address: str) -> None:
        self._ledger, self._address = ledger, address
        self._batches: dict[str, dict[str, Any]] = {}
        self._ends: dict[str, dict[str, Any]] = {}
        self._results: dict[str, bytes] = {}

    def handle(self, method: str, parts: list[str], _content_type: str, body: bytes) -> Reply | None:
        """Answer a call. None: the connection is closed without a reply. Raises LookupError for an unknown path."""
        match method, parts:
            case "POST", []:
                rows = json.loads(body)["requests"]
                return self._ledger.create(rows[0]["params"]["model"], lambda: self._carry_out(rows))
            case "GET", []:
                data = list(self._ledger.listed(self._batches))
                return 200, {"data": data, "has_more": False, "first_id": None, "last_id": None}
            case "GET", [name]:
                self._batches[name] |= self._ends[name]
                return 200, self._batches[name]
            case "GET", [name, "results"]:
                return 200, self._results[name]
        raise LookupError(method, parts)

    def _carry_out(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        name, lines, counts = f"msgbatch_{len(self._batches) + 1}", [], Counter[str]()
        for row in rows:
            params = row["params"]
            texts = [str(params.get("system", "")), *(b["text"] for m in params["messages"] for b in m["content"])]
            result = _result(self._ledger.answer(params["model"], "\n".join(texts)), params["model"])
            counts[result["type"]] += 1
            lines.append(json.dumps({"custom_id": row["custom_id"], "result": result}))
        self._results[name] = "\n".join(lines).encode()
        now = datetime.now(UTC)
        kinds = ("processing", "succeeded", "errored", "canceled", "expired")
        self._batches[name] = {
            "id": name,
            "type": "message_batch",
            "processing_status": "in_progress",
            "request_counts": dict.fromkeys(kinds, 0) | {"processing": len(rows)},
            "created_at": now.isoformat(),
            "expires_at": (now + timedelta(days=1)).isoformat(),
            "ended_at": None,
            "results_url": None,
        }
        self._ends[name] = {
            "processing_status": "ended",
            "request_counts": {kind: counts[kind] for kind in kinds},
            "ended_at": now.isoformat(),
            "results_url": f"{self._address}/v1/messages/batches/{name}/results",
        }
        return self._batches[name]


def _result(reply: FrozenReply, model: str) -> dict[str, Any]:
    if reply.fate is not None:
        return {"type": "expired"}
    if reply.error is not None:
        _, kind, words = reply.error
        return {"type": "errored", "error": {"type": "error", "error": {"type": kind, "message": words}}}
    return {"type": "succeeded", "message": _message(reply, model)}


def _message(reply: FrozenReply, model: str) -> Mapping[str, Any]:
    text = reply.by[model]
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": STOPS[reply.finish],
        "usage": {
            "input_tokens": reply.read - reply.cached,
            "cache_read_input_tokens": reply.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": reply.written(model),
        },
    }
