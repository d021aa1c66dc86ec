"""Packing lines into batch files: nothing lost, nothing doubled, no limit broken, always the same."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from layton_batch.providers.protocol import Limits
from tests.support.batch_files import files_of


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
        shards, places = files_of([b"x" * size for size in sizes], limits, folder, Decimal("0.5"))
        files = [(folder / shard.path).read_bytes().split(b"\n")[:-1] for shard in shards]
        fits = [size for size in sizes if size + 1 <= min(line_bytes, most_bytes)]
        assert [len(line) for lines in files for line in lines] == fits
        assert (len(places), places.count(None)) == (len(sizes), len(sizes) - len(fits))
        for shard, lines in zip(shards, files, strict=True):
            assert places.count(shard.id) == len(lines)
            assert (shard.requests, shard.size_bytes) == (len(lines), sum(len(line) + 1 for line in lines))
            assert 1 <= shard.requests <= most
            assert shard.size_bytes <= most_bytes
            assert shard.max_cost == shard.expected_usd == Decimal("0.5") * len(lines)
