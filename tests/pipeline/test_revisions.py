"""A run grows with its manifest: an edit sends what it adds, and nothing that was asked before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from layton_batch.pipeline import advance
from layton_batch.runs.folders import find_run, find_runs
from layton_batch.runs.open import read_run
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.settings import Settings
from layton_batch.stages.rank import board
from layton_batch.states import Lifecycle
from tests.support.evidence import Rows
from tests.support.lab import BUNDLED, MODELS, Lab, lab, manifest_text, quiz_text

QUIZ = BUNDLED.parent / "mcq_idk" / "demo.jsonl"
TWO, THREE = ("openai", "anthropic"), ("openai", "anthropic", "mistral")
OPENAI = MODELS["openai"]
RENAMED = manifest_text(("openai",), limit=2).replace(f'name = "{OPENAI}"\nprovider', 'name = "shown so"\nprovider', 1)


def models_on_the_board(bench: Lab) -> list[str]:
    with read_run(find_run("lab", bench.runs), bench.settings) as run:
        return sorted(row.model for row in Rows(board(run, run.rules)))


def test_a_model_that_is_added_is_all_that_is_paid_for(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        first = bench.finish_paid_once(quiz_text(TWO, limit=2))
        before = len(bench.billed())
        second = bench.finish_paid_once(quiz_text(THREE, limit=2))
        assert len(bench.billed()) - before == 2
        assert second.spent_usd == bench.server.ledger().total_usd > first.spent_usd
        assert models_on_the_board(bench) == sorted(MODELS[name] for name in THREE)
        assert [folder.root.name for folder in find_runs(bench.runs)] == ["lab"]


def test_what_asks_nothing_else_sends_nothing(tmp_path: Path) -> None:
    shutil.copy(QUIZ, tmp_path / "copied.jsonl")
    lines = QUIZ.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "two.jsonl").write_text("".join(lines[:2]), encoding="utf-8")
    edits = {
        "another order": quiz_text(("anthropic", "openai"), limit=2),
        "a copied file": quiz_text(TWO, limit=2).replace("bundled", "copied.jsonl"),
        "budget and scoring": quiz_text(TWO, limit=2, top="[budget]\nmax_usd = 90\n[scoring]\nlevel = 0.9\n# so"),
        "a limit beyond the items": quiz_text(TWO, limit=400).replace("bundled", "two.jsonl"),
    }
    with lab(tmp_path) as bench:
        first = bench.finish_paid_once(quiz_text(TWO, limit=2))
        before = bench.billed()
        for name, text in edits.items():
            second = bench.finish_paid_once(text)
            assert (bench.billed(), second.spent_usd) == (before, first.spent_usd), name


def test_a_display_name_is_no_question(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish_paid_once(manifest_text(("openai",), limit=2))
        before = bench.billed()
        bench.finish_paid_once(RENAMED)
        assert bench.billed() == before
        assert models_on_the_board(bench) == ["shown so"]
        assert set(bench.table(RENAMED, "predictions")["model"]) == {"shown so"}
        assert set(bench.table(RENAMED, "verdicts")["model"]) == {"shown so"}
        lines = bench.bill().lines
        assert {line.group[1:] for line in lines} == {("shown so", "predict"), ("tern-3-referee", "judge")}
        assert set(bench.table(RENAMED, "cost")["model"]) == {"shown so", "tern-3-referee"}


def test_a_model_that_goes_leaves_the_board_and_costs_nothing_when_it_comes_back(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish_paid_once(quiz_text(TWO, limit=2))
        before = bench.billed()
        gone = bench.finish_paid_once(quiz_text(("openai",), limit=2))
        assert models_on_the_board(bench) == [OPENAI]
        assert {job.model for job in gone.jobs if job.role == "predict"} == {OPENAI}
        assert set(bench.table(quiz_text(("openai",), limit=2), "predictions")["model"]) == {OPENAI}
        bench.finish_paid_once(quiz_text(TWO, limit=2))
        assert models_on_the_board(bench) == sorted(MODELS[name] for name in TWO)
        assert bench.billed() == before


def test_a_run_whose_models_are_all_taken_out_collects_what_was_sent_and_is_done(tmp_path: Path) -> None:
    text = quiz_text(("openai",), limit=2)
    nobody = text[: text.index("[[models]]")]
    with lab(tmp_path) as bench:
        with bench.open(text) as run:
            advance(run)
            assert [batch.state for batch in run.store.batches()] == [Lifecycle.IN_FLIGHT]
        ended = bench.finish(nobody)
        assert (ended.state, ended.jobs) == (RunState.DONE, ())
        assert [batch.state for batch in ended.batches] == [Lifecycle.COLLECTED]
        paid = bench.billed()
        bench.finish_paid_once(text)
        assert (bench.billed(), len(paid)) == (paid, 2)


def test_a_key_that_only_a_removed_model_needs_keeps_nobody_else_from_the_board(tmp_path: Path) -> None:
    two, one = quiz_text(TWO, limit=2), quiz_text(("openai",), limit=2)
    with lab(tmp_path) as bench:
        with bench.open(two) as run:
            advance(run)
        every_key = bench.settings
        without = {name: value for name, value in bench.server.environment().items() if "ANTHROPIC_API_KEY" not in name}
        bench.settings = Settings.from_environment(without, tmp_path)
        with bench.open(one) as run:
            for _ in range(8):
                advance(run)
                bench.clock.sleep(300.0)
            waiting = [batch for batch in run.store.batches() if batch.provider == "anthropic"]
        assert models_on_the_board(bench) == [OPENAI]
        assert [batch.state for batch in waiting] == [Lifecycle.IN_FLIGHT]
        assert "needs an API key" in str(waiting[0].reason)
        bench.settings = every_key
        paid = bench.billed()
        bench.finish_paid_once(two)
        assert bench.billed() == paid


def test_more_items_are_asked_for_and_fewer_leave_the_board(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish_paid_once(manifest_text(limit=1))
        bench.finish_paid_once(manifest_text(limit=3))
        assert len(bench.billed()) == 6
        text = manifest_text(limit=2)
        bench.finish_paid_once(text)
        assert bench.table(text, "predictions").height == bench.table(text, "verdicts").height == 2
        assert bench.table(text, "leaderboard")["n_items"].to_list() == [2]
        bench.finish_paid_once(manifest_text(limit=3))
        assert bench.table(text, "predictions").height == 3
        assert len(bench.billed()) == 6


def test_an_item_whose_words_change_is_another_question(tmp_path: Path) -> None:
    lines = (BUNDLED / "riddles_llm.jsonl").read_text(encoding="utf-8").splitlines()[:2]
    items = tmp_path / "own.jsonl"
    with lab(tmp_path) as bench:
        items.write_text("\n".join(lines), encoding="utf-8")
        bench.finish_paid_once(manifest_text(("openai",), items="own.jsonl"))
        row = json.loads(lines[0])
        question = "description"
        row[question] = "Quickly now: " + row[question]
        items.write_text("\n".join([json.dumps(row), lines[1]]), encoding="utf-8")
        text = manifest_text(("openai",), items="own.jsonl")
        bench.finish_paid_once(text)
        asked = bench.requests(text).filter(pl.col("role") == "predict")
        assert asked.sort("custom_id")["retired"].to_list() == [True, False, False]
        assert bench.table(text, "predictions").height == 2


def test_a_judge_that_changes_is_asked_and_the_others_are_not(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish_paid_once(manifest_text(("openai",), limit=2))
        before = len(bench.billed())
        text = manifest_text(("openai",), limit=2).replace("seats = 1", "seats = 2")
        bench.finish_paid_once(text)
        assert len(bench.billed()) - before == 2
        assert bench.table(text, "verdicts").height == 4


def test_every_revision_is_kept_with_what_it_changed(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        for text in (quiz_text(TWO, limit=4), quiz_text(THREE, limit=4), quiz_text(THREE, limit=4), quiz_text(THREE)):
            with bench.open(text) as run:
                advance(run)
        told = json.loads(bench.run_folder(text).manifest.read_bytes())
        assert [(one["number"], one["changes"]) for one in told["revisions"]] == [
            (1, ["the run began"]),
            (2, [f"model {MODELS['mistral']} added"]),
            (3, ["items: limit was 4, is 3", "items: 1 taken out"]),
        ]


def test_two_models_that_ask_the_same_are_asked_once(tmp_path: Path) -> None:
    text = manifest_text(("openai",), limit=2)
    model = text[text.index("[[models]]") : text.index("[jury]")]
    twice = text.replace(model, model + model.replace(f'name = "{OPENAI}"', 'name = "the same"', 1))
    with lab(tmp_path) as bench:
        bench.finish_paid_once(twice)
        assert len(bench.billed()) == 4
        assert models_on_the_board(bench) == sorted([OPENAI, "the same"])
        reused = bench.table(twice, "reused")
        assert reused.height == 4
        assert set(reused["run"]) == {"lab"}
        assert bench.bill().reused.requests == 0  # the bill has what the run paid


def test_what_was_only_planned_is_not_sent_when_it_is_not_asked_for_any_more(tmp_path: Path) -> None:
    """A budget held the batch up; with fewer items the rest of it fits, and what comes back later is asked once."""
    whole = manifest_text(("openai",), limit=6, top="[budget]\nmax_usd = 0.015")
    with lab(tmp_path) as bench:
        stopped = bench.finish(whole)
        assert (stopped.state, bench.billed()) == (RunState.OVER_BUDGET, {})
        fewer = manifest_text(("openai",), limit=1, top="[budget]\nmax_usd = 0.02")
        status = bench.finish_paid_once(fewer)
        assert len(bench.billed()) == 2
        assert [job.requests for job in status.jobs] == [1, 1]
        bench.finish_paid_once(manifest_text(("openai",), limit=3))
        assert len(bench.billed()) == 6
        assert bench.table(fewer, "predictions").height == 3


def test_an_item_without_an_answer_that_is_taken_out_is_no_gap(tmp_path: Path) -> None:
    bad = Fault(on="row", action="error", status=400, provider="openai", match=r"-000002\b", times=9)
    with lab(tmp_path, bad) as bench:
        assert bench.finish(quiz_text(limit=2)).unanswered == 1
        assert bench.finish(quiz_text(limit=1)).unanswered == 0
        assert bench.retry() == 0
        assert bench.finish(quiz_text(limit=2)).unanswered == 1


@pytest.mark.parametrize("count", [2, pytest.param(7, marks=pytest.mark.nightly)])
def test_a_run_built_up_model_by_model_has_the_board_of_one_at_once(tmp_path: Path, count: int) -> None:
    """A model a night, then a judge's seat and more items; in the end the board is the same, digit for digit."""
    names = tuple(MODELS)[:count]
    (tmp_path / "nights").mkdir()
    with lab(tmp_path / "nights") as bench:
        for night in range(1, len(names) + 1):
            bench.finish(manifest_text(tuple(reversed(names[:night])), limit=1))
        text = manifest_text(names, limit=2).replace("seats = 1", "seats = 2")
        built_up = bench.finish(text)
        assert set(bench.billed().values()) == {1}
        nights, paid = bench.table(text, "leaderboard"), bench.server.ledger().total_usd
        assert built_up.spent_usd == paid
    (tmp_path / "once").mkdir()
    with lab(tmp_path / "once") as bench:
        at_once = bench.finish(text)
        assert bench.table(text, "leaderboard").equals(nights)
        assert at_once.spent_usd == built_up.spent_usd
        assert [job.model for job in at_once.jobs] == [job.model for job in built_up.jobs]


def test_an_unusable_verdict_on_an_item_that_was_taken_out_meanwhile_is_not_asked_for_again(tmp_path: Path) -> None:
    unusable = Fault(on="row", action="malformed_text", provider="gemini", match=r"-000002\b", times=1)
    policy = "[policy]\nreask_unparsed = 1"
    with lab(tmp_path, unusable) as bench:
        with bench.open(manifest_text(("openai",), limit=2, top=policy)) as run:
            while not any(batch.provider == "gemini" for batch in run.store.batches({Lifecycle.IN_FLIGHT})):
                advance(run)
                bench.clock.sleep(30.0)
        bench.finish_paid_once(manifest_text(("openai",), limit=1, top=policy))
        assert len(bench.billed()) == 4
