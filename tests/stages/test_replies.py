"""Replies in short, in memory, and whole, from disk: the same replies, whatever is in them."""

from __future__ import annotations

import errno
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import NoReturn

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layton_batch.batches import raw_results
from layton_batch.batches.replies import Replies, ReplyIndex, read_apart, unpacked
from layton_batch.errors import FileError, ProviderReplyError
from layton_batch.providers import connect
from layton_batch.providers.protocol import ResultPart
from layton_batch.records import Response

decode = connect("openai", None).decode


def line(custom_id: str, text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": "c", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": len(text)}}
    return orjson.dumps(
        {"id": "r", "custom_id": custom_id, "response": {"status_code": 200, "body": body}, "error": None}
    )


def kept(folder: Path, *lines: bytes, end: bytes = b"\n") -> Path:
    raw_results.store(folder / "raw", [ResultPart("output", iter([b"\n".join(lines) + end]))])
    return folder / "raw"


def briefs(replies: Replies) -> list[ReplyIndex]:
    return [entry for entry in replies.entries if isinstance(entry, ReplyIndex)]


@given(texts=st.lists(st.text(max_size=30), max_size=12), asked=st.randoms())
@settings(max_examples=50, deadline=None)
def test_each_reply_is_found_again_whole_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], asked: object
) -> None:
    folder = tmp_path_factory.mktemp("run")
    lines = [line(f"c{number}", text) for number, text in enumerate(texts)]
    with unpacked(kept(folder, *lines), decode, folder) as replies:
        found = [entry for entry in replies.entries if not isinstance(entry, str)]
        asked.shuffle(found)  # type: ignore[attr-defined]
        whole = {entry.custom_id: replies.whole(entry) for entry in found}
    assert whole == {f"c{number}": decode(one) for number, one in enumerate(lines)}
    assert [path.name for path in folder.iterdir()] == ["raw"]


def test_texts_stay_on_disk(tmp_path: Path) -> None:
    text = "a page " * 1_000
    with unpacked(kept(tmp_path, line("c1", text)), decode, tmp_path) as replies:
        assert text not in repr(replies.entries)
        assert replies.whole(briefs(replies)[0]).text == text


def test_one_reply_twice_is_equal_and_another_text_is_not(tmp_path: Path) -> None:
    folder = kept(tmp_path, line("c1", "yes"), line("c1", "yes"), line("c1", "no"))
    with unpacked(folder, decode, tmp_path) as replies:
        first, again, other = briefs(replies)
    assert first == again != other


def test_what_a_worker_read_is_what_this_process_reads(tmp_path: Path) -> None:
    long, other = line("c1", "yes, " * 50), line("c1", "no, " * 50)
    folder = kept(tmp_path, long, line("c2", "short"), long, other, line("c3", "x" * 90)[:-20], b"what is this")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as workers:
        apart = workers.submit(read_apart, folder, "openai", tmp_path / "room").result()
    with (
        unpacked(folder, decode, tmp_path, ("content",)) as here,
        (tmp_path / "room" / "replies").open("rb") as spilled,
    ):
        there = replace(apart, _spilled=spilled)
        assert there.entries == here.entries
        assert len({one for one in briefs(there) if one.custom_id == "c1"}) == 2
        for one, same in zip(briefs(there), briefs(here), strict=True):
            assert there.whole(one) == here.whole(same)
        assert there.together(briefs(there))[1].equals(here.together(briefs(here))[1])


def test_damaged_lines_speak_for_whom_they_name_and_a_cut_part_is_told(tmp_path: Path) -> None:
    cut, nameless = line("c2", "text")[:60], b"what is this"
    with unpacked(kept(tmp_path, line("c1", "text"), nameless, cut, end=b""), decode, tmp_path) as replies:
        first, second, third = replies.entries
    assert not isinstance(first, str)
    assert first.custom_id == "c1"
    assert isinstance(second, str)
    assert "line 2" in second
    assert isinstance(third, Response)
    assert third.custom_id == "c2"
    assert (replies.named, replies.damaged, {path.stem for path in replies.cut}) == ({"c1"}, 2, {"output.jsonl"})


def test_a_part_of_which_no_line_names_a_request_is_foreign(tmp_path: Path) -> None:
    page = ResultPart("output", iter([b"<html>\n<body>later</body>\n</html>\n"]))
    empty, errors = ResultPart("empty", iter([])), ResultPart("errors", iter([line("c1", "no"), b"\nwhat is this\n"]))
    cut = ResultPart("cut", iter([line("c2", "text")[:60]]))
    raw_results.store(tmp_path / "raw", [page, empty, errors, cut])
    with unpacked(tmp_path / "raw", decode, tmp_path) as replies:
        assert {path.stem for path in replies.foreign} == {"output.jsonl"}


def test_no_results_are_no_replies(tmp_path: Path) -> None:
    with unpacked(tmp_path / "raw", decode, tmp_path) as replies:
        assert (list(replies.entries), replies.named, replies.damaged) == ([], set(), 0)


def test_a_full_disk_is_told_and_the_results_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kept(tmp_path, line("c1", "text"))

    def full(**_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(FileError, match="No space left on device; they are kept"), unpacked(folder, decode, tmp_path):
        pass
    assert list(folder.iterdir())


def test_an_error_of_the_block_is_the_blocks(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="its own"), unpacked(tmp_path, decode, tmp_path):
        raise OSError("its own")
    with pytest.raises(ProviderReplyError), unpacked(tmp_path, decode, tmp_path):
        raise ProviderReplyError("its own")


def copies(folder: Path, *contents: bytes) -> Path:
    """Downloads of one file, one after another."""
    for content in contents:
        raw_results.store(folder / "raw", [ResultPart("output", iter([content]))])
    return folder / "raw"


def error(custom_id: str) -> bytes:
    body = {"error": {"message": "later", "code": "server_error"}}
    return orjson.dumps({"custom_id": custom_id, "response": {"status_code": 500, "body": body}})


C1, C2, C3 = (line(f"c{number}", "text") + b"\n" for number in (1, 2, 3))


def test_several_downloads_are_read_as_one_and_each_reply_is_there_once(tmp_path: Path) -> None:
    with unpacked(copies(tmp_path, C1 + C2, C2 + C3, C1, b""), decode, tmp_path) as replies:
        assert sorted(replies.named) == ["c1", "c2", "c3"]
        assert [one.custom_id for one in briefs(replies)] == ["c1", "c2", "c3"]
        assert all(replies.whole(one).text == "text" for one in briefs(replies))


def test_what_one_download_damaged_and_another_has_is_not_damaged(tmp_path: Path) -> None:
    cut = C1 + C2[:60]
    for number, contents in enumerate([(cut, C1 + error("c2")), (C1 + b"?" * 9, C1 + C2), (error("c2"), cut)]):
        with unpacked(copies(tmp_path / str(number), *contents), decode, tmp_path) as replies:
            assert sorted(replies.named) == ["c1", "c2"]
            assert not any(isinstance(one, str) or one.error_class == "unreadable" for one in replies.entries)


def test_damage_that_no_other_download_explains_stays(tmp_path: Path) -> None:
    with unpacked(copies(tmp_path, C1 + b"what is this\n", C1), decode, tmp_path) as replies:
        assert sum(isinstance(one, str) for one in replies.entries) == 1
    with unpacked(copies(tmp_path / "2", C1 + C2[:60], C3), decode, tmp_path) as replies:
        assert [one.custom_id for one in replies.entries if not isinstance(one, str)] == ["c1", "c2", "c3"]


def test_a_page_of_html_says_nothing_beside_a_download_that_names_requests(tmp_path: Path) -> None:
    for number, contents in enumerate([(C1, b"<html>\n</html>"), (b"<html>\n</html>", C1)]):
        with unpacked(copies(tmp_path / str(number), *contents), decode, tmp_path) as replies:
            assert [one.custom_id for one in briefs(replies)] == ["c1"]
            assert (len(replies.entries), len(replies.foreign)) == (1, 1)


def test_a_line_longer_than_any_reply_is_a_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_results, "LONGEST_LINE", 1000)
    folder = copies(tmp_path, C1.rstrip() + b" " * 1000 + b"\n" + C2)
    with unpacked(folder, decode, tmp_path) as replies:
        (damaged,) = [one for one in replies.entries if isinstance(one, Response)]
        assert (damaged.custom_id, damaged.error_class) == ("c1", "unreadable")
        assert "longer than 1000 bytes" in str(damaged.error_message)


def test_a_copy_that_another_process_removed_meanwhile_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copies(tmp_path, b"<html>", C1 + C2)
    listed = raw_results.copies(folder)
    listed["output"][0].unlink()
    monkeypatch.setattr(raw_results, "copies", lambda _folder: listed)
    with unpacked(folder, decode, tmp_path) as replies:
        assert replies.named == {"c1", "c2"}
        assert replies.parts.keys() == {listed["output"][1]}
