"""``samples = N``: a model is asked N times; what is asked already stays answered when N changes."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import polars as pl
import pytest

from layton_batch.errors import ManifestError
from layton_batch.exports.flat import parquet_files
from layton_batch.exports.run_contents import contents
from layton_batch.files.leaderboard_columns import LEADERBOARD
from layton_batch.runs.folders import find_run
from layton_batch.runs.open import read_run
from layton_batch.runs.status import RunState
from layton_batch.site.explorer import item_pages
from layton_batch.site.sent import SentRequests
from layton_batch.stages.preview import preview
from layton_batch.stages.rank import board
from tests.support.cli_harness import call
from tests.support.evidence import Rows
from tests.support.lab import MODELS, Lab, demo_prices, lab, manifest_text

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


def finished(bench: Lab, text: str) -> None:
    status = bench.finish(text)
    assert (status.state, status.unanswered) == (RunState.DONE, 0)
    assert status.spent_usd == bench.server.ledger().total_usd


def test_every_item_is_asked_as_often_as_there_are_samples(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        finished(bench, of_rome(4))
        assert answers_billed(bench) == {OPENAI: 3 * 4}
        for name in ("predictions", "grades", "scores"):
            rows = bench.table(of_rome(4), name).unique(["item_id", "sample"])
            assert rows["sample"].value_counts().sort("sample").rows() == [(1, 3), (2, 3), (3, 3), (4, 3)]
        (row,) = bench.table(of_rome(4), "leaderboard").iter_rows(named=True)
        assert (row["n_items"], row["rounds"]) == (3, 4)
        (shown,) = call("leaderboard", "lab", "--runs", bench.runs, "--format", "json").json  # type: ignore[misc]
        assert {LEADERBOARD[name].json_name or name: value for name, value in row.items()}.items() <= shown.items()  # type: ignore[union-attr]


def test_more_samples_send_those_that_are_missing_and_fewer_send_nothing(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        finished(bench, of_rome(1))
        finished(bench, of_rome(3))
        assert answers_billed(bench) == {OPENAI: 3 * 3}
        finished(bench, of_rome(2))
        assert set(bench.table(of_rome(2), "predictions")["sample"]) == {1, 2}
        (row,) = bench.table(of_rome(2), "leaderboard").iter_rows(named=True)
        assert row["rounds"] == 2
        finished(bench, of_rome(3))
        assert answers_billed(bench) == {OPENAI: 3 * 3}


def test_the_jury_judges_every_sample_and_the_board_has_one_row(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        finished(bench, sampled(2))
        assert answers_billed(bench)[OPENAI] == 3 * 2
        verdicts = bench.table(sampled(2), "verdicts")
        assert sorted(verdicts.group_by("sample").len().rows()) == [(1, 3), (2, 3)]
        with read_run(find_run("lab", bench.runs), bench.settings) as run:
            (row,) = Rows(board(run, run.rules))
        assert (row.model, row.n_items, row.rounds) == (OPENAI, 3, 2)


def test_a_plan_counts_every_sample_and_those_that_are_answered(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        new = preview(bench.manifest(of_rome(4)), bench.settings, bench.clock, runs=bench.runs)
        assert (new.requests, new.to_send) == (12, 12)
        finished(bench, of_rome(1))
        grown = preview(bench.manifest(of_rome(3)), bench.settings, bench.clock, runs=bench.runs)
        assert (grown.requests, grown.answered, grown.to_send) == (9, 3, 6)


def test_one_sample_is_the_manifest_without_the_key(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        assert bench.manifest(sampled(1)).identity() == bench.manifest(manifest_text(limit=3)).identity()


def test_a_judge_with_samples_is_refused(tmp_path: Path) -> None:
    text = manifest_text(limit=3).replace("max_output_tokens = 2000", "max_output_tokens = 2000\nsamples = 2", 1)
    with lab(tmp_path) as bench, pytest.raises(ManifestError, match="a judge is asked once"):
        bench.manifest(text)


def test_pages_and_exports_show_every_sample(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        finished(bench, sampled(2))
        folder = bench.run_folder(sampled(2))
        with ExitStack() as stack:
            pages = list(item_pages(folder, "both_correct", [OPENAI], SentRequests(folder, stack)))
        assert [[reply.sample for reply in page.replies] for page in pages] == [[1, 2]] * 3
        assert all(len(reply.judges) == 1 for page in pages for reply in page.replies)
        with read_run(find_run("lab", bench.runs), bench.settings) as run:
            written = dict(parquet_files(contents(run)))
        (tmp_path / "all.parquet").write_bytes(written["predictions.parquet"])
        assert sorted(pl.read_parquet(tmp_path / "all.parquet")["sample"]) == [1, 1, 1, 2, 2, 2]


def test_every_command_reads_a_run_with_samples(tmp_path: Path) -> None:
    text = manifest_text(("openai", "anthropic"), limit=3)
    text = text.replace("max_output_tokens = 4000", "max_output_tokens = 4000\nsamples = 2", 1)
    with lab(tmp_path) as bench:
        finished(bench, text)
        for words in (
            ("leaderboard", "lab", "--runs", bench.runs),
            ("judges", "lab", "--runs", bench.runs),
            ("label-plan", "lab", "--runs", bench.runs, "--labels", 2),
            ("compare", "lab", OPENAI, MODELS["anthropic"], "--runs", bench.runs),
            ("cost", "lab", "--runs", bench.runs),
            ("status", "lab", "--runs", bench.runs),
            ("site", "lab", "--runs", bench.runs, "--out", tmp_path / "public"),
            *(("export", "lab", "--runs", bench.runs, "--to", form, "--out", tmp_path / form)
              for form in ("ppi", "results", "csv", "parquet", "eee")),
        ):  # fmt: skip
            end = call(*words)
            assert end.code == 0, (words, end.err)
        rows = call("leaderboard", "lab", "--runs", bench.runs, "--format", "json").json
        kept = bench.table(text, "leaderboard").select("model", "score", "upper", "rounds", "round_sd").to_dicts()
        assert [{name: row[name] for name in kept[0]} for row in rows] == kept  # type: ignore[union-attr, index, call-overload]
        assert {row["model"]: row["rounds"] for row in kept} == {OPENAI: 2, MODELS["anthropic"]: None}
        assert "rounds" in call("leaderboard", "lab", "--runs", bench.runs).out
        assert (tmp_path / "ppi").read_text().count("\n") == (2 + 1) * 3


def test_the_samples_of_a_run_are_its_rounds_for_grade(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        finished(bench, of_rome(4))
        words = ("grade", "rome", "--predictions", "lab", "--runs", bench.runs, "--json")
        (model,) = call(*words, "--rounds").table()["models"]  # type: ignore[misc]
        assert len(model["rounds"]["accuracy"]["values"]) == 4
        assert len(call(*words).table()["models"]) == 4  # type: ignore[arg-type]
