"""``samples = N`` and ``hints = [0, 1]``: an answer for each sample and number of hints, and nothing asked twice.

``tests/surfaces`` holds boards, bills, exports and pages of such runs.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.errors import ManifestError
from layton_batch.manifest.checks import load_manifest
from tests.support.cli_harness import call, write
from tests.support.lab import MODELS, demo_prices, lab, manifest_text

READS_PAGES = True
OPENAI = MODELS["openai"]
ITEMS = 2


def of_rome(samples: int) -> str:
    text = 'name = "lab"\ntask = "rome"\n[items]\nsource = "bundled"\nsplit = "llm"\nlimit = 3\n'
    text += f'[[models]]\nname = "{OPENAI}"\nprovider = "openai"\nmodel = "{OPENAI}"\n'
    return text + f"max_output_tokens = 4000\nsamples = {samples}\n" + demo_prices()


def hinted(hints: str, top: str = "") -> str:
    return manifest_text(("openai",), limit=ITEMS, top=f"hints = {hints}\n{top}")


def test_more_samples_send_those_that_are_missing_and_fewer_send_nothing(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        assert (bench.plan(of_rome(4)).requests, bench.plan(of_rome(4)).to_send) == (12, 12)
        bench.finish_paid_once(of_rome(1))
        grown = bench.plan(of_rome(3))
        assert (grown.requests, grown.answered, grown.to_send) == (9, 3, 6)
        for samples in (3, 2):
            bench.finish_paid_once(of_rome(samples))
            assert len(bench.billed()) == 3 * 3
            for name in ("predictions", "grades", "scores"):
                rows = bench.table(of_rome(samples), name).unique(["item_id", "sample"])
                assert sorted(rows["sample"]) == sorted(3 * [*range(1, samples + 1)])
            assert bench.table(of_rome(samples), "leaderboard").select("n_items", "rounds").rows() == [(3, samples)]
        words = ("grade", "rome", "--predictions", "lab", "--runs", bench.runs, "--json")
        assert len(call(*words).table()["models"]) == 2  # type: ignore[arg-type]  # side by side


def test_a_number_of_hints_that_is_added_is_all_that_is_sent(tmp_path: Path) -> None:
    both = hinted("[0, 1]")
    with lab(tmp_path) as bench:
        bench.finish_paid_once(hinted("1"))
        bench.finish_paid_once(both)  # a lower number keeps what the higher one has
        assert len(bench.billed()) == 2 * 2 * ITEMS
        said = bench.table(both, "predictions")
        assert said.group_by("n_hints").len().sort("n_hints").rows() == [(0, ITEMS), (1, ITEMS)]
        site = bench.run_folder(both).site
        assert (site / "charts" / "hints.svg").is_file()
        pages = [path.read_text(encoding="utf-8") for path in site.glob("**/items/*.html")]
        assert any("hint level 1" in page for page in pages)
        right = {"model": OPENAI, "provider": "openai", "n_hints": 0}
        right |= dict.fromkeys(("answer_correct", "justification_correct"), True)
        items = said.filter(n_hints=0)["item_id"]
        write(tmp_path, "".join(json.dumps({"item_id": item, **right}) + "\n" for item in items), "labels.jsonl")
        bench.finish_paid_once(hinted("[0, 1]", '[gold]\nannotations = "labels.jsonl"'))
        board = bench.table(both, "leaderboard").sort("n_hints")
        assert board.select("n_hints", "own_labels").rows() == [(0, ITEMS), (1, 0)]
        bench.finish_paid_once(hinted("0"))
        assert bench.table(both, "leaderboard")["n_hints"].to_list() == [0]
        assert len(bench.billed()) == 2 * 2 * ITEMS


@pytest.mark.parametrize("hints", ["[]", "[0, 0]", "[0, 5]", "[true]", '["1"]'])
def test_numbers_of_hints_that_are_none_are_refused(tmp_path: Path, hints: str) -> None:
    with pytest.raises(ManifestError, match="hints"):
        load_manifest(write(tmp_path, hinted(hints)))


def test_a_judge_with_samples_is_refused(tmp_path: Path) -> None:
    text = manifest_text().replace("max_output_tokens = 2000", "max_output_tokens = 2000\nsamples = 2", 1)
    with pytest.raises(ManifestError, match="judge"):
        load_manifest(write(tmp_path, text))
