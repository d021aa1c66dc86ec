"""Logs that inspect_ai's own writer wrote, whole and broken."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
        return inspect_logs.member(path, archive, name)


def _document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes() if path.suffix == ".json" else _member(path, "header.json"))
    return found


@pytest.mark.parametrize("name", ["finch.eval", "robin.eval", "wren.json"])
def test_the_mean_of_the_marks_is_inspects_own_for_every_scorer(name: str) -> None:
    path = GOLDEN / name
    one, results = _one(path), _document(path)["results"]
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


def _changed(path: Path, change: Callable[[dict[str, Any]], object]) -> ScoreFile:
    """Read a log with its document changed."""
    log = _document(GOLDEN / "wren.json")
    change(log)
    path.write_text(json.dumps(log))
    return _one(path)


def test_a_sample_without_a_score_is_outside_the_score(tmp_path: Path) -> None:
    first = _document(GOLDEN / "wren.json")["samples"][0]["id"]
    outcome = _changed(tmp_path / "wren.json", lambda log: log["samples"][0].pop("scores")).metrics["match"][first]
    assert (outcome.mark, outcome.kind) == (None, "missing")


@pytest.mark.parametrize(
    ("value", "mark"), [("C", 1), ("P", 0.5), ("N", 0), ("YES", 1), ("0.25", 0.25), (True, 1), (0.75, 0.75)]
)
def test_words_and_numbers_are_marks(tmp_path: Path, value: object, mark: float) -> None:
    first = _document(GOLDEN / "wren.json")["samples"][0]["id"]
    changed = _changed(tmp_path / "wren.json", lambda log: log["samples"][0]["scores"]["match"].update(value=value))
    assert changed.metrics["match"][first].mark == mark


def _damaged(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("summaries.json")
    content = bytearray(path.read_bytes())
    content[info.header_offset + 80 : info.header_offset + 120] = b"\xff" * 40
    path.write_bytes(bytes(content))


def _archive(path: Path, **members: object) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in members.items():
            archive.writestr(f"{name}.json", json.dumps(value))


HEADER, SUMMARIES = (json.loads(_member(GOLDEN / "finch.eval", f"{name}.json")) for name in ("header", "summaries"))


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-200]), "not a readable inspect log"),
        (lambda path: _archive(path, summaries=[]), "no _journal/start.json in it"),
        (_damaged, "summaries.json"),
        (lambda path: _archive(path, header=HEADER, summaries=[]), "there are no samples"),
        (lambda path: _archive(path, header=HEADER, summaries=[7]), "sample 1: an object is expected"),
        (
            lambda path: _archive(path, header=HEADER, summaries=[*SUMMARIES, SUMMARIES[0]]),
            "sample 7: sample 'q/5' (epoch 1) is there twice",
        ),
    ],
)
def test_a_broken_log_is_an_error_that_names_the_file_and_the_reason(
    tmp_path: Path, break_it: Callable[[Path], object], reason: str
) -> None:
    path = Path(shutil.copy(GOLDEN / "finch.eval", tmp_path))
    break_it(path)
    with pytest.raises(DataError) as error:
        read(path)
    assert reason in str(error.value)
    assert str(path) in str(error.value)
