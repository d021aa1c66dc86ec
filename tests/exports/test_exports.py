"""A run in the forms of others: whole, valid, harmless, and the same board when it comes back."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import jsonschema
import polars as pl
import pytest

from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from tests.support.cli_harness import Ending, call
from tests.support.lab import SPLITS, lab, manifest_text, rule_text
from tests.support.paths import SHARED_DATA
from tests.support.tiers import tiered

SCHEMAS = SHARED_DATA / "eee"


def _finished(folder: Path, text: str) -> RunFolder:
    with lab(folder) as there:
        there.finish(text)
        return there.run_folder(text)


@pytest.fixture(scope="module")
def jury(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Two models on four riddles, a jury of one."""
    return _finished(tmp_path_factory.mktemp("jury"), manifest_text(("openai", "anthropic")))


@pytest.fixture(scope="module", params=tiered(SPLITS, ci=("rome",)))
def rule(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> RunFolder:
    return _finished(tmp_path_factory.mktemp("rule"), rule_text(request.param))


def _export(folder: RunFolder, form: str, out: Path, *more: str) -> Ending:
    ended = call("export", folder.root, "--to", form, "--out", out, *more)
    assert ended.code == 0, ended.err
    return ended


def _documents(out: Path) -> dict[Path, Any]:
    return {path: json.loads(path.read_bytes()) for path in sorted(out.glob("data/*/*/*/*.json"))}


# ---- Every Eval Ever -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(jury: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jury's run in this form."""
    out = tmp_path_factory.mktemp("exported") / "eee"
    _export(jury, "eee", out, "--organization", "our group")
    return out


@pytest.mark.shared_data
def test_every_document_and_line_is_valid_by_the_published_schemas(
    exported: Path, rule: RunFolder, tmp_path: Path
) -> None:
    document, line = (
        jsonschema.Draft7Validator(json.loads((SCHEMAS / name).read_text(encoding="utf-8")))
        for name in ("eval.schema.json", "instance_level_eval.schema.json")
    )
    _export(rule, "eee", tmp_path)
    for out in (exported, tmp_path):
        for one in _documents(out).values():
            document.validate(one)
        for path in out.glob("data/*/*/*/*_samples.jsonl"):
            for text in path.read_bytes().splitlines():
                line.validate(json.loads(text))


def test_a_document_has_score_interval_judges_and_the_checksum_of_its_lines(jury: RunFolder, exported: Path) -> None:
    board = {row["model"]: row for row in tables.read(jury.tables, "leaderboard").iter_rows(named=True)}
    for path, document in _documents(exported).items():
        details, (result, *_) = document["detailed_evaluation_results"], document["evaluation_results"]
        lines = (exported / details["file_path"]).read_bytes()
        assert details["checksum"] == sha256(lines).hexdigest()
        assert path.with_name(path.stem + "_samples.jsonl").read_bytes() == lines
        assert result["evaluation_result_id"].endswith("#both_correct")
        row, score = board[document["model_info"]["name"]], result["score_details"]
        interval = score["uncertainty"]["confidence_interval"]
        assert (score["score"], interval["lower"]) == pytest.approx((row["score"] / 100, row["lower"] / 100))
        assert interval["method"].endswith("for new items")
        for name in ("target", *(f"{kind}_{end}" for kind in ("new", "set") for end in ("score", "lower", "upper"))):
            assert score["details"].get(name, "None") == str(row[name])
        assert result["metric_config"]["llm_scoring"]["judges"]
        assert document["source_metadata"]["source_organization_name"] == "our group"


def test_a_site_has_the_same_lines_in_one_file(jury: RunFolder, exported: Path, tmp_path: Path) -> None:
    assert call("site", jury.root, "--out", tmp_path).code == 0
    with ZipFile(tmp_path / "every_eval_ever.zip") as packed:
        found = {name: packed.read(name) for name in packed.namelist() if name.endswith(".jsonl")}
    assert found == {str(path.relative_to(exported)): path.read_bytes() for path in exported.rglob("*.jsonl")}
    assert 'href="every_eval_ever.zip"' in (tmp_path / "index.html").read_text(encoding="utf-8")


# ---- votes, and what is asked wrongly ------------------------------------------------------------------------------


def test_votes_are_a_row_a_prediction_and_metric_and_the_same_file_each_time(
    jury: RunFolder, rule: RunFolder, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    _export(jury, "votes", one)
    _export(jury, "votes", two)
    assert pl.read_parquet(one).height == tables.read(jury.tables, "scores").height
    assert one.read_bytes() == two.read_bytes()
    ended = call("export", rule.root, "--to", "votes", "--out", tmp_path / "votes.parquet")
    assert (ended.code, (tmp_path / "votes.parquet").exists()) == (2, False)  # a rule gives no votes


def test_unknown_forms_files_in_the_way_and_unknown_runs_are_told(jury: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "o"
    export = ("export", jury.root, "--to")
    wrong: list[tuple[tuple[object, ...], str]] = [
        ((*export, "xls", "--out", out), "csv, parquet, eee, hf"),
        ((*export, "csv", "--out", tmp_path / "file"), "is a file"),
        ((*export, "csv", "--out", tmp_path / "o.csv"), "name a folder"),
        ((*export, "votes", "--out", tmp_path / "v.csv"), ".parquet"),
        ((*export, "ppi", "--out", tmp_path / "p.csv"), ".jsonl"),
        (("export", "nobody", "--to", "csv", "--out", out, "--runs", tmp_path), "'nobody'"),
        ((*export, "votes", "--out", "."), "is a folder"),
        *(((*export, "hf", "--out", out, *dataset), "--dataset OWNER/NAME") for dataset in (
            (), ("--dataset", "nothing"), ("--dataset", "a/b/c"))),
    ]  # fmt: skip
    for arguments, told in wrong:
        ended = call(*arguments)  # type: ignore[arg-type]
        assert (ended.code, told in ended.err) == (2, True), ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
