"""``hints = [0, 1]``: a job for every number of hints, a row of the board each, and nothing asked twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.errors import ManifestError
from layton_batch.runs.folders import find_run
from layton_batch.runs.open import read_run
from layton_batch.runs.status import RunState
from layton_batch.stages.rank import board, evidence
from tests.support.cli_harness import call
from tests.support.evidence import Rows
from tests.support.lab import MODELS, Lab, lab, manifest_text

READS_PAGES = True
ITEMS = 2
NAME = MODELS["openai"]


def asked(hints: str, providers: tuple[str, ...] = ("openai",), top: str = "") -> str:
    return manifest_text(providers, limit=ITEMS, top=f"hints = {hints}\n{top}")


TWO_LEVELS = asked("[0, 2]", ("openai", "anthropic"))


@pytest.fixture(scope="module")
def two_levels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A finished run of two models at two levels, which tests only read."""
    with lab(tmp_path_factory.mktemp("levels")) as bench:
        status = bench.finish(TWO_LEVELS)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        yield bench


def test_every_level_is_a_row_with_answers_and_a_jury_of_its_own(two_levels: Lab) -> None:
    bench, text = two_levels, TWO_LEVELS
    assert len(bench.billed()) == 2 * 2 * ITEMS * 2
    said = bench.table(text, "predictions")
    assert said.group_by("model", "n_hints").len()["len"].to_list() == [ITEMS] * 4
    for name in ("scores", "verdicts"):
        assert set(bench.table(text, name)["n_hints"]) == {0, 2}
    rows = bench.table(text, "leaderboard").select("model", "n_hints").rows()
    assert sorted(rows) == sorted((MODELS[one], level) for one in ("openai", "anthropic") for level in (0, 2))
    files = sorted(bench.run_folder(text).batches.glob("predict-*/request.jsonl"))
    assert len(files) == 4
    assert len({path.read_bytes() for path in files}) == 4


def test_a_level_that_is_added_is_all_that_is_sent(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish(asked("1"))
        first = bench.billed()
        status = bench.finish(asked("[0, 1]"))  # a lower one keeps what the higher one has
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert len(bench.billed()) == len(first) + 2 * ITEMS
        assert set(bench.billed().values()) == {1}
        said = bench.table(asked("[0, 1]"), "predictions")
        assert said.group_by("n_hints").len().sort("n_hints").rows() == [(0, ITEMS), (1, ITEMS)]
        assert bench.table(asked("[0, 1]"), "leaderboard")["n_hints"].sort().to_list() == [0, 1]
        assert bench.finish(asked("0")).unanswered == 0
        assert bench.table(asked("0"), "leaderboard")["n_hints"].to_list() == [0]
        assert len(bench.billed()) == len(first) + 2 * ITEMS


@pytest.mark.nightly
def test_samples_of_every_level_are_rounds_of_that_level(tmp_path: Path) -> None:
    text = asked("[0, 1]").replace("max_output_tokens = 4000", "max_output_tokens = 4000\nsamples = 2")
    with lab(tmp_path) as bench:
        assert bench.finish(text).unanswered == 0
        found = bench.table(text, "leaderboard").select("n_hints", "rounds", "n_items").sort("n_hints")
        assert found.rows() == [(0, 2, ITEMS), (1, 2, ITEMS)]


def test_labels_without_a_level_are_of_answers_without_hints(
    two_levels: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_levels, "runs", shutil.copytree(two_levels.runs, tmp_path / "runs"))
    said = two_levels.table(TWO_LEVELS, "predictions").filter(model=NAME, n_hints=0)
    labels = tmp_path / "labels.jsonl"
    right = {"model": NAME, "provider": "openai", "n_hints": 0, "answer_correct": True, "justification_correct": True}
    labels.write_text("".join(json.dumps({"item_id": item} | right) + "\n" for item in said["item_id"]))
    two_levels.finish(TWO_LEVELS + f'[gold]\nannotations = "{labels}"\n')
    with read_run(find_run("lab", two_levels.runs), two_levels.settings) as run:
        _, found = evidence(run, "both_correct")
        own = {row.n_hints: row.own_labels for row in Rows(board(run, run.rules)) if row.model == NAME}
    assert set(found["n_hints"]) == {0}
    assert own == {0: ITEMS, 2: 0}


def test_the_commands_know_the_levels_apart(two_levels: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(two_levels.folder)
    for name, value in two_levels.server.environment().items():
        monkeypatch.setenv(name, value)
    found = call(*["leaderboard", "lab", "--format", "json"]).json
    assert sorted((row["model"], row["n_hints"]) for row in found)[0][1] == 0
    assert call("compare", "lab", f"openai/{NAME}@0", f"openai/{NAME}@2").code == 0
    for command in (["judges", "lab"], ["label", "plan", "lab"], ["cost", "lab"], ["status", "lab"],
                    ["leaderboard", "lab", "--method", "paper"]):  # fmt: skip
        assert call(*command).code in (0, 2), command
    for form in ("results", "ppi", "csv", "parquet", "eee"):
        assert call("export", "lab", "--to", form, "--out", str(tmp_path / form)).code == 0, form
    assert call(*["plan", "manifest.toml", "--json"]).json["to_send"] == 0
    assert len(list((tmp_path / "eee").rglob("*.json"))) == 4


@pytest.mark.parametrize("hints", ["[]", "[0, 0]", "[0, 5]", "[true]", '["1"]'])
def test_levels_that_are_none_are_refused(tmp_path: Path, hints: str) -> None:
    with lab(tmp_path) as bench, pytest.raises(ManifestError, match="hints"):
        bench.manifest(asked(hints))


def test_a_list_of_one_level_is_that_level(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        assert bench.manifest(asked("[1]")).identity() == bench.manifest(asked("1")).identity()
        assert bench.manifest(asked("[2, 1]")).identity() == bench.manifest(asked("[1, 2]")).identity()
        assert asked("[1]") != asked("1")


def test_pages_keep_the_answers_of_each_level(two_levels: Lab) -> None:
    site = two_levels.run_folder(TWO_LEVELS).site
    pages = [path.read_text(encoding="utf-8") for path in site.glob("**/items/*.html")]
    listed = (site / "items" / "index.html").read_text(encoding="utf-8")
    assert (site / "charts" / "hints.svg").is_file()
    assert any("hint level 2" in page for page in pages)
    assert listed.count(f"<bdi>{NAME}</bdi></label>") == 1
