"""Anthropic's dialect on the wire: the create call that nothing may repeat, and the search without a tag."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layton_batch.errors import (
    AmbiguousCallError,
    FileError,
    MissingKeyError,
    NotFoundError,
    RequestRefusedError,
)
from layton_batch.providers import closing
from layton_batch.providers.anthropic import Anthropic
from layton_batch.providers.http_rules import intended_at
from layton_batch.providers.protocol import Access, CallLimits
from layton_batch.providers.request_line import request_line
from layton_batch.records import (
    JsonValue,
    ListReading,
    Submission,
)
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall, Loopback

from .test_anthropic_forms import OFFLINE, request

BATCH = "/v1/messages/batches"


def submission(path: Path, requests: int = 2, intended_at: float | None = 1_000_000.0) -> Submission:
    return Submission("b", "tag", path, path.name, "0" * 64, requests, "claude", intended_at=intended_at)


def batch_file(folder: Path, ids: tuple[str, ...] = ("ours-1", "ours-2")) -> Path:
    path = folder / "shard.jsonl"
    lines = [request_line(OFFLINE, dataclasses.replace(request("a\nb, c"), custom_id=custom_id)) for custom_id in ids]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def batch(status: str = "in_progress", made: str = "1970-01-12T13:46:50Z", **fields: JsonValue) -> dict[str, JsonValue]:
    counts = {"processing": 2, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    return {
        "id": "msgbatch_1", "type": "message_batch", "processing_status": status, "request_counts": counts,
        "created_at": made, "expires_at": "1970-01-13T13:46:40Z", "results_url": None, **fields,
    }  # fmt: skip


@pytest.fixture
def made() -> Iterator[list[Anthropic]]:
    opened: list[Anthropic] = []
    yield opened
    for provider in opened:
        provider.close()


def connected(server: Loopback, made: list[Anthropic]) -> Anthropic:
    provider = Anthropic(Access("secret-key", server.url, CallLimits(5.0)))
    made.append(provider)
    return provider


# ---- the create call


def test_create_sends_the_lines_of_the_file_as_they_are_in_one_post(tmp_path: Path, made: list[Anthropic]) -> None:
    path = batch_file(tmp_path)
    with Loopback(Answer(body=json.dumps(batch()).encode())) as server:
        assert connected(server, made).create(submission(path)) == "msgbatch_1"
    (call,) = server.calls
    assert (call.method, call.path) == ("POST", BATCH)
    assert call.headers["authorization"] == "Bearer secret-key"
    assert int(call.headers["content-length"]) == len(call.body)
    assert json.loads(call.body) == {"requests": [json.loads(line) for line in path.read_bytes().split(b"\n") if line]}


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_the_body_is_whole_across_chunk_borders(tmp_path: Path, made: list[Anthropic], ending: bytes) -> None:
    path = tmp_path / "big.jsonl"
    lines = [json.dumps({"custom_id": f"c-{n}", "params": {"x": "y" * 99_000}}).encode() for n in range(40)]
    lines.insert(0, b'{"custom_id":"' + b"z" * ((1 << 20) - 17) + b'"}')  # its newline ends the first chunk
    path.write_bytes(b"\n".join(lines) + ending)
    with Loopback(Answer(body=json.dumps(batch()).encode())) as server:
        connected(server, made).create(submission(path, 41))
    assert json.loads(server.calls[0].body)["requests"] == [json.loads(line) for line in lines]


def test_create_holds_a_few_chunks_in_memory_not_the_file(tmp_path: Path, made: list[Anthropic]) -> None:
    path = tmp_path / "big.jsonl"
    line = json.dumps({"custom_id": "c", "params": {"x": "y" * 999_900}}).encode()
    path.write_bytes(b"\n".join([line] * 24) + b"\n")
    with Loopback(Answer(413, b'{"type":"error","error":{"type":"request_too_large","message":"big"}}')) as server:
        provider = connected(server, made)
        with pytest.raises(RequestRefusedError):  # everything is imported and connected before memory is watched
            provider.create(submission(batch_file(tmp_path)))
        server._answer = lambda call: (calls.append(len(call.body)), Answer(body=b'{"id":"m"}'))[1]
        calls: list[int] = []
        tracemalloc.start()
        try:
            provider.create(submission(path))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert calls == [path.stat().st_size + len('{"requests":[]}') - 1]
    server_side = calls[0]  # the loopback server, in this process, keeps what it received
    assert peak - server_side < 16 * 2**20


def test_a_missing_batch_file_is_no_call(tmp_path: Path, made: list[Anthropic]) -> None:
    with Loopback(Answer()) as server, pytest.raises(FileError, match="gone"):
        connected(server, made).create(submission(tmp_path / "gone.jsonl"))
    assert server.calls == []


@pytest.mark.parametrize("reply", [b"{}", b'{"id": 5}', b"[]", b"<html>"])
def test_a_reply_without_an_id_may_hide_a_batch(tmp_path: Path, made: list[Anthropic], reply: bytes) -> None:
    with Loopback(Answer(body=reply)) as server, pytest.raises(AmbiguousCallError):
        connected(server, made).create(submission(batch_file(tmp_path)))


def test_nothing_is_uploaded(tmp_path: Path) -> None:
    assert OFFLINE.upload(submission(tmp_path / "any")) is None


def test_without_a_key_the_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingKeyError, match="ANTHROPIC_API_KEY"):
        OFFLINE.create(submission(batch_file(tmp_path)))


# ---- looking for a lost batch


def listing(*batches: dict[str, JsonValue], results: bytes = b"", results_status: int = 200) -> Any:
    """A server that lists ``batches`` one a page and gives ``results`` for every one of them."""
    by_id = {str(one["id"]): one for one in batches}

    def answer(call: HandlerCall) -> Answer:
        path, _, query = call.path.partition("?")
        if path.endswith("/results"):
            return Answer(results_status, results if results_status == 200 else b'{"type":"error"}')
        if path != BATCH:
            url = f"http://{call.headers['host']}{path}/results"
            return Answer(body=json.dumps(by_id[path.rpartition("/")[2]] | {"results_url": url}).encode())
        ids = list(by_id)
        after = next((part[9:] for part in query.split("&") if part.startswith("after_id=")), None)
        at = ids.index(after) + 1 if after else 0
        page = [by_id[ids[at]]] if ids else []
        last = ids[at] if ids else None
        return Answer(body=json.dumps({"data": page, "has_more": at + 1 < len(ids), "last_id": last}).encode())

    return answer


def ended(name: str, made_at: str = "1970-01-12T13:46:50Z") -> dict[str, JsonValue]:
    counts = {"processing": 0, "succeeded": 2, "errored": 0, "canceled": 0, "expired": 0}
    return batch("ended", made_at, id=name, request_counts=counts)


def found(tmp_path: Path, made: list[Anthropic], answer: Any) -> list[tuple[str, bool]]:
    with Loopback(answer) as server:
        hits = connected(server, made).find(submission(batch_file(tmp_path)))
    return [(hit.provider_id, hit.certain) for hit in hits]


def test_an_unfinished_batch_of_our_size_and_time_may_be_ours(tmp_path: Path, made: list[Anthropic]) -> None:
    assert found(tmp_path, made, listing(batch())) == [("msgbatch_1", False)]


def test_its_size_and_no_time_rules_out_a_batch_that_runs(tmp_path: Path, made: list[Anthropic]) -> None:
    answer = listing(
        batch(made="1970-03-13T14:00:00Z", id="clock-was-behind"),
        batch(id="three", request_counts={"processing": 3}),
        batch(id="now"),
        batch(made="1970-01-01T13:45:39Z", id="clock-was-ahead"),
    )
    assert found(tmp_path, made, answer) == [("clock-was-behind", False), ("now", False), ("clock-was-ahead", False)]


def test_an_ended_batch_of_any_time_is_told_by_its_ids_if_it_has_our_size(
    tmp_path: Path, made: list[Anthropic]
) -> None:
    results = b'{"custom_id": "ours-2", "result": {"type": "expired"}}\n'
    fewer = {"request_counts": {"succeeded": 1}}
    days_apart = listing(
        ended("later", "1970-01-15T14:00:00Z"),
        ended("later-fewer", "1970-01-15T14:00:00Z") | fewer,
        ended("earlier", "1970-01-03T13:45:00Z"),
        ended("archived", "1970-01-03T13:45:00Z") | {"archived_at": "1970-02-01T13:45:00Z", "results_url": None},
        results=results,
    )
    assert found(tmp_path, made, days_apart) == [("later", True), ("earlier", True)]
    theirs = b'{"custom_id": "theirs", "result": {"type": "expired"}}\n'
    assert found(tmp_path, made, listing(ended("x", "1970-01-03T13:45:00Z"), results=theirs)) == []


def test_an_ended_batch_with_one_of_our_ids_is_ours(tmp_path: Path, made: list[Anthropic]) -> None:
    results = b'{"custom_id": "ours-2", "result": {"type": "expired"}}\n'
    assert found(tmp_path, made, listing(ended("a"), results=results)) == [("a", True)]


def test_an_older_batch_with_one_of_our_ids_is_ours(tmp_path: Path, made: list[Anthropic]) -> None:
    results = b'{"custom_id": "ours-2", "result": {"type": "expired"}}\n'
    with Loopback(listing(ended("a", "1970-01-12T13:45:00Z"), results=results)) as server:
        (hit,) = connected(server, made).find(submission(batch_file(tmp_path)))
    assert (hit.certain, hit.may_tell) == (True, False)


OURS = b'{"custom_id": "ours-2", "result": {"type": "expired"}}\n'


def test_a_batch_that_the_run_knows_is_not_asked_for(tmp_path: Path, made: list[Anthropic]) -> None:
    asked = replace(submission(batch_file(tmp_path)), known=frozenset({"a", "b"}))
    with Loopback(listing(ended("a"), batch(id="b"), results=OURS)) as server:
        assert connected(server, made).find(asked) == []
    assert {call.path.partition("?")[0] for call in server.calls} == {BATCH}


def test_what_ended_a_day_before_the_run_began_is_not_asked_for_unless_a_create_was_tried(
    tmp_path: Path, made: list[Anthropic]
) -> None:
    asked, old = submission(batch_file(tmp_path)), listing(ended("old", "1970-01-11T13:45:00Z"), results=OURS)
    with Loopback(old) as server:
        assert connected(server, made).find(replace(asked, reading=ListReading(1_000_000.0))) == []
    assert len(server.calls) == 1
    with Loopback(old) as server:
        assert [hit.certain for hit in connected(server, made).find(asked)] == [True]


def test_a_batch_that_ended_is_asked_for_once_whoever_looks(tmp_path: Path, made: list[Anthropic]) -> None:
    """Each lane has a connection of its own; what they have seen they share."""
    theirs = b'{"custom_id": "theirs", "result": {"type": "expired"}}\n'
    asked = submission(batch_file(tmp_path))
    with Loopback(listing(ended("a"), results=theirs)) as server:
        assert connected(server, made).find(asked) == []
        once = len(server.calls)
        assert connected(server, made).find(asked) == []
    assert len(server.calls) == once + 1  # the list


def test_batches_that_are_sent_together_share_a_list(tmp_path: Path, made: list[Anthropic]) -> None:
    asked = replace(submission(batch_file(tmp_path)), reading=ListReading(1_000_000.0))
    with Loopback(listing(batch(id="x"))) as server:
        for _ in range(3):
            assert [hit.provider_id for hit in connected(server, made).find(asked)] == ["x"]
    assert len(server.calls) == 1


def test_the_difference_between_the_clocks_is_taken_from_the_reply(tmp_path: Path) -> None:
    """Ours is ten minutes ahead: it is 08:20 here and 08:10 there."""
    asked = replace(submission(batch_file(tmp_path), intended_at=1_800_000_000.0), asked_at=1_800_001_200.0)
    assert intended_at(asked, {"date": "Fri, 15 Jan 2027 08:10:00 GMT"}) == 1_799_999_400.0
    assert intended_at(asked, {"date": "soon"}) == 1_800_000_000.0


def test_an_ended_batch_with_another_id_is_not_ours(tmp_path: Path, made: list[Anthropic]) -> None:
    hostile = json.dumps({"result": {"text": '{"custom_id": "ours-1"}'}, "custom_id": "theirs"}).encode()
    assert found(tmp_path, made, listing(ended("a"), results=hostile)) == []


def test_an_ended_batch_whose_results_are_not_there_yet_stays_uncertain(tmp_path: Path, made: list[Anthropic]) -> None:
    with Loopback(listing(ended("a"), results_status=404)) as server:
        (hit,) = connected(server, made).find(submission(batch_file(tmp_path)))
    assert (hit.certain, hit.may_tell) == (False, True)


def test_missing_and_damaged_rows_do_not_hide_an_ended_batch_nor_counts_not_yet_made_a_running_one(
    tmp_path: Path, made: list[Anthropic]
) -> None:
    results = b'{"custom_id": "ours-2", "result": {"type": "expired"}}\n'
    damaged = b'{"custom_id": "not-ours", "resul\n' + results
    assert found(tmp_path, made, listing(ended("damaged"), results=damaged)) == [("damaged", True)]
    fewer = ended("fewer") | {"request_counts": {"succeeded": 1}}
    assert found(tmp_path, made, listing(fewer, results=results)) == [("fewer", True)]
    assert found(tmp_path, made, listing(batch(id="new", request_counts={"processing": 0}))) == [("new", False)]


def test_no_batches_at_all(tmp_path: Path, made: list[Anthropic]) -> None:
    assert found(tmp_path, made, listing()) == []


# ---- reading


def snapshot_of(made: list[Anthropic], reading: dict[str, JsonValue]) -> Any:
    with Loopback(Answer(body=json.dumps(reading).encode())) as server:
        return connected(server, made).snapshot("msgbatch_1")


@pytest.mark.parametrize(
    ("counts", "outcome"),
    [
        ({"succeeded": 2}, BatchOutcome.COMPLETED),
        ({"errored": 2}, BatchOutcome.COMPLETED),
        ({"succeeded": 1, "expired": 1}, BatchOutcome.COMPLETED),
        ({"expired": 2}, BatchOutcome.EXPIRED),
        ({"succeeded": 1, "canceled": 1}, BatchOutcome.CANCELLED),
    ],
)
def test_how_a_batch_ended_is_told_by_its_counts(
    made: list[Anthropic], counts: dict[str, JsonValue], outcome: BatchOutcome
) -> None:
    reading = snapshot_of(made, batch("ended", request_counts=counts, results_url="http://x"))
    assert (reading.state, reading.outcome, reading.results_ref) == (Lifecycle.ENDED, outcome, "msgbatch_1")


@pytest.mark.parametrize("counts", [None, [], {}, {"succeeded": None}, {"succeeded": "many"}, {"succeeded": [2]}])
def test_counts_that_are_none_do_not_say_that_nothing_was_answered(made: list[Anthropic], counts: JsonValue) -> None:
    reading = snapshot_of(made, batch("ended", request_counts=counts, results_url="http://x"))
    assert (reading.total, reading.succeeded, reading.results_ref) == (None, None, "msgbatch_1")


def test_running_batches_have_no_results(made: list[Anthropic]) -> None:
    reading = snapshot_of(made, batch("canceling"))
    assert (reading.state, reading.outcome, reading.results_ref) == (Lifecycle.CANCELLING, None, None)


def test_archived_results_are_said_to_be_gone(made: list[Anthropic]) -> None:
    reading = snapshot_of(made, batch("ended", archived_at="1970-02-12T13:46:40Z"))
    assert reading.results_ref is None
    assert "archived" in reading.message


@pytest.mark.parametrize("archived", [None, "", False, 0, {}])
def test_only_a_time_says_that_results_are_gone(made: list[Anthropic], archived: JsonValue) -> None:
    assert snapshot_of(made, batch("ended", archived_at=archived)).results_ref == "msgbatch_1"


def test_results_come_as_bytes_in_order(made: list[Anthropic]) -> None:
    results = b"".join(b'{"custom_id": "c-%d"}\n' % number for number in range(5000))
    with Loopback(listing(ended("a"), results=results)) as server:
        provider = connected(server, made)
        (part,) = provider.results(provider.snapshot("a"))
        assert (part.kind, b"".join(part.chunks)) == ("output", results)


def test_an_unknown_batch_is_not_found(made: list[Anthropic]) -> None:
    answer = Answer(404, b'{"type":"error","error":{"type":"not_found_error","message":"no"}}')
    with Loopback(answer) as server, pytest.raises(NotFoundError):
        connected(server, made).snapshot("msgbatch_1")


def test_cancelling_what_has_ended_is_no_error_but_a_refusal_is(made: list[Anthropic]) -> None:
    for status, refused in (("ended", False), ("in_progress", True)):

        def answer(call: HandlerCall, status: str = status) -> Answer:
            if call.method == "POST":
                return Answer(400, b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}')
            return Answer(body=json.dumps(batch(status)).encode())

        with Loopback(answer) as server:
            provider = connected(server, made)
            if refused:
                with pytest.raises(RequestRefusedError):
                    provider.cancel("msgbatch_1")
            else:
                provider.cancel("msgbatch_1")


def test_a_closed_provider_can_be_used_again(made: list[Anthropic]) -> None:
    with Loopback(Answer(body=json.dumps(batch()).encode())) as server:
        with closing(connected(server, made)) as provider:
            provider.snapshot("msgbatch_1")
        assert provider.snapshot("msgbatch_1").total == 2
