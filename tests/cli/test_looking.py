"""Commands that look at finished runs: the run by any name, every format, the whole bill, a status watched."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from decimal import Decimal
from pathlib import Path

import pytest
import typer

from layton_batch import __version__
from layton_batch.cli.app import GROUPS, app
from layton_batch.clock import SystemClock
from layton_batch.reports import table
from tests.cli.conftest import GOLD, Finished
from tests.support.cli_harness import call, desk, refused
from tests.support.lab import MODELS, manifest_text
from tests.support.tiers import tiered

Document = dict[str, object]
PAIR = (MODELS["openai"], MODELS["together"])
BOARD_COLUMNS = {"rank", "rank_best", "rank_worst", "model", "provider", "n_hints", "score", "lower", "upper",
                 "half_width", "method", "metric", "n_items", "n_unparsed", "n_missing"}  # fmt: skip


# ---- the commands ----------------------------------------------------------------------------------------------------


def test_commands_are_listed_by_group_and_each_has_a_short_help() -> None:
    commands = typer.main.get_group(app).commands
    names = [name for group in GROUPS.values() for name in group]
    assert sorted(names) == sorted(commands)
    listed = call("--help").out.partition("Start:")[2]
    assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "] == names
    assert "..." not in listed
    for command in commands:
        assert call(command, "-h").out == call(command, "--help").out != ""
    assert call("--version").out.split() == ["layton-batch", __version__]


LOOKING = (
    "status RUN --json", "status RUN --log --json", "cost RUN --format json", "leaderboard RUN --format json",
    f"compare RUN {PAIR[0]} {PAIR[1]} --format json", "judges RUN --json", "label plan RUN --labels 2 --json",
    "verify RUN --json", "export RUN --to ppi --out ppi.jsonl", "site RUN --out pages", "retry RUN",
    "cancel RUN --json", "plan RUN --offline --json", "run RUN --offline --json",
)  # fmt: skip
QUICK = tuple(command for command in LOOKING if command.split()[0] not in {"label", "verify", "site"})


@pytest.mark.parametrize("command", tiered(LOOKING, ci=QUICK))
def test_name_folder_manifest_and_nothing_mean_the_same_run(
    finished: Finished, here: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name in ("other", "quiz"):
        shutil.rmtree(here / "runs" / name)
    for name in ("lab.toml", "gold.jsonl"):
        shutil.copy(finished.folder / name, here)
    for name in list(os.environ):
        if name.endswith("_BASE_URL") and command.split()[0] in {"retry", "cancel"}:  # which call no provider
            monkeypatch.delenv(name)
    endings = [call(*command.replace("RUN", run).split()) for run in ("lab", "runs/lab", "lab.toml", "")]
    by_name, *others = [(ending.code, ending.out) for ending in endings]
    assert by_name[0] == 0, endings[0].err
    if command == "status RUN --json":
        assert others.pop() == (0, json.dumps([endings[0].json], indent=2) + "\n")  # of all runs, a list
    assert others == [by_name] * len(others)


@pytest.mark.usefixtures("here")
def test_several_runs_are_named_where_one_is_meant() -> None:
    for command in ("status --log", "leaderboard", "retry", "run", "plan", f"compare {PAIR[0]} {PAIR[1]}"):
        message = refused(*command.split())
        assert "there are several runs under runs: name one of " in message
        assert {"lab", "other", "quiz"} <= set(message.replace(",", " ").split())


# ---- boards and bills ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("sources", [("lab", "other"), (str(GOLD), "--method", "paper")], ids=["runs", "paper"])
def test_a_leaderboard_says_the_same_in_every_format(sources: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "WITHOUT_TERMINAL", 80)
    asked = ("leaderboard", *sources)
    rows: list[Document] = call(*asked, "--format", "json").json  # type: ignore[assignment]
    assert set(rows[0]) >= BOARD_COLUMNS
    assert {row["method"] for row in rows} == {"paper" if "paper" in sources else "hierarchical"}
    from_csv = list(csv.DictReader(io.StringIO(call(*asked, "--format", "csv").out)))
    assert [row["model"] for row in from_csv] == [row["model"] for row in rows]
    markdown, page, shown = call(*asked, "--format", "md").out, call(*asked, "--format", "html").out, call(*asked)
    assert shown.code == 0
    assert [line for line in shown.err.splitlines() if not line.startswith("Made up: ")] == []
    assert max(map(len, shown.out.splitlines())) <= 80
    for row in rows:
        name = str(row["model"])
        assert all(name in text for text in (markdown.replace("\\", ""), page, shown.out))  # no name is cut or broken


@pytest.mark.usefixtures("here")
def test_the_bill_is_what_the_sandbox_billed_in_every_format_by_anything_and_of_any_night(finished: Finished) -> None:
    def bill(*options: str) -> Document:
        return call("cost", "lab", "other", "quiz", *options, "--format", "json").table()

    def total(document: Document) -> Decimal:
        return Decimal(str(document["total"]["cost_usd"]))  # type: ignore[index]

    assert bill() == call("cost", "--format", "json").json
    assert total(bill()) == finished.billed
    groups: list[Document] = bill("--by", "day,model")["rows"]  # type: ignore[assignment]
    assert sum(Decimal(str(row["cost_usd"])) for row in groups) == finished.billed
    written = csv.DictReader(io.StringIO(call("cost", "--by", "day,model", "--format", "csv").out))
    assert [(row["day"], row["model"]) for row in written] == [(row["day"], row["model"]) for row in groups]
    (day,) = {str(row["day"]) for row in groups}
    assert total(bill("--since", day, "--until", day)) == finished.billed
    assert total(bill("--until", "2026-01-01")) == total(bill("--since", "2999-01-01")) == 0
    refused("cost", "lab", "--since", "soon")


@pytest.mark.usefixtures("here")
def test_json_on_stdout_is_one_document_and_events_are_followed_to_the_end_as_lines() -> None:
    for command in ("status --json", "status lab --log --json", "judges lab --json", "cost lab --format json"):
        end = call(*command.split())
        assert end.json is not None
        assert [line for line in end.err.splitlines() if not line.startswith("Made up: ")] == []
    whole = call("status", "lab", "--log", "--json").json
    followed = call("status", "lab", "--log", "--watch", "--json")
    assert [json.loads(line) for line in followed.out.splitlines()] == whole
    assert call("status", "lab", "--log", "--watch").out == call("status", "lab", "--log").out


def test_raw_results_that_are_gone_after_the_end_are_named(here: Path) -> None:
    assert call("status", "other", "--json").table()["batches_without_raw_results"] == []
    for path in (here / "runs" / "batches" / "other").glob("predict-*/*.jsonl.zst"):
        path.unlink()
    (gone,) = call("status", "other", "--json").table()["batches_without_raw_results"]  # type: ignore[misc]
    words = " ".join(call("status", "other").out.split())
    assert f"The raw results of 1 batch are gone, such as {gone}" in words.replace("- ", "-")


# ---- status --watch --------------------------------------------------------------------------------------------------


def test_watching_prints_a_line_for_each_change_and_ends_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(manifest_text())
        assert call("run", path, "--once").code == 75
        pauses: list[float] = []

        def meanwhile(_clock: SystemClock, seconds: float) -> None:
            pauses.append(seconds)
            bench.lab.clock.sleep(30)
            call("run", path, "--once")

        monkeypatch.setattr(SystemClock, "sleep", meanwhile)
        watched = call("status", "lab", "--watch")
        assert (watched.code, len(set(pauses))) == (0, 1)
        waiting = [line for line in watched.out.splitlines() if " requests answered; " in line]
        assert 1 <= len(waiting) <= len(pauses)
        assert "openai: 4 at the provider" in waiting[0]
        assert call("status", "lab", "--watch", "--json").table()["state"] == "done"
