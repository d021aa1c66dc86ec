"""Results: streamed as they come, broken ones to be repeated, in files, pages, a bucket, or within the batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from layton_batch.errors import NotFoundError, ProviderReplyError, TransientProviderError
from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access, Provider
from layton_batch.records import JsonValue, Snapshot
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall

from .conftest import Play, Wire, reply

FILES = ("openai", "groq", "doubleword", "together", "mistral")
"""Providers with a file of results and one of errors."""
STREAMED = pytest.mark.parametrize("name", [*FILES, "anthropic", "gemini"])


def snapshot(results: str | None = "files/out", errors: str | None = None) -> Snapshot:
    return Snapshot("batch_1", "completed", Lifecycle.ENDED, BatchOutcome.COMPLETED, results, errors)


def downloaded(provider: Provider, reading: Snapshot | None = None) -> dict[str, bytes]:
    return {part.kind: b"".join(part.chunks) for part in provider.results(reading or snapshot())}


@STREAMED
def test_files_are_streamed_and_absent_ones_left_out(play: Play, name: str) -> None:
    body = b"".join(b'{"custom_id": "c-%d", "\xff": 1}\n' % number for number in range(100_000))
    provider, server = play(name, {"err/content": Answer(200, b"e"), "": Answer(200, body)})
    parts = {part.kind: list(part.chunks) for part in provider.results(snapshot(errors="file-err"))}
    assert b"".join(parts["output"]) == body
    assert max(map(len, parts["output"])) <= (65_536 if name in FILES else 1 << 20)
    if name in FILES:
        assert parts["errors"] == [b"e"]
        assert downloaded(provider, snapshot(None, "")) == {}
    else:
        paths = {"gemini": "files/out:download?alt=media", "anthropic": "messages/batches/files%2Fout/results"}
        assert server.calls[0].path == f"/v1/{paths[name]}"


@STREAMED
def test_a_broken_download_can_be_repeated_and_goes_on_only_where_the_server_sends_what_was_asked_for(
    play: Play, name: str
) -> None:
    """Servers may send everything again, or from elsewhere: added to what has come, that would be another file."""
    for answer in (reply({}, 502), Answer(drop=True), Answer(200, b"half", {"content-length": "99"})):
        with pytest.raises(TransientProviderError):
            downloaded(play(name, {"": answer})[0])
    right = (206, b"456789", "bytes 4-9/10")
    wrong = [(status, b"0123456789", given) for status, given in ((200, right[2]), (206, "bytes 0-9/10"), (206, ""))]
    for status, content, given in (right, *wrong):
        provider, server = play(name, {"": Answer(status, content, {"content-range": given})})
        part = next(iter(provider.results(snapshot())))
        assert part.resume is not None
        if content == right[1]:
            assert b"".join(part.resume(4)) == content
            assert server.calls[-1].headers["range"] == "bytes=4-"
        else:
            with pytest.raises(ProviderReplyError):
                b"".join(part.resume(4))


def test_a_file_that_is_gone_or_incomplete_says_so(play: Play) -> None:
    with pytest.raises(NotFoundError):
        downloaded(play("gemini", {"": reply({"error": {"code": 404, "message": "gone away"}}, 404)})[0])
    for header in ("true", "True"):
        with pytest.raises(TransientProviderError):
            downloaded(play("doubleword", {"": Answer(200, b"{}\n", {"X-Incomplete": header})})[0])
    whole = Answer(200, b"{}\n", {"X-Incomplete": "false"})
    assert downloaded(play("doubleword", {"": whole})[0]) == {"output": b"{}\n"}


# ---- inline at OpenRouter --------------------------------------------------------------------------------------------


def test_a_reply_that_breaks_off_is_none(play: Play) -> None:
    whole = json.dumps({"id": "batch_1", "status": "completed", "results": []}).encode()
    provider, _ = play("openrouter", {"": Answer(200, whole[:-4], {"content-length": str(len(whole))})})
    for read in (lambda: provider.snapshot("batch_1"), lambda: downloaded(provider)):
        with pytest.raises(TransientProviderError):
            read()


Inline = Callable[..., tuple[Snapshot, bytes]]


@pytest.fixture
def inline(wire: Wire) -> Iterator[Inline]:
    """``inline(raw, size)``: what OpenRouter's reply says of the batch, and the lines of its results."""
    with closing(connect("openrouter", Access("key", "https://198.51.100.1/api/v1"))) as provider:

        def read(raw: bytes, size: int = 1 << 16) -> tuple[Snapshot, bytes]:
            wire(lambda _call: Answer(200, raw, {"content-type": "application/json"}), size)
            return provider.snapshot("batch_1"), downloaded(provider)["output"]

        yield read


def test_results_are_taken_out_of_a_reply_however_it_is_cut_into_pieces(inline: Inline) -> None:
    results: JsonValue = [{"custom_id": "a", "x": 'he said "[{,\\" ok\n'}, {"y": [1, {"results": [3]}]}]
    usage: JsonValue = {"results": [1, 2], "prompt_tokens": 20, "completion_tokens": 40}
    raw = json.dumps({"id": "results", "status": "completed", "results": results, "usage": usage}, indent=2).encode()
    for size in range(1, len(raw) + 1):
        reading, lines = inline(raw, size)
        assert [json.loads(line) for line in lines.splitlines()] == results
        assert reading.stated_usage is not None
        assert (reading.provider_status, reading.stated_usage.output_tokens) == ("completed", 40)


@pytest.mark.parametrize("damaged", [
    b'{"custom_id": "b", "x": "\t"}', b'{"custom_id": "b", "x": "\\x"}', b'{"custom_id": "b", "n": 01}', b"{1}",
    b'{"custom_id": "b", "n": ' + b"1" * 5000 + b"}", b'{"custom_id": "b", "x": "\\ud83d"}', b"[" * 5000 + b"]" * 5000,
])  # fmt: skip
def test_a_damaged_row_within_a_reply_costs_no_other_one(inline: Inline, damaged: bytes) -> None:
    raw = b'{"id": "i", "results": [{"a": 1}, ' + damaged + b', {"c": 3}], "status": "completed"}'
    reading, lines = inline(raw)
    assert (reading.provider_status, lines.splitlines()) == ("completed", [b'{"a": 1}', damaged, b'{"c": 3}'])


@pytest.mark.parametrize("raw", [
    b'{"results": [{"a": 1}', b'{"results": [{"a": 1}]', b'{"results": [{"a": "x', b"{", b"", b"[]", b"<html>",
    b'{"results": [}',
])  # fmt: skip
def test_a_reply_that_ends_within_the_results_or_is_no_object_is_not_taken_for_all(inline: Inline, raw: bytes) -> None:
    with pytest.raises(ProviderReplyError):
        inline(raw)


# ---- pages at xAI ----------------------------------------------------------------------------------------------------


def test_every_page_of_results_is_read_and_one_that_says_nothing_has_no_rows(play: Play) -> None:
    pages = {f"={n}&": {"results": [{"batch_request_id": f"c-{n}"}], "pagination_token": str(n + 1)} for n in (1, 2)}
    pages["=2&"]["pagination_token"] = None  # type: ignore[assignment]
    first = {"results": [{"batch_request_id": "c-0"}], "pagination_token": "1"}
    lines = downloaded(play("xai", {**pages, "": first})[0])["output"].splitlines()
    assert [json.loads(line)["batch_request_id"] for line in lines] == ["c-0", "c-1", "c-2"]
    assert downloaded(play("xai", {"": {}})[0]) == {"output": b""}  # as protocol buffers leave out


@pytest.mark.parametrize("page", [
    {"error": "overloaded"}, {"results": "none"}, {"results": ["b"]}, {"data": []}, {"results": [], "error": 1},
    {"results": [], "pagination_token": "again"},
])  # fmt: skip
def test_what_is_no_page_is_not_an_empty_one(play: Play, page: JsonValue) -> None:
    with pytest.raises(ProviderReplyError):
        downloaded(play("xai", {"": page})[0])


# ---- objects in a bucket of Vertex -----------------------------------------------------------------------------------


def test_vertexs_results_are_told_from_errors_and_taken_up_where_they_broke_off(
    wire: Wire,
) -> None:
    objects = {
        "o/errors_0.jsonl": b'{"key": "c-2"}', "o/notes.txt": b"", "o2/predictions_0.jsonl": b"another job's",
        "o/predictions_0.jsonl": '{"key": "c-1\u2028"}\n'.encode(),
    }  # fmt: skip
    names = [name for name in objects if name.startswith("o/")]

    def answer(call: HandlerCall) -> Answer:
        assert (call.headers["host"], call.headers["authorization"]) == ("storage.googleapis.com", "Bearer token")
        if "alt=media" in call.path:
            start = int(call.headers.get("range", "bytes=0-")[6:-1])
            body = objects[next(name for name in objects if name.replace("/", "%2F") in call.path)]
            return Answer(206 if start else 200, body[start:], {"content-range": f"bytes {start}-/{len(body)}"})
        shown = names[2:] if "pageToken=more" in call.path else names[:2]  # two a page
        return reply({"items": [{"name": name} for name in shown], "nextPageToken": "" if shown[1:] == [] else "more"})

    wire(answer)
    address = "https://l-1-aiplatform.googleapis.com/v1/projects/p-1/locations/l-1?gcs=gs://bucket/runs/"
    with closing(connect("vertex", Access("token", address))) as provider:
        parts = list(provider.results(snapshot("gs://bucket/o")))
        whole = [(part.kind, b"".join(part.chunks)) for part in parts]
        resumed = [b"".join(part.resume(8)) for part in parts if part.resume]
    errors, output = objects["o/errors_0.jsonl"], objects["o/predictions_0.jsonl"]
    assert whole == [("errors", errors), ("output", output)]
    assert resumed == [errors[8:], output[8:]]
