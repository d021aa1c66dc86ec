"""Packing lines into batch files: nothing lost, nothing doubled, no limit broken, always the same."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from layton_batch.batches.batch_file import Line, PackedFiles, pack
from layton_batch.providers.protocol import Limits


def packed(sizes: list[int], limits: Limits, folder: Path, cost: Decimal | None = Decimal("0.5")) -> PackedFiles:
    lines = [Line(f"c{n}", b"x" * size, cost) for n, size in enumerate(sizes)]
    return pack(lines, limits, folder, folder / "requests" / "job")


@given(
    sizes=st.lists(st.integers(0, 40), max_size=60),
    most=st.integers(1, 7),
    most_bytes=st.integers(10, 90),
    line_bytes=st.integers(5, 60),
)
def test_every_line_is_in_exactly_one_file_or_named_as_too_large(
    sizes: list[int], most: int, most_bytes: int, line_bytes: int
) -> None:
    limits = Limits(max_requests=most, max_bytes=most_bytes, max_line_bytes=line_bytes)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = packed(sizes, limits, folder)
        files = [(folder / shard.path).read_bytes().split(b"\n")[:-1] for shard in result.shards]
        fits = [size for size in sizes if size + 1 <= min(line_bytes, most_bytes)]
        assert [len(line) for lines in files for line in lines] == fits
        assert len(result.too_large) == len(sizes) - len(fits)
        assert set(result.shard_of) | set(result.too_large) == {f"c{n}" for n in range(len(sizes))}
        for shard, lines in zip(result.shards, files, strict=True):
            assert (shard.requests, shard.size_bytes) == (len(lines), sum(len(line) + 1 for line in lines))
            assert 1 <= shard.requests <= most
            assert shard.size_bytes <= most_bytes
            assert shard.max_cost == Decimal("0.5") * len(lines)


def test_a_cost_that_is_unknown_for_one_line_is_unknown_for_its_file(tmp_path: Path) -> None:
    lines = [Line("a", b"1", Decimal(1)), Line("b", b"2", None)]
    limits = Limits(max_requests=5, max_bytes=100, max_line_bytes=100)
    assert pack(lines, limits, tmp_path, tmp_path / "r").shards[0].max_cost is None


def test_numbering_can_go_on_where_an_earlier_plan_stopped(tmp_path: Path) -> None:
    limits = Limits(max_requests=1, max_bytes=100, max_line_bytes=100)
    result = pack([Line("a", b"1", None), Line("b", b"2", None)], limits, tmp_path, tmp_path / "r", first=3)
    assert [shard.id for shard in result.shards] == ["s0003", "s0004"]
