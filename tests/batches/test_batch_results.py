"""Downloads: raw bytes as they came, two rules for what several bring, and one outcome for each request."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.batches import batch_results
from layton_batch.batches.attempts import Attempts
from layton_batch.batches.batch_results import (
    DownloadResult,
    Lack,
    Replies,
    Reply,
    RequestOutcomes,
    assign_outcomes,
    check_download,
    read_replies,
    summed,
)
from layton_batch.errors import ProviderReplyError, TransientProviderError
from layton_batch.providers import connect
from layton_batch.providers.protocol import NO_REASON, ResultPart
from layton_batch.providers.wire_errors import unreadable
from layton_batch.records import Batch, Response, Snapshot
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome

decode = connect("openai", None).decode
SENT = [f"c{number}" for number in range(5)]
PAGE = b"<html>\n<body>502 Bad Gateway</body>\n</html>\n"
Counts = tuple[int | None, int | None, int | None]


def line(custom_id: str, text: str | None) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": "c", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": len(text or "")}}
    return orjson.dumps(
        {"id": "r", "custom_id": custom_id, "response": {"status_code": 200, "body": body}, "error": None}
    )


def error_row(custom_id: str, status: int = 500) -> bytes:
    body = {"error": {"code": "server_error", "message": "no reply"}}
    return orjson.dumps({"custom_id": custom_id, "response": {"status_code": status, "body": body}, "error": None})


def part(content: bytes, kind: str = "output") -> ResultPart:
    return ResultPart(kind, iter([content]))


def kept(folder: Path, *lines: bytes, end: bytes = b"\n") -> Path:
    return copies(folder, b"\n".join(lines) + end)


def copies(folder: Path, *contents: bytes) -> Path:
    """Downloads of one file, one after another."""
    for content in contents:
        batch_results.store(folder / "raw", [part(content)])
    return folder / "raw"


def texts(replies: Replies) -> dict[str, str | None]:
    return {name: reply.text for name, reply in replies.by_id.items()}


# ---- raw files -------------------------------------------------------------------------------------------------------


@given(content=st.binary(max_size=400), cut=st.integers(1, 50))
def test_lines_are_those_between_line_feeds_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("raw")
    chunks = iter([content[start : start + cut] for start in range(0, len(content), cut)])
    (file,) = batch_results.store(folder, [ResultPart("output", chunks)])
    assert file.arrived == len(content)
    lines = list(batch_results.lines(file.path))
    assert [text for text, _ in lines] == [text for text in content.split(b"\n") if text.strip()]
    assert all(complete for _, complete in lines[:-1])


CONTENT = bytes(range(65, 91)) * 40 + b"\n"


def dropping(start: int, most: int) -> Iterator[bytes]:
    """The content from ``start``, in pieces of ten bytes, over a connection that breaks after ``most`` of them."""
    for at in range(start, len(CONTENT), 10):
        if at - start >= most:
            raise TransientProviderError("peer closed the connection")
        yield CONTENT[at : at + 10]


def test_a_broken_download_goes_on_from_where_it_broke(tmp_path: Path) -> None:
    starts: list[int] = []

    def resume(start: int) -> Iterator[bytes]:
        starts.append(start)
        return dropping(start, 300)

    (file,) = batch_results.store(tmp_path, [ResultPart("output", dropping(0, 300), resume)])
    assert list(batch_results.lines(file.path)) == [(CONTENT[:-1], True)]
    assert starts == [300, 600, 900]


def no_ranges(_start: int) -> Iterator[bytes]:
    raise ProviderReplyError("HTTP 200 where 206 was asked for")


@pytest.mark.parametrize("resume", [None, no_ranges, lambda _: dropping(0, 0), lambda start: dropping(start, 1)])
def test_where_there_is_no_going_on_the_break_is_what_is_reported_and_no_file_is_left(
    tmp_path: Path, resume: Callable[[int], Iterator[bytes]] | None
) -> None:
    with pytest.raises(TransientProviderError, match="peer closed"):
        batch_results.store(tmp_path, [ResultPart("output", dropping(0, 300), resume)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [100, 101, 3 << 20])
def test_of_a_line_longer_than_any_reply_only_the_beginning_is_read_and_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(batch_results, "LONGEST_LINE", 100)
    (file,) = batch_results.store(tmp_path, [part(b"x" * size + b"\nend\n" + b"y" * size)])
    lines = list(batch_results.lines(file.path))
    assert lines == [(b"x" * min(size, 101), True), (b"end", True), (b"y" * min(size, 101), False)]
    monkeypatch.setattr(batch_results, "LONGEST_LINE", 1000)
    damaged = read_replies(copies(tmp_path / "2", C1.rstrip() + b" " * 1000 + b"\n" + C2), decode).by_id["c1"]
    assert damaged.is_unreadable


# ---- a later download may only add rows ------------------------------------------------------------------------------

C1, C2, C3 = (line(f"c{number}", "text") + b"\n" for number in (1, 2, 3))


def test_each_download_is_kept_byte_for_byte_beside_the_earlier_ones(tmp_path: Path) -> None:
    folder = copies(tmp_path, C1 + C2, C2 + C3, C1, b"")
    paths = batch_results.raw_files(folder)["output"]
    assert [path.name for path in paths] == ["output.jsonl.zst", *(f"output.{n}.jsonl.zst" for n in (2, 3, 4))]
    assert [text for path in paths[:2] for text, _ in batch_results.lines(path)] == [
        text.strip() for text in (C1, C2, C2, C3)
    ]
    replies = read_replies(folder, decode)
    assert replies.useless == paths[2:]
    assert texts(replies) == {"c1": "text", "c2": "text", "c3": "text"}


@pytest.mark.parametrize(
    "contents",
    [(C1 + C2[:60], C1 + error_row("c2")), (C1 + b"?" * 9, C1 + C2), (error_row("c2"), C1 + C2[:60])],
    ids=["cut", "garbage", "error first"],
)
def test_a_line_that_one_download_damaged_and_another_has_is_not_damaged(
    tmp_path: Path, contents: tuple[bytes, ...]
) -> None:
    replies = read_replies(copies(tmp_path, *contents), decode)
    assert set(replies.by_id) == {"c1", "c2"}
    assert not any(reply.is_unreadable for reply in replies.by_id.values())


def test_damage_that_no_other_download_explains_stays(tmp_path: Path) -> None:
    replies = read_replies(copies(tmp_path, C1 + b"what is this\n", C1), decode)
    assert (len(replies.nameless), len(replies.useless)) == (1, 1)
    replies = read_replies(copies(tmp_path / "2", C1 + C2[:60], C3), decode)
    assert set(replies.by_id) == {"c1", "c2", "c3"}
    assert replies.by_id["c2"].is_unreadable
    again = read_replies(copies(tmp_path / "3", *[C1 + b"what is this\n"] * 3), decode)
    assert (len(again.nameless), len(again.useless)) == (1, 2)


def test_a_page_in_place_of_results_adds_nothing_and_goes_when_a_better_file_is_there(tmp_path: Path) -> None:
    for number, contents in enumerate([(C1, PAGE), (PAGE, C1), (PAGE, b"", C1)]):
        replies = read_replies(copies(tmp_path / str(number), *contents), decode)
        assert (set(replies.by_id), replies.nameless, len(replies.foreign)) == ({"c1"}, [], 1)
        assert len(replies.useless) == len(contents) - 1
    assert not read_replies(copies(tmp_path / "renamed", C1, line("c1-renamed", "text") + b"\n"), decode).useless
    pages = read_replies(copies(tmp_path / "pages", PAGE, PAGE), decode)
    assert [path.name for path in pages.useless] == ["output.jsonl.zst"]


def test_what_stands_in_a_text_ends_no_line_and_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four\x0bfive"
    raw = orjson.dumps(orjson.loads(line("c1", text)))
    assert "\u2028".encode() in raw
    assert texts(read_replies(kept(tmp_path, raw), decode)) == {"c1": text}

    def odd(content: bytes) -> Response:
        return Response(content.decode(), RequestOutcome.SUCCEEDED, "half \ud83d of it")

    assert texts(read_replies(kept(tmp_path / "odd", b"c1"), odd)) == {"c1": "half \ufffd of it"}


def test_damaged_lines_speak_for_whom_they_name_and_a_cut_file_is_told(tmp_path: Path) -> None:
    cut, nameless = line("c2", "text")[:60], b"what is this"
    replies = read_replies(kept(tmp_path, line("c1", "text"), nameless, cut, end=b""), decode)
    assert [name for name, reply in replies.by_id.items() if reply.is_unreadable] == ["c2"]
    assert [path.name for path in replies.cut] == ["output.jsonl.zst"]
    assert ["line 2" in reason for reason in replies.nameless] == [True]


# ---- whether these are all -------------------------------------------------------------------------------------------

OF_OTHERS: list[Counts] = [(0, 0, 0), (2, 0, None), (9, 0, 5), (2, 0, 4)]
"""Counts that cannot be of a batch of five, or count as many answers as come."""
NOT_COUNTED = (None, None, None)
COMPLETED, FAILED, EXPIRED = BatchOutcome.COMPLETED, BatchOutcome.FAILED, BatchOutcome.EXPIRED
REFUSED = {"message": "Enqueued token limit reached"}


def batch(outcome: BatchOutcome = COMPLETED, error_class: ErrorClass = ErrorClass.NONE) -> Batch:
    return Batch(
        "b", "j", "s", "openai", "m", 1, Lifecycle.ENDED, "t", len(SENT), "p", "h", 1,
        outcome=outcome, error_class=error_class, reason="why",
    )  # fmt: skip


def checked(
    folder: Path, outcome: BatchOutcome, counts: Counts, parts: Sequence[ResultPart], more: Mapping[str, str]
) -> DownloadResult:
    succeeded, failed, total = counts
    snapshot = Snapshot("b", "ended", Lifecycle.ENDED, total=total, succeeded=succeeded, failed=failed, **more)  # type: ignore[arg-type]
    files = batch_results.store(folder, parts)
    return check_download(batch(outcome), snapshot, files, read_replies(folder, decode), SENT)


def answers(*names: str) -> ResultPart:
    return part(b"".join(line(name, "text") + b"\n" for name in names))


def errors(*names: str, status: int = 500) -> ResultPart:
    return part(b"".join(error_row(name, status) + b"\n" for name in names), "errors")


def without_reply(*names: str) -> ResultPart:
    """Rows that never got a reply: OpenAI was seen to count them as completed."""
    return errors(*names, status=0)


@pytest.mark.parametrize("outcome", BatchOutcome)
@pytest.mark.parametrize(
    ("counts", "parts", "lack"),
    [
        *((counts, lambda: [answers("c0", "c1")], Lack.ROWS) for counts in (NOT_COUNTED, (2, 0, 5), *OF_OTHERS)),
        *((counts, lambda: [answers(*SENT)], None) for counts in (NOT_COUNTED, (5, 0, 5), *OF_OTHERS)),
        ((3, 2, 5), lambda: [answers("c0", "c1")], Lack.ANSWERS),
        (NOT_COUNTED, lambda: [part(C1 + C2[:40])], Lack.ANSWERS),
        (NOT_COUNTED, lambda: [ResultPart("output", iter([C1]), size=len(C1) + 9)], Lack.ANSWERS),
        (NOT_COUNTED, lambda: [answers("other")], Lack.ANSWERS),
        ((5, 0, 5), lambda: [without_reply(*SENT)], None),
        ((5, 0, 5), lambda: [without_reply(*SENT[1:])], Lack.ANSWERS),
        ((5, 0, 5), lambda: [answers("c0", "c1"), without_reply(*SENT[2:])], None),
        ((5, 0, 5), lambda: [answers("c0"), errors(*SENT[1:])], Lack.ANSWERS),  # these explain no answer
        ((3, 2, 5), lambda: [answers("c0", "c1"), without_reply("c0"), errors(*SENT[2:])], Lack.ANSWERS),
    ],
)
def test_rows_on_disk_are_all_if_they_name_every_request_and_every_counted_answer(
    tmp_path: Path, outcome: BatchOutcome, counts: Counts, parts: Callable[[], list[ResultPart]], lack: Lack | None
) -> None:
    result = checked(tmp_path, outcome, counts, parts(), {})
    assert (result.shortfall and result.shortfall.lack, result.error, result.grew) == (lack, None, True)


@pytest.mark.parametrize(
    ("outcome", "counts", "more", "lack"),
    [
        (COMPLETED, (0, 0, 0), {}, Lack.EVERYTHING),
        (COMPLETED, (0, 5, 5), {}, Lack.ROWS),
        (EXPIRED, (0, 0, 0), {}, Lack.ROWS),
        *((outcome, NOT_COUNTED, {"results_ref": "file-1"}, Lack.EVERYTHING) for outcome in BatchOutcome),
        *((outcome, (3, 2, 5), {"results_ref": "file-1"}, Lack.CONTENT) for outcome in BatchOutcome),
        (FAILED, NOT_COUNTED, REFUSED, None),  # it failed at validation, with the provider's sentence
        (FAILED, (0, 0, 0), REFUSED, None),
        (EXPIRED, (0, 0, 0), REFUSED, Lack.ROWS),
        (FAILED, (0, 0, 0), {"message": NO_REASON}, Lack.ROWS),
        (FAILED, (0, 0, 0), {**REFUSED, "results_ref": "file-1"}, Lack.EVERYTHING),
        (FAILED, (0, 0, 0), {**REFUSED, "errors_ref": "file-2"}, Lack.EVERYTHING),
        (FAILED, (2, 3, 5), REFUSED, Lack.EVERYTHING),
    ],
)
def test_without_any_file_a_batch_may_have_everything(
    tmp_path: Path, outcome: BatchOutcome, counts: Counts, more: dict[str, str], lack: Lack | None
) -> None:
    result = checked(tmp_path / "raw", outcome, counts, [], more)
    assert (result.shortfall and result.shortfall.lack, result.grew) == (lack, False)


# ---- one outcome for each request ------------------------------------------------------------------------------------


def reply(custom_id: str, outcome: RequestOutcome = RequestOutcome.SUCCEEDED) -> Reply:
    return Reply(Response(custom_id, outcome))


def damaged(custom_id: str) -> Reply:
    return Reply(unreadable(custom_id, "half a line"))


def settled(
    replies: Sequence[Reply], ended_batch: Batch | None = None, nameless: int = 0, message: str | None = None
) -> RequestOutcomes:
    rows = Replies({reply.response.custom_id: reply for reply in replies}, ["damaged"] * nameless)
    return assign_outcomes(rows, SENT, ended_batch or batch(), message)


def unread(outcomes: RequestOutcomes) -> set[str]:
    return {name for name, reply in outcomes.replies.items() if reply.is_unreadable}


def again(outcomes: RequestOutcomes) -> frozenset[str]:
    first = batch()
    return Attempts.of(first, [first]).again(outcomes.ends, 3)


@given(
    replies=st.lists(
        st.builds(reply, st.sampled_from([*SENT, "stranger"]), st.sampled_from(RequestOutcome))
        | st.builds(damaged, st.sampled_from([*SENT, "stranger"])),
        max_size=9,
    ),
    nameless=st.integers(0, 6),
    outcome=st.sampled_from(BatchOutcome),
)
def test_each_request_has_one_outcome(replies: list[Reply], nameless: int, outcome: BatchOutcome) -> None:
    outcomes = settled(replies, batch(outcome), nameless)
    assert list(outcomes.replies) == list(outcomes.ends) == SENT
    last = {reply.response.custom_id: reply for reply in replies}
    answered = {name for name, reply in last.items() if reply.is_answer} & {*SENT}
    assert {name for name, reply in outcomes.replies.items() if reply.is_answer} == answered
    told = Counter(kind for kind, _ in outcomes.anomalies)["unreadable_line"]
    assert told == nameless + len(unread(outcomes))


@pytest.mark.parametrize(
    ("outcome", "ends"),
    [
        (BatchOutcome.COMPLETED, RequestOutcome.MISSING),
        (BatchOutcome.EXPIRED, RequestOutcome.EXPIRED),
        (BatchOutcome.CANCELLED, RequestOutcome.CANCELLED),
        (BatchOutcome.FAILED, RequestOutcome.ERRORED),
    ],
)
def test_a_request_that_no_line_names_ends_as_its_batch_did(outcome: BatchOutcome, ends: RequestOutcome) -> None:
    outcomes = settled([], batch(outcome), message="why")
    assert {reply.response.outcome for reply in outcomes.replies.values()} == {ends}
    says = "why" if outcome is BatchOutcome.FAILED else None  # why it was waited for is no part of another outcome
    assert {reply.response.error_message for reply in outcomes.replies.values()} == {says}
    failed = settled([], batch(outcome, ErrorClass.INVALID_REQUEST))
    is_of_batch = {error_class for _, error_class in failed.ends.values()} == {ErrorClass.INVALID_REQUEST}
    assert is_of_batch is (outcome is BatchOutcome.FAILED)


def test_the_first_answer_counts_and_what_may_have_been_paid_for_beats_what_was_not(tmp_path: Path) -> None:
    twice = read_replies(kept(tmp_path / "twice", line("c1", "yes"), line("c1", "no.")), decode)
    assert (texts(twice), len(twice.duplicates)) == ({"c1": "yes"}, 1)
    rows = {"answer": line("c1", "text"), "damaged": line("c1", "text")[:60], "failed": error_row("c1")}
    for names in (*itertools.permutations(rows), ("failed", "damaged"), ("damaged", "failed")):
        folder = tmp_path / "-".join(names)
        replies = read_replies(kept(folder, *(rows[name] for name in names)), decode)
        best = replies.by_id["c1"]
        assert (best.is_answer, best.is_unreadable) == ("answer" in names, "answer" not in names)
    batch_results.store(tmp_path / "kinds", [part(rows["damaged"]), part(rows["failed"], "errors")])
    assert read_replies(tmp_path / "kinds", decode).by_id["c1"].is_unreadable


@pytest.mark.parametrize("outcome", BatchOutcome)
def test_requests_that_damaged_lines_explain_are_unreadable_and_do_not_go_again(outcome: BatchOutcome) -> None:
    outcomes = settled([reply(name) for name in SENT[2:]], batch(outcome), nameless=2)
    assert unread(outcomes) == {"c0", "c1"}
    assert not again(outcomes)
    assert [kind for kind, _ in outcomes.anomalies] == ["unreadable_line"] * 4  # two lines, and two requests


def test_more_missing_requests_than_damaged_lines_are_missing() -> None:
    outcomes = settled([reply(name) for name in SENT[2:]], nameless=1)
    assert not unread(outcomes)
    stranger = settled([*(reply(name) for name in SENT[1:]), damaged("stranger")])  # it may be of any request
    assert unread(stranger) == {"c0"}
    assert {outcomes.replies[name].response.outcome for name in SENT[:2]} == {RequestOutcome.MISSING}
    assert again(outcomes) == set(SENT[:2])


def test_any_number_of_odd_rows_is_told_in_one_sentence_for_each_kind() -> None:
    told = dict(summed([("a", f"line {number} " + "x" * 2000) for number in range(5000)] + [("b", "once")]))
    assert told["b"] == "once"
    assert (told["a"].startswith("5000 times: line 0 "), len(told["a"]) < 1600) == (True, True)
