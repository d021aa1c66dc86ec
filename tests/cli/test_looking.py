"""leaderboard, cost, site, score, status on finished runs: every format, several sources, nothing wider than 80."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import cast

import pytest

from layton_batch.reports import table
from tests.support.cli_harness import call, desk
from tests.support.lab import BUNDLED, MODELS, manifest_text
from tests.support.tiers import tiered

Document = dict[str, object]
PLAYED = ("openai", "together", "doubleword")
"""The providers of the first run; two of their models have long names."""
GOLD = str(BUNDLED / "gold_llm.jsonl")
BOARD_COLUMNS = {"rank", "rank_best", "rank_worst", "model", "provider", "n_hints", "score", "lower", "upper",
                 "half_width", "method", "metric", "n_items", "n_unparsed", "n_missing"}  # fmt: skip


@dataclass(frozen=True)
class Finished:
    """Two finished runs, ``lab`` and ``other``, and what the sandbox billed for both."""

    folder: Path
    billed: Decimal


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("finished")
    gold = f'[gold]\nsource = "{GOLD}"'
    with pytest.MonkeyPatch.context() as patch, desk(folder, patch) as bench:
        assert call("run", bench.write(manifest_text(PLAYED, limit=2, top=gold))).code == 0
        other = manifest_text(("groq",), limit=2, top=gold)
        other = other.replace('name = "lab"', 'name = "other"').replace(
            f'name = "{MODELS["groq"]}"', 'name = "its-twin"'
        )
        assert call("run", bench.write(other, "other.toml")).code == 0
        return Finished(folder, bench.server_total())


@pytest.fixture
def here(finished: Finished, offline: Path) -> Path:
    """A copy of the finished runs, where no provider can be reached."""
    shutil.copytree(finished.folder / "runs", offline / "runs")
    return offline


@pytest.mark.parametrize(
    ("sources", "method"),
    tiered(
        (("lab",), (GOLD,), ("lab", "other")),
        ("paper", "hierarchical"),
        ci=((("lab", "other"), "hierarchical"), ((GOLD,), "paper")),
    ),
)
def test_a_leaderboard_says_the_same_in_every_format(here: Path, sources: tuple[str, ...], method: str) -> None:
    asked = ("leaderboard", *sources, *(("--method", "paper") if method == "paper" else ()))
    rows = cast("list[Document]", call(*asked, "--format", "json").json)
    assert set(rows[0]) >= BOARD_COLUMNS
    assert {row["method"] for row in rows} == {method}
    from_csv = list(csv.DictReader(io.StringIO(call(*asked, "--format", "csv").out)))
    assert [row["model"] for row in from_csv] == [row["model"] for row in rows]
    markdown = call(*asked, "--format", "md").out
    table = call(*asked)
    notes = [line for line in table.err.splitlines() if not line.startswith("Made up: ")]  # a sandbox played the runs
    assert (table.code, notes) == (0, [])
    for row in rows:
        assert str(row["model"]).replace("-", "\\-") in markdown or str(row["model"]) in markdown
        assert str(row["model"]) in table.out


@pytest.mark.parametrize(("option", "value"), [("--method", "papper"), ("--metric", "both"), ("--format", "yaml")])
def test_a_leaderboard_asked_for_what_there_is_not_says_what_there_is(here: Path, option: str, value: str) -> None:
    end = call("leaderboard", "lab", option, value)
    assert (end.code, end.out) == (2, "")
    assert value in end.err


def test_one_model_from_two_sources_is_refused_rather_than_counted_twice(here: Path) -> None:
    end = call("leaderboard", "lab", GOLD)
    assert (end.code, end.out) == (2, "")
    assert "twice" in end.err


def test_the_bill_is_what_the_sandbox_billed_in_every_format(finished: Finished, here: Path) -> None:
    document = call("cost", "lab", "other", "--format", "json").table()
    total = cast("Document", document["total"])
    assert Decimal(str(total["cost_usd"] if "cost_usd" in total else total["batched_usd"])) == finished.billed
    assert call("cost", "lab", "other", "--format", "json").json == document
    rows = list(csv.DictReader(io.StringIO(call("cost", "lab", "other", "--format", "csv").out)))
    assert len(rows) >= len(cast("list[Document]", document["rows"]))
    assert "|" in call("cost", "lab", "--format", "md").out
    assert call("cost", "lab", "--format", "xml").code == 2
    assert call("cost").code == 2


def test_a_site_is_written_where_it_is_told_one_folder_a_run(here: Path) -> None:
    assert call("site", "lab", "other", "--out", "both").code == 0
    assert len(list((here / "both").glob("*/index.html"))) == 2
    (here / "file").write_text("")
    end = call("site", "lab", "--out", "file")
    assert end.code == 2
    assert "file" in end.err


@pytest.mark.parametrize(
    "command",
    [("status", "lab"), ("cost", "lab", "other"), ("leaderboard", "lab"), ("leaderboard", "lab", "--method", "paper")],
    ids=" ".join,
)
def test_no_table_is_wider_than_eighty_columns(
    here: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(table, "WITHOUT_TERMINAL", 80)
    end = call(*command)
    assert end.code == 0
    assert max(len(line) for line in end.out.splitlines()) <= 80
    for model in (MODELS[provider] for provider in PLAYED):
        if command[0] != "status":
            assert model in end.out  # no name is cut or broken


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("by", ["run", "provider,model", "stage", "day,model", "week", "month"])
def test_costs_added_up_by_anything_are_the_whole_bill(finished: Finished, by: str) -> None:
    names, command = by.split(","), ("cost", "lab", "other", "--by", by)
    document = call(*command, "--format", "json").table()
    groups = cast("list[Document]", document["rows"])
    assert sum(Decimal(str(row["cost_usd"])) for row in groups) == finished.billed
    assert Decimal(str(cast("Document", document["total"])["cost_usd"])) == finished.billed
    assert document["by"] == names
    assert len({tuple(str(row[name]) for name in names) for row in groups}) == len(groups) > 0
    rows = list(csv.DictReader(io.StringIO(call(*command, "--format", "csv").out)))
    assert [[row[name] for name in names] for row in rows[:-1]] == [[row[name] for name in names] for row in groups]
    assert rows[-1][names[0]] == "total"
    assert call(*command).out


@pytest.mark.usefixtures("here")
def test_the_cost_of_a_night_is_that_of_the_batches_that_ended_then(finished: Finished) -> None:
    def total(*options: str) -> Decimal:
        document = call("cost", "lab", "other", "--format", "json", *options).table()
        return Decimal(str(cast("Document", document["total"])["cost_usd"]))

    (day,) = cast("list[Document]", call("cost", "lab", "--by", "day", "--format", "json").table()["rows"])
    assert total("--since", str(day["day"]), "--until", str(day["day"])) == finished.billed
    assert total("--until", "2026-01-01") == total("--since", "2999-01-01") == 0
    assert call("cost", "lab", "--since", "soon").code == 2


@pytest.mark.usefixtures("here")
def test_json_on_stdout_is_one_document_and_nothing_else() -> None:
    forms = ("status --json", "status lab --log --json", "judges lab --json", "cost lab --format json")
    for command in (*forms, "leaderboard lab --format json"):
        end = call(*command.split())
        assert json.loads(end.out) is not None
        assert [line for line in end.err.splitlines() if not line.startswith("Made up: ")] == []


def test_raw_results_that_are_gone_after_the_end_are_named(here: Path) -> None:
    assert call("status", "other", "--json").table()["batches_without_raw_results"] == []
    assert "raw results" not in call("status", "other").out
    for path in (here / "runs" / "batches" / "other").glob("predict-*/*.jsonl.zst"):
        path.unlink()
    (gone,) = cast("list[str]", call("status", "other", "--json").table()["batches_without_raw_results"])
    assert (here / "runs" / "batches" / "other" / gone / "answers").is_dir()
    words = " ".join(call("status", "other").out.split())
    assert f"The raw results of 1 batch are gone, such as {gone}" in words.replace("- ", "-")


@pytest.mark.usefixtures("here")
def test_events_can_be_followed_to_the_end_as_json_lines() -> None:
    whole = cast("list[Document]", call("status", "lab", "--log", "--json").json)
    followed = call("status", "lab", "--log", "--watch", "--json")
    assert [json.loads(line) for line in followed.out.splitlines()] == whole
    assert call("status", "lab", "--log", "--watch").out == call("status", "lab", "--log").out
