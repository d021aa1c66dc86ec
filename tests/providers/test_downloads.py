"""Results: streamed as they come, broken ones to be repeated, from other hosts without the key."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from layton_batch.errors import (
    NotFoundError,
    ProviderReplyError,
    TransientProviderError,
)
from layton_batch.providers import closing, connect, vertex
from layton_batch.providers.inline import InlineResults
from layton_batch.providers.protocol import Access, Provider
from layton_batch.records import JsonValue, Snapshot
from layton_batch.states import BatchOutcome, FinishReason, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall

from .conftest import Serve, reply, routes
from .documents import Json, chat, file_row, openrouter_batch, replied

FILES = ("openai", "groq", "doubleword", "together", "mistral")
"""Providers with a file of results and one of errors."""


def snapshot(results: str | None = "file-out", errors: str | None = None) -> Snapshot:
    return Snapshot("batch_1", "completed", Lifecycle.ENDED, BatchOutcome.COMPLETED, results, errors)


def downloaded(provider: Provider, reading: Snapshot) -> dict[str, bytes]:
    return {part.kind: b"".join(part.chunks) for part in provider.results(reading)}


@pytest.mark.parametrize("name", FILES)
def test_both_files_are_streamed_and_absent_ones_left_out(serve: Serve, name: str) -> None:
    body = bytes(range(256)) * 2000
    provider, _ = serve(
        name, routes({"GET /file-out/content": Answer(200, body), "GET /file-err/content": Answer(200, b"e")})
    )
    parts = {part.kind: list(part.chunks) for part in provider.results(snapshot(errors="file-err"))}
    assert b"".join(parts["output"]) == body
    assert max(map(len, parts["output"])) <= 65_536
    assert parts["errors"] == [b"e"]
    assert downloaded(provider, snapshot(None, "")) == {}


@pytest.mark.parametrize(("name", "path"), [
    ("anthropic", "/v1/messages/batches/b-1/results"), ("gemini", "/v1/files/b-1:download?alt=media"),
])  # fmt: skip
def test_the_one_file_of_others_is_streamed(serve: Serve, name: str, path: str) -> None:
    lines = b"".join(b'{"custom_id": "c-%d"}\n' % number for number in range(100_000))
    provider, server = serve(name, Answer(200, lines))
    (part,) = provider.results(snapshot("files/b-1" if name == "gemini" else "b-1"))
    chunks = list(part.chunks)
    assert (part.kind, b"".join(chunks), server.calls[0].path) == ("output", lines, path)
    assert max(map(len, chunks)) <= 1 << 20


@pytest.mark.parametrize("name", [*FILES, "anthropic", "gemini"])
def test_a_broken_download_can_be_repeated(serve: Serve, name: str) -> None:
    for answer in (reply({}, 502), Answer(drop=True), Answer(200, b"half", {"content-length": "99"})):
        provider, _ = serve(name, answer)
        with pytest.raises(TransientProviderError):
            downloaded(provider, snapshot("files/out"))


@pytest.mark.parametrize("name", [*FILES, "anthropic", "gemini"])
def test_a_download_goes_on_only_where_the_server_sends_what_was_asked_for(serve: Serve, name: str) -> None:
    """Servers may send everything again, or from elsewhere: added to what has come, that would be another file."""
    for status, given in ((200, "bytes 4-9/10"), (206, "bytes 0-9/10"), (206, "")):
        provider, _ = serve(name, Answer(status, b"0123456789", {"content-range": given}))
        part = next(iter(provider.results(snapshot("files/out"))))
        assert part.resume is not None
        with pytest.raises(ProviderReplyError):
            b"".join(part.resume(4))
    provider, server = serve(name, Answer(206, b"456789", {"content-range": "bytes 4-9/10"}))
    part = next(iter(provider.results(snapshot("files/out"))))
    assert part.resume is not None
    assert b"".join(part.resume(4)) == b"456789"
    assert server.calls[-1].headers["range"] == "bytes=4-"


def test_a_file_that_is_gone_or_incomplete_says_so_and_one_given_up_lets_go_of_its_connection(serve: Serve) -> None:
    provider, _ = serve("gemini", reply({"error": {"code": 404, "message": "gone away"}}, 404))
    with pytest.raises(NotFoundError):
        downloaded(provider, snapshot("files/out"))
    for header, error in (("true", TransientProviderError), ("True", TransientProviderError), ("false", None)):
        provider, _ = serve("doubleword", Answer(200, b"{}\n", {"X-Incomplete": header}))
        if error is None:
            assert downloaded(provider, snapshot()) == {"output": b"{}\n"}
        else:
            with pytest.raises(error):
                downloaded(provider, snapshot())
    provider, _ = serve("openai", Answer(200, b"x" * 500_000))
    part = next(iter(provider.results(snapshot())))
    next(part.chunks)
    part.chunks.close()  # type: ignore[attr-defined]


# ---- inline at OpenRouter --------------------------------------------------------------------------------------------


def test_inline_results_come_as_lines_in_order_and_a_reply_that_breaks_off_is_none(serve: Serve) -> None:
    rows: JsonValue = [{**file_row({"status_code": 200, "body": chat()}), "custom_id": name} for name in "ab"]
    whole = json.dumps(openrouter_batch(results=rows), indent=2).encode()
    provider, _ = serve("openrouter", Answer(200, whole))
    lines = downloaded(provider, provider.snapshot("batch_1"))["output"].splitlines()
    assert [json.loads(line) for line in lines] == rows
    found = provider.decode(lines[1])
    assert (found.custom_id, found.text, found.finish_reason) == ("b", "4", FinishReason.STOP)
    provider, _ = serve("openrouter", Answer(200, whole[:-40], {"content-length": str(len(whole))}))
    with pytest.raises(TransientProviderError):
        provider.snapshot("batch_1")
    with pytest.raises(TransientProviderError):
        downloaded(provider, snapshot("batch_1"))


def test_results_are_taken_out_of_a_reply_however_it_is_cut_into_pieces() -> None:
    told: Json = {
        "id": "results",
        "results": [{"custom_id": "a", "x": 'he said "[{,\\" ok\n'}, {"y": [1, {"results": [3]}]}],
        "usage": {"results": [1, 2]},
    }
    raw = json.dumps(told, indent=2).encode()
    for size in range(1, len(raw) + 1):
        found = InlineResults((raw[at : at + size] for at in range(0, len(raw), size)), "results", "p", "a reply")
        assert [json.loads(line) for line in found] == told["results"]
        assert found.rest() == {**told, "results": []}


@pytest.mark.parametrize(
    "raw",
    [b'{"results": [{"a": 1}', b'{"results": [{"a": 1}]', b'{"results": [{"a": "x', b"{", b"", b"[]", b"<html>",
     b'{"results": [}'],
)  # fmt: skip
def test_a_reply_that_ends_within_the_results_or_is_no_object_is_not_taken_for_all(raw: bytes) -> None:
    def read() -> Mapping[str, JsonValue]:
        results = InlineResults([raw], "results", "p", "a reply")
        list(results)
        return results.rest()

    with pytest.raises(ProviderReplyError):
        read()


# ---- pages at xAI ----------------------------------------------------------------------------------------------------


def test_every_page_of_results_is_read_and_one_that_says_nothing_has_no_rows(serve: Serve) -> None:
    def answer(call: HandlerCall) -> Answer:
        page = int(call.path.rpartition("pagination_token=")[2]) if "pagination_token=" in call.path else 0
        row = {**replied("xai", chat()), "batch_request_id": f"c-{page}"}
        return reply({"results": [row], "pagination_token": str(page + 1) if page < 2 else None})

    provider, _ = serve("xai", answer)
    lines = downloaded(provider, snapshot())["output"].splitlines()
    assert [provider.decode(line).custom_id for line in lines] == ["c-0", "c-1", "c-2"]
    assert downloaded(serve("xai", reply({}))[0], snapshot()) == {"output": b""}  # as protocol buffers leave out


@pytest.mark.parametrize(
    "page",
    [{"error": "overloaded"}, {"results": "none"}, {"results": ["b"]}, {"data": []}, {"results": [], "error": 1},
     {"results": [], "pagination_token": "again"}],
)  # fmt: skip
def test_what_is_no_page_is_not_an_empty_one(serve: Serve, page: JsonValue) -> None:
    provider, _ = serve("xai", reply(page))
    with pytest.raises(ProviderReplyError):
        downloaded(provider, snapshot())


# ---- objects in a bucket of Vertex -----------------------------------------------------------------------------------


def test_vertexs_results_are_told_from_errors_and_taken_up_where_they_broke_off(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = {
        "o/errors_0.jsonl": b'{"key": "c-2"}', "o/notes.txt": b"", "o2/predictions_0.jsonl": b"another job's",
        "o/predictions_0.jsonl": '{"key": "c-1\u2028"}\n'.encode(),
    }  # fmt: skip
    names = [name for name in objects if name.startswith("o/")]

    def answer(call: HandlerCall) -> Answer:
        assert call.headers["authorization"] == "Bearer token"
        if "alt=media" in call.path:
            start = int(call.headers.get("range", "bytes=0-")[6:-1])
            body = objects[next(name for name in objects if name.replace("/", "%2F") in call.path)]
            return Answer(206 if start else 200, body[start:], {"content-range": f"bytes {start}-/{len(body)}"})
        shown = names[2:] if "pageToken=more" in call.path else names[:2]  # two a page
        return reply({"items": [{"name": name} for name in shown], "nextPageToken": "" if shown[1:] == [] else "more"})

    _, storage = serve("openai", answer)
    monkeypatch.setattr(vertex, "STORAGE", storage.url)
    address = "https://l-1-aiplatform.googleapis.com/v1/projects/p-1/locations/l-1?gcs=gs://bucket/runs/"
    with closing(connect("vertex", Access("token", address))) as provider:
        parts = list(provider.results(snapshot("gs://bucket/o")))
        whole = [(part.kind, b"".join(part.chunks)) for part in parts]
        resumed = [b"".join(part.resume(8)) for part in parts if part.resume]
    errors, output = objects["o/errors_0.jsonl"], objects["o/predictions_0.jsonl"]
    assert whole == [("errors", errors), ("output", output)]
    assert resumed == [errors[8:], output[8:]]
