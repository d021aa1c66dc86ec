"""``grade``: predictions made elsewhere, in the seed systems' own files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.cli import main
from tests.support.paths import SHARED_DATA

DATA = SHARED_DATA
real = pytest.mark.shared_data


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["grade", *arguments])
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out, said.err


def lines(path: Path, *rows: dict[str, object]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_abstention_metrics_are_fractions_and_rows_keep_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"item_id": "b", "gold": "A", "response": "Answer: A"},
        {"item_id": "a", "gold": "B", "response": "Answer: E"},
        {"item_id": "c", "gold": "B", "response": "Answer: C"},
        {"item_id": "d", "gold": "B", "response": "no idea what to say"},
    ]
    code, out, _ = run(capsys, "mcq_idk", "--predictions", lines(tmp_path / "p.jsonl", *rows), "--json")
    report = json.loads(out)
    assert code == 0
    assert report["n"] == 4
    assert {name: one["mean"] for name, one in report["metrics"].items()} == {
        "trad_score": 0.25,
        "idk_score": -0.25,
        "idk_freq": 0.25,
        "extract_fail": 0.25,
    }
    assert [(row["item_id"], row["letter"]) for row in report["rows"]] == [
        ("b", "A"),
        ("a", "E"),
        ("c", "C"),
        ("d", None),
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["layton", "--predictions", "x.jsonl"], "not graded by rule"),
        (["qa", "--predictions", "x.jsonl"], "'qa' is not graded by rule"),
        (["mcq_idk", "--predictions", "x.jsonl", "--protocol", "zeroeval"], "protocol 'zeroeval'"),
        (["mcq_idk", "--predictions", "nowhere.jsonl"], "nowhere.jsonl"),
        (["zebralogic", "--predictions", "x.jsonl", "--updated", "u.json"], "--updated is for rome"),
    ],
)
def test_wrong_use_is_told_and_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert "Traceback" not in err


@real
def test_rome_reproduces_its_files_byte_for_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example, given = DATA / "rome" / "example", tmp_path / "predictions.json"
    given.write_bytes((example / "predictions.json").read_bytes())
    updated = tmp_path / "updated.json"
    files = ["--items", str(example / "annotation.json"), "--predictions", str(given)]
    code, _, _ = run(capsys, "rome", *files, "--protocol", "original", "--updated", str(updated))
    assert code == 0
    assert (tmp_path / "scores.json").read_bytes() == (example / "scores.json").read_bytes()
    assert updated.read_bytes() == (example / "updated_predictions.json").read_bytes()


@real
def test_as_published_the_scores_are_written_beside_the_predictions_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example, given = DATA / "rome" / "example", tmp_path / "predictions.json"
    given.write_bytes((example / "predictions.json").read_bytes())
    files = ["--items", str(example / "annotation.json"), "--predictions", str(given)]
    code, out, _ = run(capsys, "rome", *files, "--protocol", "original")
    published = (example / "scores.json").read_bytes()
    assert (code, (tmp_path / "scores.json").read_bytes(), out.encode()) == (0, published, published + b"\n")
    (tmp_path / "scores.json").unlink()
    for more in ([], ["--protocol", "original", "--json"]):
        assert run(capsys, "rome", *files, *more)[0] == 0
        assert not (tmp_path / "scores.json").exists()
