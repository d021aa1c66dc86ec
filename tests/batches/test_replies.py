"""Replies read from stored parts: the same replies, whatever is in them and however often they were downloaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.batches import raw_results
from layton_batch.batches import replies as replies_module
from layton_batch.batches.replies import Replies, Reply, read_replies
from layton_batch.errors import FileError
from layton_batch.providers import connect
from layton_batch.providers.protocol import ResultPart
from layton_batch.records import Response
from layton_batch.states import RequestOutcome

decode = connect("openai", None).decode


def line(custom_id: str, text: str | None) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": "c", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": len(text or "")}}
    return orjson.dumps(
        {"id": "r", "custom_id": custom_id, "response": {"status_code": 200, "body": body}, "error": None}
    )


def kept(folder: Path, *lines: bytes, end: bytes = b"\n") -> Path:
    raw_results.store(folder / "raw", [ResultPart("output", iter([b"\n".join(lines) + end]))])
    return folder / "raw"


def whole(replies: Replies) -> list[Response]:
    """The responses of the lines that can be read, with their texts."""
    entries = [entry for entry in replies.entries if isinstance(entry, Reply)]
    texts = replies.texts_of(entries).to_list()
    return [replace(reply.response, text=text) for reply, text in zip(entries, texts, strict=True)]


@given(texts=st.lists(st.none() | st.text(max_size=30), max_size=12), asked=st.randoms(use_true_random=False))
def test_each_reply_has_its_own_text_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], asked: object
) -> None:
    folder = tmp_path_factory.mktemp("run")
    lines = [line(f"c{number}", text) for number, text in enumerate(texts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replies_module, "_PORTION", 20)
        replies = read_replies(kept(folder, *lines), decode)
    entries = [entry for entry in replies.entries if isinstance(entry, Reply)]
    asked.shuffle(entries)  # type: ignore[attr-defined]
    found = {reply.custom_id: text for reply, text in zip(entries, replies.texts_of(entries), strict=True)}
    assert found == {f"c{number}": decode(one).text for number, one in enumerate(lines)}
    assert whole(replies) == [decode(one) for one in lines]
    assert [path.name for path in folder.iterdir()] == ["raw"]


def test_texts_are_kept_once_however_often_they_were_downloaded(tmp_path: Path) -> None:
    replies = read_replies(copies(tmp_path, C1, C1 + C2, C1 + C2 + C3), decode)
    assert replies.texts.to_list() == ["text"] * 3


def test_half_a_surrogate_pair_of_a_dialect_is_replaced(tmp_path: Path) -> None:
    def odd(raw: bytes) -> Response:
        return Response(raw.decode(), RequestOutcome.SUCCEEDED, "half \ud83d of it")

    (response,) = whole(read_replies(kept(tmp_path, b"c1"), odd))
    assert response.text == "half \ufffd of it"


def test_a_line_separator_of_a_text_ends_no_line(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four\x0bfive"
    content = orjson.loads(line("c1", text))
    raw = orjson.dumps(content)
    assert "\u2028".encode() in raw
    assert [one.text for one in whole(read_replies(kept(tmp_path, raw), decode))] == [text]


def test_one_reply_twice_is_there_once_and_another_text_is_another_reply(tmp_path: Path) -> None:
    replies = read_replies(kept(tmp_path, line("c1", "yes"), line("c1", "yes"), line("c1", "no.")), decode)
    assert [one.text for one in whole(replies)] == ["yes", "no."]
    first, second = replies.entries
    assert first != second


def test_damaged_lines_speak_for_whom_they_name_and_a_cut_part_is_told(tmp_path: Path) -> None:
    cut, nameless = line("c2", "text")[:60], b"what is this"
    replies = read_replies(kept(tmp_path, line("c1", "text"), nameless, cut, end=b""), decode)
    first, second, third = replies.entries
    assert not isinstance(first, str)
    assert first.custom_id == "c1"
    assert isinstance(second, str)
    assert "line 2" in second
    assert isinstance(third, Reply)
    assert third.custom_id == "c2"
    assert (replies.named, replies.damaged, {path.stem for path in replies.cut}) == ({"c1"}, 2, {"output.jsonl"})


def test_a_part_of_which_no_line_names_a_request_is_foreign(tmp_path: Path) -> None:
    page = ResultPart("output", iter([b"<html>\n<body>later</body>\n</html>\n"]))
    empty, errors = ResultPart("empty", iter([])), ResultPart("errors", iter([line("c1", "no"), b"\nwhat is this\n"]))
    cut = ResultPart("cut", iter([line("c2", "text")[:60]]))
    raw_results.store(tmp_path / "raw", [page, empty, errors, cut])
    replies = read_replies(tmp_path / "raw", decode)
    assert {path.stem for path in replies.foreign} == {"output.jsonl"}


def test_no_results_are_no_replies(tmp_path: Path) -> None:
    replies = read_replies(tmp_path / "raw", decode)
    assert (list(replies.entries), replies.named, replies.damaged) == ([], set(), 0)


def test_a_part_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = kept(tmp_path, line("c1", "text"))
    (folder / "errors.jsonl.zst").mkdir()
    with pytest.raises(FileError, match=r"errors\.jsonl\.zst"):
        read_replies(folder, decode)


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
    replies = read_replies(copies(tmp_path, C1 + C2, C2 + C3, C1, b""), decode)
    assert sorted(replies.named) == ["c1", "c2", "c3"]
    assert [one.custom_id for one in whole(replies)] == ["c1", "c2", "c3"]
    assert all(one.text == "text" for one in whole(replies))


def test_what_one_download_damaged_and_another_has_is_not_damaged(tmp_path: Path) -> None:
    cut = C1 + C2[:60]
    for number, contents in enumerate([(cut, C1 + error("c2")), (C1 + b"?" * 9, C1 + C2), (error("c2"), cut)]):
        replies = read_replies(copies(tmp_path / str(number), *contents), decode)
        assert sorted(replies.named) == ["c1", "c2"]
        assert not any(isinstance(one, str) or one.response.error_class == "unreadable" for one in replies.entries)


def test_damage_that_no_other_download_explains_stays(tmp_path: Path) -> None:
    replies = read_replies(copies(tmp_path, C1 + b"what is this\n", C1), decode)
    assert sum(isinstance(one, str) for one in replies.entries) == 1
    replies = read_replies(copies(tmp_path / "2", C1 + C2[:60], C3), decode)
    assert [one.custom_id for one in replies.entries if not isinstance(one, str)] == ["c1", "c2", "c3"]


def test_a_page_of_html_says_nothing_beside_a_download_that_names_requests(tmp_path: Path) -> None:
    for number, contents in enumerate([(C1, b"<html>\n</html>"), (b"<html>\n</html>", C1)]):
        replies = read_replies(copies(tmp_path / str(number), *contents), decode)
        assert [one.custom_id for one in whole(replies)] == ["c1"]
        assert (len(replies.entries), len(replies.foreign)) == (1, 1)


def test_a_line_longer_than_any_reply_is_a_damaged_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_results, "LONGEST_LINE", 1000)
    folder = copies(tmp_path, C1.rstrip() + b" " * 1000 + b"\n" + C2)
    replies = read_replies(folder, decode)
    damaged = next(one for one in whole(replies) if one.error_class == "unreadable")
    assert (damaged.custom_id, damaged.error_class) == ("c1", "unreadable")
    assert "longer than 1000 bytes" in str(damaged.error_message)


def test_a_copy_that_another_process_removed_meanwhile_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copies(tmp_path, b"<html>", C1 + C2)
    listed = raw_results.copies(folder)
    listed["output"][0].unlink()
    monkeypatch.setattr(raw_results, "copies", lambda _folder: listed)
    replies = read_replies(folder, decode)
    assert replies.named == {"c1", "c2"}
    assert replies.parts.keys() == {listed["output"][1]}
