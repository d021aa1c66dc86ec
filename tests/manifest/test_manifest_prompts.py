"""Prompts at addresses: fetched once when a manifest is loaded, frozen with the run, counted by their content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import layton_batch as lb
from layton_batch.errors import ManifestError
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.asked import manifest_task
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest
from tests.support.file_site import FileSite
from tests.support.manifest_texts import MINIMAL, write

JUDGE = "Be fair, é.\r\n"


@pytest.fixture
def web() -> Iterator[FileSite]:
    found = FileSite()
    with found:
        yield found


def manifest(tmp_path: Path, source: str, name: str = "judge_system") -> Path:
    return write(tmp_path, f'{MINIMAL}[prompts]\n{name} = "{source}"\n')


def begin(found: Manifest, runs: Path) -> None:
    folder = RunFolder(runs / found.name)
    folder.root.mkdir(parents=True)
    folder.manifest.write_text(found.frozen_json(), encoding="utf-8")


def test_a_prompt_at_an_address_is_the_same_as_one_in_a_file(tmp_path: Path, web: FileSite) -> None:
    web.serve("/judge.txt", JUDGE.encode())
    (tmp_path / "judge.txt").write_bytes(JUDGE.encode())
    fetched = load_manifest(manifest(tmp_path, f"{web.url}/judge.txt"))
    local = load_manifest(manifest(tmp_path, "judge.txt"))
    assert fetched.identity() == local.identity()
    assert fetched.prompt_paths()["judge_system"].read_bytes() == JUDGE.encode()
    assert manifest_task(fetched).name == "layton"
    assert len(web.asked) == 1


def test_a_run_goes_on_with_its_frozen_copy_and_asks_nobody(tmp_path: Path, web: FileSite) -> None:
    path, runs = manifest(tmp_path, f"{web.url}/judge.txt"), tmp_path / "runs"
    web.serve("/judge.txt", b"Be fair.")
    begin(load_manifest(path), runs)
    web.calls.clear()
    web.replies.clear()
    for offline in (False, True):
        assert lb.check(path, runs=runs, offline=offline).as_json()
    with pytest.raises(ManifestError, match="no run has a copy"):
        lb.check(path, offline=True)
    assert web.asked == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "there is no such file"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"\n<!DOCTYPE html><html>", "is a web page, not a text file; give the address of the raw file"),
        (b"x" * 1_000_001, "too many for a prompt"),
    ],
)
def test_what_cannot_be_had_is_told_with_its_key_and_address(
    tmp_path: Path, web: FileSite, content: bytes | None, reason: str
) -> None:
    if content is not None:
        web.serve("/judge.txt", content)
    with pytest.raises(ManifestError, match=rf"prompts\.judge_system: {web.url}/judge\.txt.*{reason}"):
        load_manifest(manifest(tmp_path, f"{web.url}/judge.txt"))
