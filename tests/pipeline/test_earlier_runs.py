"""Runs that the release before revisions began are gone on with, and nothing of theirs is bought again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from layton_batch.errors import StoreError
from layton_batch.pipeline import advance
from layton_batch.runs.folders import find_run, find_runs, misplaced_runs
from layton_batch.runs.open import read_run
from layton_batch.runs.status import RunState, read_status
from layton_batch.runs.stores import open_store
from layton_batch.stages.rank import board
from layton_batch.states import Lifecycle
from tests.cli.cli_harness import call
from tests.pipeline.earlier_release import as_the_release_before_left_it
from tests.pipeline.lab import MODELS, Lab, lab, manifest_text

ONE, TWO = manifest_text(("openai",), limit=2), manifest_text(("openai", "anthropic"), limit=2)


def aged(bench: Lab, text: str) -> str:
    """The run of this manifest as the release before left it; its name then."""
    return as_the_release_before_left_it(bench.run_folder(text), bench.manifest(text)).root.name


def test_a_finished_run_is_taken_over_and_pays_for_what_is_added_alone(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        first = bench.finish(ONE)
        former = aged(bench, ONE)
        before = bench.billed()
        again = bench.finish(ONE)
        assert (again.state, again.spent_usd, bench.billed()) == (RunState.DONE, first.spent_usd, before)
        assert [folder.root.name for folder in find_runs(bench.runs)] == ["lab"]
        assert find_run(former, bench.runs).root == find_run("lab", bench.runs).root
        more = bench.finish(TWO)
        assert (more.state, more.unanswered) == (RunState.DONE, 0)
        assert set(bench.billed().values()) == {1}
        assert len(bench.billed()) == 8
        assert more.spent_usd == bench.server.ledger().total_usd


def test_an_edited_manifest_takes_over_the_run_of_its_name(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish(ONE)
        aged(bench, ONE)
        bench.finish(TWO)
        assert len(bench.billed()) == 8
        assert [folder.root.name for folder in find_runs(bench.runs)] == ["lab"]


def test_batches_that_the_release_before_sent_are_collected(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        with bench.open(ONE) as run:
            while not run.store.batches({Lifecycle.IN_FLIGHT}):
                advance(run)
                bench.clock.sleep(5.0)
        aged(bench, ONE)
        assert bench.finish(TWO).unanswered == 0
        assert set(bench.billed().values()) == {1}
        assert len(bench.billed()) == 8


def test_items_that_changed_since_are_asked_and_the_others_are_not(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish(ONE)
        aged(bench, ONE)
        bench.finish(manifest_text(("openai",), limit=3))
        assert len(bench.billed()) == 6
        assert set(bench.billed().values()) == {1}


def test_of_two_runs_of_one_name_the_manifests_own_is_gone_on_with_and_the_other_gives_its_answers(
    tmp_path: Path,
) -> None:
    with lab(tmp_path) as bench:
        bench.finish(ONE)
        shutil.move(tmp_path / "runs" / aged(bench, ONE), tmp_path / "first")
        bench.finish(TWO)
        billed = len(bench.billed())
        former = aged(bench, TWO)
        shutil.move(tmp_path / "first", tmp_path / "runs" / bench.manifest(ONE).content_id())
        bench.finish(ONE)
        bench.finish(manifest_text(("openai", "anthropic", "mistral"), limit=2))
        assert find_run("lab", bench.runs).root.name == "lab"
        assert {folder.root.name for folder in find_runs(bench.runs)} == {"lab", former}
        assert len(bench.billed()) == billed + 4  # the third model's; the second's are the other run's
        with read_run(find_run("lab", bench.runs), bench.settings) as run:
            assert len(board(run, run.rules)) == 3


def test_a_copy_or_a_renamed_folder_is_named_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab(tmp_path) as bench:
        bench.finish(ONE)
        root = bench.run_folder(ONE).root
        shutil.copytree(root, root.with_name("lab-copy"))
        assert [folder.root.name for folder in find_runs(bench.runs)] == ["lab"]
        (said,) = misplaced_runs(bench.runs)
        assert "lab-copy is a copy of the run lab, or was renamed" in said
        with (
            pytest.raises(StoreError, match="is a copy of the run lab"),
            open_store(find_run("lab-copy", bench.runs), bench.settings),
        ):
            pass
        with open_store(find_run("lab", bench.runs), bench.settings) as store:
            assert read_status(store).state is RunState.DONE
        monkeypatch.chdir(tmp_path)
        told = call("status")
        assert (told.code, "left out" in told.err, "lab-copy" in told.err) == (0, True, True)
        assert MODELS["openai"] in call("leaderboard", "lab").out
        assert call("cost", "lab").code == call("site", "lab", "--out", tmp_path / "site").code == 0
