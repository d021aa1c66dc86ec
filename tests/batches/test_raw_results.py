"""Raw results come back byte for byte, whatever a model wrote into them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.batches import raw_results
from layton_batch.clock import Pacing
from layton_batch.errors import ProviderReplyError, TransientProviderError
from layton_batch.providers.protocol import ResultPart


@given(content=st.binary(max_size=400), cut=st.integers(1, 50))
def test_lines_are_those_between_line_feeds_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("raw")
    chunks = iter([content[start : start + cut] for start in range(0, len(content), cut)])
    (part,) = raw_results.store(folder, [ResultPart("output", chunks)])
    assert part.arrived == len(content)
    lines = list(raw_results.lines(part.path))
    assert [line for line, _ in lines] == [line for line in content.split(b"\n") if line.strip()]
    assert all(complete for _, complete in lines[:-1])


def test_line_separators_of_unicode_do_not_end_a_line(tmp_path: Path) -> None:
    line = '{"text": "a\u2028b\u0085c"}'.encode()
    (part,) = raw_results.store(tmp_path, [ResultPart("output", iter([line, b"\n", line]))])
    assert list(raw_results.lines(part.path)) == [(line, True), (line, False)]


def test_a_download_that_breaks_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> object:
        yield b"half"
        raise RuntimeError("the connection is gone")

    with pytest.raises(RuntimeError):
        raw_results.store(tmp_path, [ResultPart("output", broken())])  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


CONTENT = bytes(range(65, 91)) * 40 + b"\n"


def dropping(start: int, most: int) -> Iterator[bytes]:
    """The content from ``start``, in pieces of ten bytes, over a connection that breaks after ``most`` of them."""
    for at in range(start, len(CONTENT), 10):
        if at - start >= most:
            raise TransientProviderError("peer closed the connection")
        yield CONTENT[at : at + 10]


def test_a_broken_download_goes_on_from_where_it_broke(tmp_path: Path) -> None:
    asked: list[int] = []

    def resume(start: int) -> Iterator[bytes]:
        asked.append(start)
        return dropping(start, 300)

    (part,) = raw_results.store(tmp_path, [ResultPart("output", dropping(0, 300), resume)])
    assert list(raw_results.lines(part.path)) == [(CONTENT[:-1], True)]
    assert asked == [300, 600, 900]


def no_ranges(_start: int) -> Iterator[bytes]:
    raise ProviderReplyError("HTTP 200 where 206 was asked for")


def nothing_more(_start: int) -> Iterator[bytes]:
    return dropping(0, 0)


def a_byte_at_a_time(start: int) -> Iterator[bytes]:
    return dropping(start, 1)


@pytest.mark.parametrize("resume", [None, no_ranges, nothing_more, a_byte_at_a_time])
def test_where_there_is_no_going_on_the_break_is_what_is_reported(
    tmp_path: Path, resume: Callable[[int], Iterator[bytes]] | None
) -> None:
    with pytest.raises(TransientProviderError, match="peer closed"):
        raw_results.store(tmp_path, [ResultPart("output", dropping(0, 300), resume)])
    assert list(tmp_path.iterdir()) == []


def test_waiting_grows_and_is_bounded_whatever_a_provider_asks() -> None:
    pacing = Pacing()
    pauses = [pacing.backoff(failures) for failures in range(40)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == pacing.longest_pause
    assert pacing.backoff(0, 3600.0) == pacing.longest_pause
    assert pacing.backoff(0, 60.0) == 60.0


def part(content: bytes, kind: str = "output") -> ResultPart:
    return ResultPart(kind, iter([content]))


def broken_off(kind: str) -> ResultPart:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise TransientProviderError("peer closed the connection")

    return ResultPart(kind, chunks())


def test_each_download_is_kept_beside_the_earlier_ones_and_the_same_bytes_once(tmp_path: Path) -> None:
    contents = [b"one\n", b"two\n", b"one\n", b"", *(b"%d\n" % number for number in range(8))]
    stored = [raw_results.store(tmp_path, [part(content)])[0] for content in contents]
    assert [one.is_new for one in stored[:4]] == [True, True, False, True]
    assert stored[2].path == stored[0].path
    paths = raw_results.copies(tmp_path)["output"]
    assert [path.name for path in paths[:3]] == ["output.jsonl.zst", "output.2.jsonl.zst", "output.3.jsonl.zst"]
    assert [line for path in paths for line, _ in raw_results.lines(path)] == [
        content.strip() for content in dict.fromkeys(contents) if content
    ]


REFS = {"output": "file-1", "errors": "file-2"}


def test_a_file_that_came_whole_is_not_fetched_again_when_another_one_broke_off(tmp_path: Path) -> None:
    with pytest.raises(TransientProviderError):
        raw_results.store(tmp_path, [part(b"one\n"), broken_off("errors")], REFS)
    again = [broken_off("output"), part(b"two\n", "errors")]  # to ask for the first one would fail
    assert [one.arrived for one in raw_results.store(tmp_path, again, REFS)] == [4, 4]
    assert [one.is_new for one in raw_results.store(tmp_path, [part(b"one\n")], REFS)] == [False]


def test_files_of_one_kind_are_each_fetched_and_none_in_the_place_of_another(tmp_path: Path) -> None:
    with pytest.raises(TransientProviderError):
        raw_results.store(tmp_path, [part(b"one\n"), broken_off("output")], REFS)
    again = [broken_off("output"), part(b"three\n"), part(b"two\n", "errors")]
    assert [one.arrived for one in raw_results.store(tmp_path, again, REFS)] == [4, 6, 4]


def test_it_is_where_the_provider_names_another_file_by_now(tmp_path: Path) -> None:
    with pytest.raises(TransientProviderError):
        raw_results.store(tmp_path, [part(b"one\n"), broken_off("errors")], REFS)
    again = [part(b"three\n"), part(b"two\n", "errors")]
    assert [one.arrived for one in raw_results.store(tmp_path, again, REFS | {"output": "file-3"})] == [6, 4]


def test_copies_that_name_nothing_go_when_a_better_one_is_there_and_the_last_of_them_stays_otherwise(
    tmp_path: Path,
) -> None:
    pages = [raw_results.store(tmp_path, [part(b"page %d" % number)])[0].path for number in range(3)]
    raw_results.prune(tmp_path, pages, ())
    assert raw_results.copies(tmp_path) == {"output": pages[2:]}
    better = raw_results.store(tmp_path, [part(b"answers\n")])[0].path
    raw_results.prune(tmp_path, {better, pages[2]}, {better})
    assert raw_results.copies(tmp_path) == {"output": [better]}


def test_a_copy_that_another_process_brought_after_the_reading_stays(tmp_path: Path) -> None:
    read = raw_results.store(tmp_path, [part(b"few answers\n")])[0].path
    since = raw_results.store(tmp_path, [part(b"all answers\n")])[0].path
    raw_results.prune(tmp_path, {read}, {read})
    assert raw_results.copies(tmp_path) == {"output": [read, since]}


def test_a_copy_that_another_process_removed_meanwhile_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, answers = (raw_results.store(tmp_path, [part(content)])[0].path for content in (b"page\n", b"answers\n"))
    page.unlink()
    monkeypatch.setattr(raw_results, "copies", lambda _folder: {"output": [page, answers]})
    assert not raw_results.store(tmp_path, [part(b"answers\n")])[0].is_new
    raw_results.prune(tmp_path, {page, answers}, {answers})
    assert [path.name for path in tmp_path.iterdir()] == [answers.name]


def test_a_long_line_is_read_in_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_results, "_CHUNK", 1 << 10)
    line = b"x" * (16 << 20)
    (stored,) = raw_results.store(tmp_path, [part(line + b"\nend\n")])
    begun = time.process_time()
    assert list(raw_results.lines(stored.path)) == [(line, True), (b"end", True)]
    assert time.process_time() - begun < 2.0


def test_of_a_line_longer_than_any_reply_only_the_beginning_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_results, "LONGEST_LINE", 100)
    for size in (100, 101, 3 << 20):
        (stored,) = raw_results.store(tmp_path / str(size), [part(b"x" * size + b"\nend\n" + b"y" * size)])
        lines = list(raw_results.lines(stored.path))
        assert lines == [(b"x" * min(size, 101), True), (b"end", True), (b"y" * min(size, 101), False)]
