"""``samples = N``: a model is asked N times; what is asked already stays answered when N changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from layton_batch.errors import ManifestError
from layton_batch.files.leaderboard_columns import LEADERBOARD
from layton_batch.interchange.run_contents import contents
from layton_batch.interchange.tables import parquet_files
from layton_batch.runs.folders import find_run
from layton_batch.runs.open import read_run
from layton_batch.site.run_tables import replies
from layton_batch.stages.preview import preview
from layton_batch.stages.rank import board
from tests.support.cli_harness import call
from tests.support.evidence import Rows
from tests.support.lab import MODELS, Lab, demo_prices, lab, manifest_text

READS_PAGES = True
OPENAI = MODELS["openai"]


def sampled(samples: int, *, limit: int = 3) -> str:
    return manifest_text(("openai",), limit=limit).replace(
        "max_output_tokens = 4000", f"max_output_tokens = 4000\nsamples = {samples}", 1
    )


def of_rome(samples: int) -> str:
    text = 'name = "lab"\ntask = "rome"\n[items]\nsource = "bundled"\nsplit = "llm"\nlimit = 3\n'
    text += f'[[models]]\nname = "{OPENAI}"\nprovider = "openai"\nmodel = "{OPENAI}"\n'
    return text + f"max_output_tokens = 4000\nsamples = {samples}\n" + demo_prices()


def answers_billed(bench: Lab) -> Counter[str]:
    """By model, how many rows the sandbox billed; each of them once."""
    assert set(bench.billed().values()) <= {1}
    return Counter(row.model for row in bench.server.ledger().rows)


JUDGED = manifest_text(("openai", "anthropic"), limit=3).replace("= 4000", "= 4000\nsamples = 2", 1)
"""The first of two models is asked twice."""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A finished run with a jury, which tests only read."""
    with lab(tmp_path_factory.mktemp("judged")) as bench:
        bench.finish_paid_once(JUDGED)
        yield bench


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A finished run of four samples that a rule grades, which tests only read."""
    with lab(tmp_path_factory.mktemp("graded")) as bench:
        bench.finish_paid_once(of_rome(4))
        yield bench


def test_every_item_is_asked_as_often_as_there_are_samples(graded: Lab) -> None:
    assert answers_billed(graded) == {OPENAI: 3 * 4}
    for name in ("predictions", "grades", "scores"):
        rows = graded.table(of_rome(4), name).unique(["item_id", "sample"])
        assert rows["sample"].value_counts().sort("sample").rows() == [(1, 3), (2, 3), (3, 3), (4, 3)]
    (row,) = graded.table(of_rome(4), "leaderboard").iter_rows(named=True)
    assert (row["n_items"], row["rounds"]) == (3, 4)
    (shown,) = call("leaderboard", "lab", "--runs", graded.runs, "--format", "json").json  # type: ignore[misc]
    assert {LEADERBOARD[name].json_name or name: value for name, value in row.items()}.items() <= shown.items()  # type: ignore[union-attr]


def test_more_samples_send_those_that_are_missing_and_fewer_send_nothing(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish_paid_once(of_rome(1))
        bench.finish_paid_once(of_rome(3))
        assert answers_billed(bench) == {OPENAI: 3 * 3}
        bench.finish_paid_once(of_rome(2))
        assert set(bench.table(of_rome(2), "predictions")["sample"]) == {1, 2}
        (row,) = bench.table(of_rome(2), "leaderboard").iter_rows(named=True)
        assert row["rounds"] == 2
        assert answers_billed(bench) == {OPENAI: 3 * 3}


def test_the_jury_judges_every_sample_and_the_board_has_one_row(judged: Lab) -> None:
    assert answers_billed(judged)[OPENAI] == 3 * 2
    verdicts = judged.table(JUDGED, "verdicts").filter(model=OPENAI)
    assert sorted(verdicts.group_by("sample").len().rows()) == [(1, 3), (2, 3)]
    with read_run(find_run("lab", judged.runs), judged.settings) as run:
        (row,) = (row for row in Rows(board(run, run.rules)) if row.model == OPENAI)
    assert (row.n_items, row.rounds) == (3, 2)


def test_a_plan_counts_every_sample_and_those_that_are_answered(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        new = preview(bench.manifest(of_rome(4)), bench.settings, bench.clock, runs=bench.runs)
        assert (new.requests, new.to_send) == (12, 12)
        bench.finish_paid_once(of_rome(1))
        grown = preview(bench.manifest(of_rome(3)), bench.settings, bench.clock, runs=bench.runs)
        assert (grown.requests, grown.answered, grown.to_send) == (9, 3, 6)


def test_one_sample_is_the_manifest_without_the_key(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        assert bench.manifest(sampled(1)).identity() == bench.manifest(manifest_text(limit=3)).identity()


def test_a_judge_with_samples_is_refused(tmp_path: Path) -> None:
    text = manifest_text(limit=3).replace("max_output_tokens = 2000", "max_output_tokens = 2000\nsamples = 2", 1)
    with lab(tmp_path) as bench, pytest.raises(ManifestError, match="a judge is asked once"):
        bench.manifest(text)


def test_pages_and_exports_show_every_sample(judged: Lab, tmp_path: Path) -> None:
    folder = judged.run_folder(JUDGED)
    shown = replies(folder, "both_correct", "model", [OPENAI])
    assert sorted(shown["sample"]) == [1, 1, 1, 2, 2, 2]
    assert set(shown["judges"].list.len()) == {1}
    with read_run(find_run("lab", judged.runs), judged.settings) as run:
        written = dict(parquet_files(contents(run)))
    (tmp_path / "all.parquet").write_bytes(written["predictions.parquet"])
    said = pl.read_parquet(tmp_path / "all.parquet").filter(model=OPENAI)
    assert sorted(said["sample"]) == [1, 1, 1, 2, 2, 2]


def test_every_command_reads_a_run_with_samples(judged: Lab, tmp_path: Path) -> None:
    for words in (
        ("judges", "lab", "--runs", judged.runs),
        ("label", "plan", "lab", "--runs", judged.runs, "--labels", 2),
        ("compare", "lab", OPENAI, MODELS["anthropic"], "--runs", judged.runs),
        ("cost", "lab", "--runs", judged.runs),
        ("status", "lab", "--runs", judged.runs),
        ("site", "lab", "--runs", judged.runs, "--out", tmp_path / "public"),
        *(("export", "lab", "--runs", judged.runs, "--to", form, "--out", tmp_path / form)
          for form in ("ppi", "results", "csv", "parquet", "eee")),
    ):  # fmt: skip
        end = call(*words)
        assert end.code == 0, (words, end.err)
    rows = call("leaderboard", "lab", "--runs", judged.runs, "--format", "json").json
    kept = judged.table(JUDGED, "leaderboard").select("model", "score", "upper", "rounds", "round_sd").to_dicts()
    assert [{name: row[name] for name in kept[0]} for row in rows] == kept  # type: ignore[union-attr, index, call-overload]
    assert {row["model"]: row["rounds"] for row in kept} == {OPENAI: 2, MODELS["anthropic"]: None}
    assert "rounds" in call("leaderboard", "lab", "--runs", judged.runs).out
    assert (tmp_path / "ppi").read_text().count("\n") == (2 + 1) * 3


def test_the_samples_of_a_run_stand_side_by_side_for_grade(graded: Lab) -> None:
    words = ("grade", "rome", "--predictions", "lab", "--runs", graded.runs, "--json")
    assert len(call(*words).table()["models"]) == 4  # type: ignore[arg-type]
