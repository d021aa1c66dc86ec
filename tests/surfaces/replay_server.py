"""A batch server of OpenAI's shape, on 127.0.0.1, that answers every row from a file of frozen replies.

Nothing of the package is imported here, and nothing is drawn: the same rows get the same replies and the same tokens.
"""

from __future__ import annotations

import email.policy
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import BytesParser
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

CREATED = 1_795_000_000
LATE_LISTS = 3
"""Lists that do not have a batch yet which shows late."""


@dataclass(frozen=True, slots=True)
class FrozenReply:
    """A line of a file of replies. It answers a request of a model in ``by`` whose prompt has every text of ``about``.

    Of several lines the first that is not used up (``times``) answers. Tokens of the prompt: 100, and one for each
    character of ``about``. Tokens of the reply: 5, and one for four characters; ``reasoning`` ones are added to them.
    ``error``: the row fails with this status, code and message. ``fate``: ``expired`` or ``missing``, without a reply.
    """

    about: Sequence[str]
    by: Mapping[str, str] = field(default_factory=dict)
    finish: str = "stop"
    cached: int = 0
    reasoning: int = 0
    times: int | None = None
    error: tuple[int, str, str] | None = None
    fate: str | None = None

    def fits(self, model: str, prompt: str) -> bool:
        """Tell whether the line answers this prompt of the model."""
        return model in self.by and all(text in prompt for text in self.about)

    def usage(self, model: str) -> dict[str, Any]:
        """Return the tokens of the reply, as the provider writes them."""
        prompt = 100 + sum(map(len, self.about))
        completion = 5 + len(self.by[model]) // 4 + self.reasoning
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        }


def read_replies(*paths: Path) -> list[FrozenReply]:
    """Read files of replies; lines of an earlier file come first."""
    lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
    return [FrozenReply(**json.loads(line)) for line in lines]


class Incident(StrEnum):
    """What becomes of the first create of a batch of a model."""

    MADE_TWICE = "made twice"  # and the reply is lost
    LISTED_LATE = "listed late"  # and the reply is lost; the next lists do not have the batch
    NOT_MADE = "not made"  # and the reply is lost
    REFUSED = "refused"  # for too many calls


class ReplayServer:
    """The server; a context manager. ``incidents``: by the model of the batch.

    ``asked`` and ``billed`` count rows by model, ``tokens`` holds the billed tokens of prompts and replies.
    """

    def __init__(self, replies: Iterable[FrozenReply], incidents: Mapping[str, Incident]) -> None:
        self.replies = list(replies)
        self.incidents = dict(incidents)
        self.asked: Counter[str] = Counter()
        self.billed: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.unknown: list[str] = []
        """Models and prompts for which no line was left."""
        self.files: dict[str, dict[str, Any]] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self._hidden: dict[str, int] = {}
        self._used: Counter[int] = Counter()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """The address of the API."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> ReplayServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def handle(self, method: str, path: str, content_type: str, body: bytes) -> tuple[int, Any] | None:
        """Answer a call: status and document or bytes; None closes the connection without a reply."""
        with self._lock:
            match method, path.split("/")[2:]:
                case "POST", ["files"]:
                    return 200, self._upload(content_type, body)
                case "GET", ["files"]:
                    return 200, _page([_shown(file) for file in self.files.values()])
                case "GET", ["files", name] if name in self.files:
                    return 200, _shown(self.files[name])
                case "GET", ["files", name, "content"] if name in self.files:
                    return 200, self.files[name]["bytes"]
                case "POST", ["batches"]:
                    return self._create(json.loads(body))
                case "GET", ["batches"]:
                    return 200, _page([*self._listed()])
                case "GET", ["batches", name] if name in self.batches:
                    return 200, self._look(self.batches[name])
                case "POST", ["batches", name, "cancel"] if name in self.batches:
                    return 200, self.batches[name] | {"status": "cancelling"}
                case "GET", ["models", name]:
                    return 200, {"id": name, "object": "model", "created": CREATED, "owned_by": "nobody"}
        return 404, {"error": {"message": f"no {path}", "type": "invalid_request_error", "code": None, "param": None}}

    def _keep(self, filename: str, purpose: str, content: bytes) -> dict[str, Any]:
        file = {"id": f"file-{len(self.files) + 1}", "object": "file", "filename": filename, "purpose": purpose}
        file |= {"bytes": content, "created_at": int(time.time()), "status": "processed"}
        self.files[str(file["id"])] = file
        return file

    def _upload(self, content_type: str, body: bytes) -> dict[str, Any]:
        head = f"Content-Type: {content_type}\r\n\r\n".encode()
        parts = BytesParser(policy=email.policy.HTTP).parsebytes(head + body).iter_parts()
        fields = {part.get_param("name", header="content-disposition"): part for part in parts}
        purpose = fields["purpose"].get_payload(decode=True).decode()
        return _shown(self._keep(fields["file"].get_filename(), purpose, fields["file"].get_payload(decode=True)))

    def _create(self, wanted: Mapping[str, Any]) -> tuple[int, Any] | None:
        first = json.loads(self.files[wanted["input_file_id"]]["bytes"].splitlines()[0])
        match self.incidents.pop(first["body"]["model"], None):
            case Incident.MADE_TWICE:
                self._run(wanted)
                self._run(wanted)
                return None
            case Incident.LISTED_LATE:
                self._hidden = {str(self._run(wanted)["id"]): LATE_LISTS}
                return None
            case Incident.NOT_MADE:
                return None
            case Incident.REFUSED:
                error = {"message": "Too many requests.", "type": "requests", "code": "rate_limit_exceeded"}
                return 429, {"error": error}
        return 200, self._run(wanted)

    def _listed(self) -> Iterator[dict[str, Any]]:
        for name, batch in self.batches.items():
            if self._hidden.get(name, 0) > 0:
                self._hidden[name] -= 1
            else:
                yield batch

    def _run(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a batch: all of its rows, at once. Its end shows at the first look at it."""
        output, errors, fates = [], [], Counter[str]()
        rows = [json.loads(line) for line in self.files[wanted["input_file_id"]]["bytes"].splitlines()]
        for number, row in enumerate(rows):
            result, fate = self._answer(row["body"])
            fates[fate] += 1
            if result is not None:
                line = {"id": f"row-{number}", "custom_id": row["custom_id"], "response": None, "error": None} | result
                (output if fate == "completed" else errors).append(json.dumps(line))
        files = {"output_file_id": output, "error_file_id": errors}
        kept = {
            name: self._keep(f"{name}.jsonl", "batch_output", "\n".join(lines).encode())["id"] if lines else None
            for name, lines in files.items()
        }
        now = int(time.time())
        batch = {"id": f"batch_{len(self.batches) + 1}", "object": "batch", "endpoint": wanted["endpoint"]}
        batch |= {"input_file_id": wanted["input_file_id"], "completion_window": wanted["completion_window"]}
        batch |= {"metadata": wanted.get("metadata"), "created_at": now, "expires_at": now + 86_400, "errors": None}
        end = {"status": "expired" if fates["expired"] else "completed", **kept}
        counts = {"total": len(rows), "completed": fates["completed"], "failed": len(rows) - fates["completed"]}
        self.batches[str(batch["id"])] = batch | {"status": "validating", "end": end | {"request_counts": counts}}
        return batch | {"status": "validating"}

    def _look(self, batch: dict[str, Any]) -> dict[str, Any]:
        batch.update(batch.pop("end", {}))
        return batch

    def _answer(self, body: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """Return what a result line holds of this request, and how the request ends."""
        model, prompt = body["model"], "\n".join(message["content"] for message in body["messages"])
        self.asked[model] += 1
        for number, reply in enumerate(self.replies):
            if reply.fits(model, prompt) and (reply.times is None or self._used[number] < reply.times):
                self._used[number] += 1
                return self._result(reply, model)
        self.unknown.append(f"{model}: {prompt}")
        return None, "missing"

    def _result(self, reply: FrozenReply, model: str) -> tuple[dict[str, Any] | None, str]:
        if reply.fate == "missing":
            return None, "missing"
        if reply.fate == "expired":
            text = "This request could not be executed before the completion window expired."
            return {"error": {"code": "batch_expired", "message": text}}, "expired"
        if reply.error is not None:
            status, code, message = reply.error
            error = {"message": message, "type": code, "param": None, "code": code}
            return {"response": {"status_code": status, "request_id": "r", "body": {"error": error}}}, "failed"
        self.billed[model] += 1
        usage = reply.usage(model)
        self.tokens["input"] += usage["prompt_tokens"]
        self.tokens["output"] += usage["completion_tokens"]
        message = {"role": "assistant", "content": reply.by[model], "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": reply.finish, "logprobs": None}
        body = {"id": "c", "object": "chat.completion", "created": CREATED, "model": model, "choices": [choice]}
        return {"response": {"status_code": 200, "request_id": "r", "body": body | {"usage": usage}}}, "completed"


def _shown(file: Mapping[str, Any]) -> dict[str, Any]:
    return {**file, "bytes": len(file["bytes"])}


def _page(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = [{name: value for name, value in row.items() if name != "end"} for row in reversed(rows)]
    ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {}
    return {"object": "list", "data": rows, "has_more": False} | ends


def _handler(server: ReplayServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            reply = server.handle(self.command, self.path.partition("?")[0], self.headers.get("content-type", ""), body)
            if reply is None:
                self.close_connection = True
                return
            status, document = reply
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            kind = "application/octet-stream" if isinstance(document, bytes) else "application/json"
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_DELETE = do_GET

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    return Handler
