"""Sources: every way to name rows works, and every bad file says where and why."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from layton_batch.errors import DataError
from layton_batch.files.sources import RowLocation, Rows, read_rows
from layton_batch.settings import Settings
from layton_batch.testing.providers import Answer
from tests.support.file_site import FileSite
from tests.support.manual_clock import ManualClock

GOOD = b'{"id": "a"}\n\n{"id": "b", "text": "\xc3\xa9"}\n'


def read(source: str, base: Path, cwd: Path | None = None) -> Rows:
    return read_rows(source, base, Settings(cwd or base))


def ids(rows: Rows) -> list[object]:
    return [row["id"] for row in rows]


# ---- local files ---------------------------------------------------------------------------------------------------


def test_rows_know_their_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(GOOD)
    rows = read("x.jsonl", tmp_path)
    assert (len(rows), rows[1]["text"]) == (2, "é")
    assert tuple(rows.locations) == (
        RowLocation(str(tmp_path / "x.jsonl"), 1),
        RowLocation(str(tmp_path / "x.jsonl"), 3),
    )
    assert str(rows.locations[1]).endswith("x.jsonl, line 3")


def test_a_path_is_looked_for_beside_the_manifest_and_then_in_the_working_folder(tmp_path: Path) -> None:
    manifests, work = tmp_path / "manifests", tmp_path / "work"
    for folder, name in ((manifests, "near"), (work, "far")):
        folder.mkdir()
        (folder / "x.jsonl").write_text(f'{{"id": "{name}"}}')
    assert ids(read("x.jsonl", manifests, work)) == ["near"]
    (manifests / "x.jsonl").unlink()
    assert ids(read("x.jsonl", manifests, work)) == ["far"]
    assert ids(read(str(work / "x.jsonl"), manifests, manifests)) == ["far"]


@pytest.mark.parametrize("name", ["data.parquet", "data.anything"])
def test_parquet_is_known_by_suffix_or_magic_and_comes_as_json_values(tmp_path: Path, name: str) -> None:
    frame = pl.DataFrame(
        {
            "id": ["a"], "n": [7], "flag": [True], "none": pl.Series([None], dtype=pl.String), "list": [["x", "y"]],
            "img": [{"bytes": b"\x00\xff", "path": None}], "day": [date(2026, 1, 2)], "usd": [Decimal("1.50")],
        }
    )  # fmt: skip
    frame.write_parquet(tmp_path / name)
    rows = read(name, tmp_path)
    assert rows[0] == {
        "id": "a", "n": 7, "flag": True, "none": None, "list": ["x", "y"],
        "img": {"bytes": base64.b64encode(b"\x00\xff").decode(), "path": None}, "day": "2026-01-02", "usd": "1.50",
    }  # fmt: skip
    assert rows.locations[0].line == 1


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b'{"id": "a"}\n{"id": "b", "te', 2, "not JSON"),
        (b'{"id": "a"}\n{"id": "caf\xe9"}\n', 2, r"not UTF-8 \(byte 12 of the line is 0xe9\)"),
        (b'{"id": "a, "b": 1}\n', 1, "not JSON: .* at character 13"),
        (b'{"id": NaN}\n', 1, "not JSON"),
        (b'{"id": "\\ud83d"}\n', 1, "not JSON"),
        (b'[{"id": "a"}]\n', 1, "one object a line is expected, not an array"),
        (b'{"id": "a"}\n7\n', 2, "one object a line is expected, not a number"),
        (b"[" * 100_000, 1, "not JSON"),
    ],
)
def test_a_bad_line_is_named_with_its_reason(tmp_path: Path, content: bytes, line: int, reason: str) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=rf"x\.jsonl, line {line}: .*{reason}"):
        read("x.jsonl", tmp_path)


def test_a_parquet_file_without_rows_or_cut_off_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pl.DataFrame({"id": []}, schema={"id": pl.String}).write_parquet(path)
    with pytest.raises(DataError, match="there is no row"):
        read("x.parquet", tmp_path)
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(DataError, match=r"x\.parquet: not a readable Parquet file"):
        read("x.parquet", tmp_path)


# ---- the web -------------------------------------------------------------------------------------------------------

IN_HUB = "/datasets/o/n/resolve/main/sub/x.jsonl"


@pytest.fixture
def site() -> Iterator[FileSite]:
    found = FileSite()
    found.serve("/x.jsonl", GOOD)
    with found:
        yield found


def fetch(source: str, site: FileSite, tmp_path: Path, clock: ManualClock | None = None) -> Rows:
    settings = Settings.from_environment({"HF_ENDPOINT": site.url, "HF_TOKEN": "hf_secret"}, tmp_path)
    return read_rows(source.replace("here:", site.url), tmp_path, settings, clock or ManualClock())


def test_a_hub_source_is_resolved_and_asked_for_with_the_token_which_goes_nowhere_else(
    site: FileSite, tmp_path: Path
) -> None:
    site.serve(IN_HUB, GOOD, Answer(302, headers={"location": f"{site.url}/x.jsonl".replace("127.0.0.1", "localhost")}))
    rows = fetch("hf://datasets/o/n/sub/x.jsonl", site, tmp_path)
    assert (ids(rows), rows.locations[0].file) == (["a", "b"], "hf://datasets/o/n/sub/x.jsonl")
    assert site.asked == [(IN_HUB, "Bearer hf_secret")]
    fetch("here:/x.jsonl", site, tmp_path)
    fetch("hf://datasets/o/n/sub/x.jsonl", site, tmp_path)
    assert [token for path, token in site.asked if path == "/x.jsonl"] == [None, None]


def test_a_redirect_is_followed_to_the_same_host_only(site: FileSite, tmp_path: Path) -> None:
    there = f"{site.url}/x.jsonl".replace("127.0.0.1", "localhost")
    for path, place in (("/here", "/x.jsonl"), ("/there", there)):
        site.serve(path, Answer(302, headers={"location": place}))
    assert len(fetch("here:/here", site, tmp_path)) == 2
    with pytest.raises(DataError, match="redirects to another host, localhost, which is not followed"):
        fetch("here:/there", site, tmp_path)


def test_passing_failures_are_tried_again_with_growing_waits_to_an_end(site: FileSite, tmp_path: Path) -> None:
    site.serve("/x.jsonl", Answer(503), Answer(429, headers={"retry-after": "9999"}), GOOD)
    clock = ManualClock(0.0)
    assert len(fetch("here:/x.jsonl", site, tmp_path, clock)) == 2
    assert clock.seconds == 1.0 + 60.0  # a minute at most, whatever the server asks for
    site.serve("/never", Answer(500))
    with pytest.raises(DataError, match="download failed 4 times, at last with: HTTP 500"):
        fetch("here:/never", site, tmp_path, clock)
    assert clock.seconds == 61.0 + 1.0 + 2.0 + 4.0
    assert len(site.asked) == 3 + 4


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, r"access refused \(HTTP 401\).*ask for access.*HF_TOKEN"),
        (403, r"access refused \(HTTP 403\).*ask for access.*HF_TOKEN"),
        (404, r"no such file \(HTTP 404\)"),
        (410, r"download refused \(HTTP 410\)"),
    ],
)
def test_a_refusal_says_what_to_do_and_is_not_tried_again(
    site: FileSite, tmp_path: Path, status: int, reason: str
) -> None:
    site.serve(IN_HUB, Answer(status, b"secret page"))
    with pytest.raises(DataError, match=reason) as caught:
        fetch("hf://datasets/o/n/sub/x.jsonl", site, tmp_path)
    assert "hf_secret" not in str(caught.value)
    assert len(site.asked) == 1


@pytest.mark.parametrize("source", ["hf://o/n/x.jsonl", "hf://datasets/o/x.jsonl", "hf://datasets/o/n/../x", "hf://"])
def test_a_malformed_hub_address_says_its_form(site: FileSite, tmp_path: Path, source: str) -> None:
    with pytest.raises(DataError, match="hf://datasets/<owner>/<name>/"):
        fetch(source, site, tmp_path)


def test_messages_do_not_show_what_is_secret_in_an_address(site: FileSite, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        fetch(site.url.replace("http://", "http://user:password@") + "/gone.jsonl?token=t#f", site, tmp_path)
    assert str(refused.value).startswith(f"{site.url}/gone.jsonl: ")
    assert not any(word in str(refused.value) for word in ("user", "password", "token=", "#f"))
