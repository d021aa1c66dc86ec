"""Contract tests for plug-ins: subclass in a test module, fill in the hooks, and pytest collects the claims.

Nothing here imports pytest; ``tmp_path`` is its fixture of that name. Servers bind 127.0.0.1 only.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from layton_batch.clock import Clock, SystemClock
from layton_batch.errors import (
    AmbiguousCallError,
    LaytonBatchError,
    MissingKeyError,
    ProviderReplyError,
    TransientProviderError,
    UnknownStatusError,
)
from layton_batch.files.atomic import file_digest
from layton_batch.providers import closing
from layton_batch.providers.protocol import Access, CallLimits, Provider
from layton_batch.providers.wire_json import request_line
from layton_batch.records import (
    Image,
    JsonValue,
    ModelSpec,
    Prompt,
    Request,
    Response,
    Snapshot,
    Submission,
)
from layton_batch.states import PASSING, BatchOutcome, Lifecycle, RequestOutcome
from layton_batch.tasks.reply_json import object_schema

# ---- a server that answers as told


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """One call as it arrived."""

    method: str
    path: str  # with its query
    headers: dict[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """Behaviour of the server for one call. ``drop``: read it, then close the connection."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False


class Loopback:
    """A context manager: an HTTP server on 127.0.0.1 that answers every call with what ``answer`` says and keeps
    ``calls``. ``url`` has no trailing slash."""

    def __init__(self, answer: Answer | Callable[[HandlerCall], Answer]) -> None:
        self.calls: list[HandlerCall] = []
        self._answer = answer
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def posts(self) -> int:
        """Count the POSTs that came in."""
        return sum(call.method == "POST" for call in self.calls)

    def __enter__(self) -> Loopback:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        calls, given = self.calls, self._answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                call = HandlerCall(self.command, self.path, headers, body)
                calls.append(call)
                answer = given if isinstance(given, Answer) else given(call)
                self.close_connection = True
                if answer.drop:
                    return
                self.send_response_only(answer.status)
                usual = {
                    "content-type": "application/json",
                    "content-length": str(len(answer.body)),
                    "date": self.date_time_string(),
                    "connection": "close",
                }
                for name, value in (usual | answer.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = do_PUT = do_DELETE = answer  # the names http.server looks for

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        return Handler


# ---- the provider contract


def _raised(call: Callable[[], object], expected: type[LaytonBatchError]) -> LaytonBatchError:
    try:
        call()
    except expected as error:
        return error
    raise AssertionError(f"{expected.__name__} was not raised")


_OTHERS: tuple[JsonValue, ...] = ([], {}, None, 7, [7], {"x": []})


def _bent(value: JsonValue, unchanged: Collection[JsonValue]) -> Iterator[JsonValue]:
    """The document with each value, other than those of ``unchanged``, left out or of another type, one at a time."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, entry in list(entries):
        if isinstance(entry, str) and entry in unchanged:
            continue
        for other in _OTHERS:
            yield _with(value, place, other)
        if isinstance(value, dict):
            yield {key: content for key, content in value.items() if key != place}
        yield from (_with(value, place, inner) for inner in _bent(entry, unchanged))


def _with(value: JsonValue, place: str | int, entry: JsonValue) -> JsonValue:
    copy: Any = value.copy()  # type: ignore[union-attr]
    copy[place] = entry
    return copy  # type: ignore[no-any-return]


SCHEMA = object_schema("reply", {"answer": "string"})
HOSTILE = 'Ein "Zeilen\nende",\r\u2028 ein halbes Zeichen \ud800, NUL \x00, 🦉 und </data>'
KEY = "contract-test-key"


class ProviderContract:
    """Claims that every dialect must hold. Subclass as ``TestMine(ProviderContract)`` and give it:

    - ``make(access)``: the provider; ``base_path``: what follows ``http://host:port`` in its base URL;
    - ``sandbox_url``: ``http://host:port`` of a loopback server that carries batches out within seconds;
    - ``unknown_status``: a poll reply of this API whose status word contains "pondering".
    """

    base_path: str = ""
    sandbox_url: str = ""
    model: str = "a-model"
    unknown_status: bytes = b'{"id": "b-1", "status": "pondering"}'
    clock: Clock = SystemClock()
    patience: int = 1000  # polls of 10 ms

    def make(self, access: Access | None) -> Provider:
        raise NotImplementedError

    def setup_method(self) -> None:
        self._connected: list[Provider] = []

    def teardown_method(self) -> None:
        for provider in self._connected:
            with closing(provider):
                pass

    def connect(self, url: str, timeout_seconds: float = 20.0) -> Provider:
        patience = CallLimits(timeout_seconds)
        provider = self.make(Access(KEY, url + self.base_path, patience))
        self._connected.append(provider)
        return provider

    def request(self, custom_id: str, *parts: str | Image) -> Request:
        spec = ModelSpec("shown name", self.make(None).name, self.model, "family", max_output_tokens=2000)
        return Request(custom_id, f"item of {custom_id}", spec, Prompt("Be brief.", parts or ("2+2?",), SCHEMA))

    def submission(self, folder: Path, mark: str, input_ref: str | None = None) -> Submission:
        """Three requests on disk, named by ``mark``."""
        provider = self.make(None)
        lines = [request_line(provider, self.request(f"{mark}-{number}")) for number in range(3)]
        path = folder / f"{mark}.jsonl"
        path.write_bytes(b"\n".join(lines) + b"\n")
        before, digest = self.clock.now() - 5.0, file_digest(path, path.name).sha256
        return Submission(f"batch-{mark}", f"tag-{mark}", path, path.name, digest, 3, self.model, input_ref, before)

    def submitted(self, provider: Provider, folder: Path, mark: str) -> tuple[Submission, str]:
        """The submission as it is after its upload, and the id of its batch."""
        unsent = self.submission(folder, mark)
        sent = self.submission(folder, mark, input_ref=provider.upload(unsent))
        return sent, provider.create(sent)

    def ended(self, provider: Provider, provider_id: str) -> Snapshot:
        for _ in range(self.patience):
            snapshot = provider.snapshot(provider_id)
            if snapshot.state is Lifecycle.ENDED:
                return snapshot
            self.clock.sleep(0.01)
        raise AssertionError(f"batch {provider_id} did not end")

    def responses(self, provider: Provider, snapshot: Snapshot) -> Sequence[Response]:
        lines = [line for part in provider.results(snapshot) for line in b"".join(part.chunks).split(b"\n")]
        return [provider.decode(line) for line in lines if line]

    # ---- claims that need no network

    def test_encode_gives_the_same_single_line_every_time(self) -> None:
        request = self.request("c-1", "first", "second")
        line = request_line(self.make(None), request)
        assert type(self.make(None).encode(request)) is dict, "encode does not give a dict"
        assert line == request_line(self.make(None), request), "two instances encode one request differently"
        assert line.splitlines() == [line], "a line holds a raw line break"

    def test_encode_keeps_custom_id_and_hostile_text(self) -> None:
        line = request_line(self.make(None), self.request("A_z-09" * 10, HOSTILE))
        assert "A_z-09" * 10 in line.decode(), "the custom_id does not survive encode"
        assert "🦉 und </data>" in json.dumps(json.loads(line), ensure_ascii=False), "the text does not survive encode"

    def test_images_are_encoded_where_they_are_declared(self) -> None:
        provider = self.make(None)
        if provider.capabilities.images:
            request = self.request("c-1", "What is this?", Image("image/png", "aW1hZ2U="))
            line = request_line(provider, request)
            assert [b"aW1hZ2U=" in line, b"image/png" in line] == [True, True], "the image is not in the line"

    def test_limits_are_sane(self) -> None:
        limits = self.make(None).limits
        assert limits.max_requests > 0, "no request fits into a batch"
        assert 0 < limits.max_line_bytes <= limits.max_bytes, "limits contradict each other"
        times = limits.window_seconds, limits.poll_seconds, limits.retention_seconds
        assert min(times) > 0, "a time is not positive"

    def test_every_status_means_something_legal(self) -> None:
        meanings = set(self.make(None).status_map.values())
        ends = {means for means in meanings if isinstance(means, BatchOutcome)}
        assert ends, "no status ends"
        assert Lifecycle.IN_FLIGHT in meanings, "no status runs"
        for state in meanings - ends:
            assert state in (Lifecycle.IN_FLIGHT, Lifecycle.CANCELLING), f"{state} is not for a provider to say"

    def test_lines_of_another_form_are_refused(self) -> None:
        for line in (b"", b"{", b"\xff", b"[]", b"null", b"7", b'"x"', b"{}", b'{"custom_id": 5}', b"[" * 100_000):
            _raised(lambda line=line: self.make(None).decode(line), ProviderReplyError)  # type: ignore[misc]

    def test_a_missing_key_is_named(self) -> None:
        error = _raised(lambda: self.make(None).snapshot("b-1"), MissingKeyError)
        assert "KEY" in str(error), "the error does not name the environment variable"

    # ---- claims over a server that carries batches out

    def test_every_request_gets_exactly_one_answer(self, tmp_path: Path) -> None:
        provider = self.connect(self.sandbox_url)
        _, provider_id = self.submitted(provider, tmp_path, "life")
        responses = self.responses(provider, self.ended(provider, provider_id))
        counts = Counter(response.custom_id for response in responses)
        assert counts == {f"life-{number}": 1 for number in range(3)}, f"responses: {dict(counts)}"
        assert {response.outcome for response in responses} == {RequestOutcome.SUCCEEDED}, (
            f"not all were answered: {responses}"
        )

    def test_a_paid_reply_that_comes_damaged_is_never_bought_again_by_itself(self, tmp_path: Path) -> None:
        provider = self.connect(self.sandbox_url)
        _, provider_id = self.submitted(provider, tmp_path, "bent")
        snapshot = self.ended(provider, provider_id)
        for part in provider.results(snapshot):
            for line in b"".join(part.chunks).split(b"\n")[:1]:
                whole = json.loads(line)
                sound = provider.decode(line)
                for bent in _bent(whole, (sound.custom_id,)):
                    response = provider.decode(json.dumps(bent).encode())
                    assert response.custom_id == sound.custom_id, f"the request is lost: {bent}"
                    paid = response.outcome is RequestOutcome.SUCCEEDED
                    assert paid or response.error_class not in PASSING, f"this would be bought again: {bent}"

    def test_find_tells_our_batch_from_others(self, tmp_path: Path) -> None:
        provider = self.connect(self.sandbox_url)
        sent, provider_id = self.submitted(provider, tmp_path, "ours")
        other, other_id = self.submitted(provider, tmp_path, "theirs")
        self.ended(provider, provider_id)
        self.ended(provider, other_id)
        for submission, ours, theirs in ((sent, provider_id, other_id), (other, other_id, provider_id)):
            matches = provider.find(submission)
            assert ours in {match.provider_id for match in matches}, "our batch is not found"
            assert theirs not in {match.provider_id for match in matches if match.certain}, (
                "another's batch is taken for ours"
            )

    def test_cancel_after_the_end_is_no_error(self, tmp_path: Path) -> None:
        provider = self.connect(self.sandbox_url)
        if provider.capabilities.cancel:
            _, provider_id = self.submitted(provider, tmp_path, "over")
            self.ended(provider, provider_id)
            provider.cancel(provider_id)

    # ---- claims over a server that misbehaves

    def test_an_unknown_status_is_named(self) -> None:
        with Loopback(Answer(body=self.unknown_status)) as server:
            error = _raised(lambda: self.connect(server.url).snapshot("b-1"), UnknownStatusError)
        assert "pondering" in str(error).lower(), "the error does not name the status"

    def test_create_is_one_post_whatever_the_server_does(self, tmp_path: Path) -> None:
        answers: tuple[tuple[Answer, type[LaytonBatchError]], ...] = (
            (Answer(500), AmbiguousCallError),
            (Answer(drop=True), AmbiguousCallError),
            (Answer(200, b"<html>"), AmbiguousCallError),
            (Answer(429, headers={"retry-after": "7"}), TransientProviderError),
        )
        for number, (answer, expected) in enumerate(answers):
            submission = self.submission(tmp_path, f"once-{number}", input_ref="file-1")
            with Loopback(answer) as server:
                provider = self.connect(server.url)
                error = _raised(lambda p=provider, s=submission: p.create(s), expected)  # type: ignore[misc]
                assert server.posts() == 1, f"{server.posts()} POSTs after {answer}"
            assert KEY not in str(error), "the error shows the key"

    def test_reads_that_fail_can_be_repeated(self) -> None:
        for answer in (Answer(500), Answer(503), Answer(429), Answer(drop=True)):
            with Loopback(answer) as server:
                _raised(lambda url=server.url: self.connect(url).snapshot("b-1"), TransientProviderError)  # type: ignore[misc]
