"""Logs that inspect_ai's own writer wrote, whole and broken."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
import zstandard

from layton_batch.errors import DataError
from layton_batch.interchange import inspect_logs
from layton_batch.interchange.score_file import ScoreFile
from layton_batch.interchange.score_forms import read
from tests.support.harness_files import GOLDEN


def _one(path: Path) -> ScoreFile:
    files = read(path)
    assert files is not None
    (one,) = files
    return one


def _member(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return inspect_logs._member(path, archive, name)


def _document(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_bytes() if path.suffix == ".json" else _member(path, "header.json"))
    return found


@pytest.mark.parametrize("name", ["finch.eval", "robin.eval", "wren.json"])
def test_the_mean_of_the_marks_is_inspects_own_for_every_scorer(name: str) -> None:
    path = GOLDEN / name
    one, results = _one(path), _document(path)["results"]
    assert isinstance(results, dict)
    own = {score["name"]: score["metrics"]["accuracy"]["value"] for score in results["scores"]}
    means = {}
    for metric, outcomes in one.metrics.items():
        marks = [outcome.mark for outcome in outcomes.values() if outcome.mark is not None]
        means[metric] = sum(marks) / len(marks)
    assert means == pytest.approx(own)
    assert next(iter(one.metrics)) == "match"
    assert one.model == f"mockllm/{path.stem}"


def test_a_log_without_summaries_is_read_from_its_samples(tmp_path: Path) -> None:
    path, source = tmp_path / "finch.eval", GOLDEN / "finch.eval"
    with zipfile.ZipFile(source) as log, zipfile.ZipFile(path, "w") as archive:
        for name in log.namelist():
            if "summaries" not in name:
                archive.writestr(name, _member(source, name))
    assert _one(path).metrics == _one(source).metrics


def test_a_log_that_was_cut_short_says_so(tmp_path: Path) -> None:
    path = tmp_path / "wren.json"
    path.write_text(json.dumps({**_document(GOLDEN / "wren.json"), "status": "cancelled"}))
    (note,) = _one(path).notes
    assert "cancelled" in note


def test_a_sample_without_a_score_is_outside_the_score(tmp_path: Path) -> None:
    log = _document(GOLDEN / "wren.json")
    samples = log["samples"]
    assert isinstance(samples, list)
    del samples[0]["scores"]
    path = tmp_path / "wren.json"
    path.write_text(json.dumps(log))
    outcome = _one(path).metrics["match"][samples[0]["id"]]
    assert (outcome.mark, outcome.kind) == (None, "missing")


@pytest.mark.parametrize(
    ("value", "mark"), [("C", 1), ("P", 0.5), ("N", 0), ("YES", 1), ("0.25", 0.25), (True, 1), (0.75, 0.75)]
)
def test_words_and_numbers_are_marks(tmp_path: Path, value: object, mark: float) -> None:
    log = _document(GOLDEN / "wren.json")
    samples = log["samples"]
    assert isinstance(samples, list)
    samples[0]["scores"]["match"]["value"] = value
    path = tmp_path / "wren.json"
    path.write_text(json.dumps(log))
    assert _one(path).metrics["match"][samples[0]["id"]].mark == mark


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def _without_header(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("summaries.json", "[]")


def _damaged(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("summaries.json")
    content = bytearray(path.read_bytes())
    content[info.header_offset + 80 : info.header_offset + 120] = b"\xff" * 40
    path.write_bytes(bytes(content))


def _no_samples(path: Path) -> None:
    header = _member(path, "header.json")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", header)
        archive.writestr("summaries.json", "[]")


def _no_objects(path: Path) -> None:
    header = _member(path, "header.json")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", header)
        archive.writestr("summaries.json", "[7]")


def _twice(path: Path) -> None:
    header, samples = _member(path, "header.json"), json.loads(_member(path, "summaries.json"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", header)
        archive.writestr("summaries.json", json.dumps([*samples, samples[0]]))


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (_cut, "not a readable inspect log"),
        (_without_header, "no _journal/start.json in it"),
        (_damaged, "summaries.json"),
        (_no_samples, "there are no samples"),
        (_no_objects, "sample 1: an object is expected"),
        (_twice, "sample 7: sample 'q/5' (epoch 1) is there twice"),
    ],
)
def test_a_broken_log_is_an_error_that_names_the_file_and_the_reason(tmp_path: Path, break_it, reason: str) -> None:  # type: ignore[no-untyped-def]
    path = Path(shutil.copy(GOLDEN / "finch.eval", tmp_path))
    break_it(path)
    with pytest.raises(DataError) as error:
        read(path)
    assert reason in str(error.value)
    assert str(path) in str(error.value)


def test_a_member_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_logs, "LARGEST_JSON", 1000)
    with pytest.raises(DataError, match=r"header\.json: is larger than"):
        read(GOLDEN / "finch.eval")
    packed = zstandard.ZstdCompressor().compress(b" " * 5_000)
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", packed)
    content = bytearray(path.read_bytes())  # the table of contents says: stored in zstd, a small file
    for at in (8, content.index(b"PK\x01\x02") + 10):
        content[at : at + 2] = (93).to_bytes(2, "little")
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"header\.json"):
        read(path)
