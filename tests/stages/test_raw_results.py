"""Raw results come back byte for byte, whatever a model wrote into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layton_batch.errors import ProviderReplyError, TransientProviderError
from layton_batch.providers.protocol import ResultPart
from layton_batch.stages import raw_results
from layton_batch.stages.backoff import LONGEST_SECONDS, backoff


@given(content=st.binary(max_size=400), cut=st.integers(1, 50))
@settings(max_examples=50, deadline=None)
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
    pauses = [backoff(failures) for failures in range(40)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_SECONDS
    assert backoff(0, 3600.0) == LONGEST_SECONDS
    assert backoff(0, 60.0) == 60.0
