"""Files of others that are larger than they look: refused in little memory, with the limit and what raises it."""

from __future__ import annotations

import json
import os
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import polars as pl
import pytest

import layton_batch as lb
from layton_batch.errors import DataError
from layton_batch.files.limits import LIMITS, FileLimits
from layton_batch.files.sources import json_list, read_rows, stream_rows
from layton_batch.interchange import score_file, score_forms
from layton_batch.settings import Settings
from tests.support.manual_clock import ManualClock

MIB = 1 << 20
LITTLE = 48 * MIB


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that small files exceed."""
    for name, value in {"row_mib": 1, "unpacked_mib": 2, "download_mib": 3, "rows": 1000, "members": 20}.items():
        monkeypatch.setattr(LIMITS, name, value)


def rows(path: Path) -> list[object]:
    return list(read_rows(str(path), path.parent, Settings(path.parent)))


# ---- Parquet


def test_a_parquet_file_with_too_large_a_cell_is_refused(tmp_path: Path, small: None) -> None:
    path = tmp_path / "cell.parquet"
    pl.DataFrame({"id": ["x" * (60 * MIB)]}).write_parquet(path, compression="zstd")
    assert path.stat().st_size < MIB
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"LAYTON_BATCH_MAX_"):
            rows(path)
        assert tracemalloc.get_traced_memory()[1] < LITTLE
    finally:
        tracemalloc.stop()


def test_a_parquet_file_with_more_rows_than_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pl.select(pl.repeat(7, 12_000_000, dtype=pl.Int8).alias("id")).write_parquet(path)
    assert path.stat().st_size < MIB
    for read in (rows, lambda path: list(stream_rows(path)), lambda path: lb.grade("rome", predictions=[path])):
        with pytest.raises(DataError, match=r"the file has more than 10,000,000 rows\. .*LAYTON_BATCH_MAX_ROWS"):
            read(path)


# ---- lines, documents, pipes


READERS: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("x.jsonl", rows),
    ("x.jsonl", lambda path: list(stream_rows(path))),
    ("x.jsonl", lambda path: lb.grade("rome", predictions=[path])),
    ("x.jsonl", lambda path: list(score_file.json_lines(path))),
    ("x.json", score_forms.read),
    ("x.eval", score_forms.read),
    ("x.json", json_list),
    ("x.parquet", lambda path: lb.leaderboard(path.parent)),
)


@pytest.mark.parametrize(("name", "read"), READERS)
def test_a_line_beyond_the_limit_is_named_and_a_pipe_is_refused_and_not_waited_for(
    tmp_path: Path, small: None, name: str, read: Callable[[Path], object]
) -> None:
    path = tmp_path / name
    if path.suffix == ".jsonl":
        path.write_bytes(b'{"id": "a", "question_id": "a"}\n{"id": "' + b"b" * (3 * MIB) + b'"}\n')
        with pytest.raises(DataError, match=r"line 2: the line has more than 1 MiB.*LAYTON_BATCH_MAX_ROW_MIB"):
            read(path)
        path.unlink()
    os.mkfifo(path)
    with pytest.raises(DataError, match="is a pipe or a device, not a file"):
        read(path)


# ---- archives


def archive(path: Path, members: int, size: int = 10) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as held:
        held.writestr("header.json", '{"version": 2, "status": "success", "eval": {"model": "m", "task": "t"}}')
        for number in range(members):
            sample = {"id": number, "epoch": 1, "scores": {"s": {"value": 1, "x": "z" * size}}}
            held.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))
    return path


def test_an_archive_of_too_many_or_too_large_members_is_refused(tmp_path: Path, small: None) -> None:
    assert len(score_forms.read(archive(tmp_path / "good.eval", 10)) or ()) == 1
    for members, size, limit in ((21, 10, "MAX_MEMBERS"), (10, MIB // 2, "MAX_UNPACKED_MIB")):
        path = archive(tmp_path / f"{members}.eval", members, size)
        assert path.stat().st_size < MIB // 10
        with pytest.raises(DataError, match=limit):
            score_forms.read(path)


# ---- the web


HERE = "http://203.0.113.5/x.jsonl"


def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replies: dict[str, httpx.Response]) -> list[str]:
    """Fetch from hosts that reply so, without a network, until it is given up; the addresses that were asked."""
    asked: list[str] = []

    def handle(_transport: object, request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return replies[asked[-1]]

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)
    words = "this machine or its local link, which is not followed|more than 3 MiB.*LAYTON_BATCH_MAX_DOWNLOAD_MIB"
    with pytest.raises(DataError, match=words):
        read_rows(HERE, tmp_path, Settings(tmp_path), ManualClock(0.0))
    return asked


def test_a_download_that_inflates_without_an_end_is_given_up(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bytes] = []

    class Endless(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
            while len(taken) < 8:
                taken.append(packer.compress(b" " * MIB) + packer.flush(zlib.Z_SYNC_FLUSH))
                yield taken[-1]

    fetched(tmp_path, monkeypatch, {HERE: httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Endless())})
    assert len(taken) == 4


@pytest.mark.parametrize("host", [
    "127.0.0.1", "127.8.8.8", "localhost", "169.254.169.254", "0.0.0.0", "[::1]", "[fe80::1]", "[::ffff:127.0.0.1]",
    "2130706433",
])  # fmt: skip
def test_a_redirect_to_this_machine_or_its_link_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    target = f"http://{host}/latest/meta-data"
    replies = {HERE: httpx.Response(302, headers={"location": target}), target: httpx.Response(200, content=b"{}")}
    assert fetched(tmp_path, monkeypatch, replies) == [HERE]


# ---- the keys


def test_the_environment_raises_a_limit() -> None:
    limits = FileLimits()
    limits.take(Settings.from_environment({"LAYTON_BATCH_MAX_ROWS": "12", "LAYTON_BATCH_MAX_ROW_MIB": "7"}, Path()))
    assert (limits.rows, limits.row_mib, limits.members) == (12, 7, FileLimits().members)
