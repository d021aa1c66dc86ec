"""A batch server on 127.0.0.1 that answers every row from frozen replies, in the forms of OpenAI and Anthropic.

Nothing is drawn: the same rows get the same replies and the same tokens.
"""

from __future__ import annotations

import json
import threading

from layton_batch.testing.providers import Answer, HandlerCall, Loopback
from tests.surfaces.anthropic_wire import AnthropicWire
from tests.surfaces.frozen_replies import Ledger, Reply
from tests.surfaces.openai_wire import OpenAIWire


class ReplayServer(Loopback):
    """The server of a ledger; a context manager."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._lock = threading.Lock()
        super().__init__(self._reply)
        self._openai, self._anthropic = OpenAIWire(ledger), AnthropicWire(ledger, self.url)

    def _reply(self, call: HandlerCall) -> Answer:
        reply = self._handle(call.method, call.path.partition("?")[0], call.headers.get("content-type", ""), call.body)
        if reply is None:
            return Answer(drop=True)
        status, document = reply
        return Answer(status, document if isinstance(document, bytes) else json.dumps(document).encode())

    def _handle(self, method: str, path: str, content_type: str, body: bytes) -> Reply | None:
        """Answer a call; None closes the connection without a reply."""
        with self._lock:
            try:
                match path.strip("/").split("/"):
                    case ["v1", "messages", "batches", *parts]:
                        return self._anthropic.handle(method, parts, content_type, body)
                    case ["v1", *parts]:
                        return self._openai.handle(method, parts, content_type, body)
            except LookupError:
                pass
        return 404, {"error": {"message": f"no {method} {path}", "type": "not_found_error"}}
