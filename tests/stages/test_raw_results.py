"""Raw results come back byte for byte, whatever a model wrote into them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    (path,) = raw_results.store(folder, [ResultPart("output", chunks)])
    lines = list(raw_results.lines(path))
    assert [line for line, _ in lines] == [line for line in content.split(b"\n") if line.strip()]
    assert all(complete for _, complete in lines[:-1])


def test_line_separators_of_unicode_do_not_end_a_line(tmp_path: Path) -> None:
    line = '{"text": "a\u2028b\u0085c"}'.encode()
    (path,) = raw_results.store(tmp_path, [ResultPart("output", iter([line, b"\n", line]))])
    assert list(raw_results.lines(path)) == [(line, True), (line, False)]


def test_a_download_that_breaks_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> object:
        yield b"half"
        raise RuntimeError("the connection is gone")

    with pytest.raises(RuntimeError):
        raw_results.store(tmp_path, [ResultPart("output", broken())])  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_waiting_grows_and_is_bounded_whatever_a_provider_asks() -> None:
    pauses = [backoff(failures) for failures in range(40)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_SECONDS
    assert backoff(0, 3600.0) == LONGEST_SECONDS
    assert backoff(0, 60.0) == 60.0
