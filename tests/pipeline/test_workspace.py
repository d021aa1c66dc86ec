"""One database for all runs of a folder: whatever a person does with the folders, nothing is paid twice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.errors import StoreError
from layton_batch.pipeline import advance
from layton_batch.runs.stores import open_store
from tests.pipeline.test_drivers import creates
from tests.support.cli_harness import call
from tests.support.lab import Lab, lab, quiz_text
from tests.support.tiers import tiered

LAB = quiz_text(("openai",), limit=1)
OTHER = quiz_text(("groq",), limit=1).replace('name = "lab"', 'name = "other"', 1)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Lab]:
    """Two runs of one workspace; each has sent its first batch."""
    with lab(tmp_path) as made:
        for text in (LAB, OTHER):
            with made.open(text) as run:
                advance(run)
        yield made


def remove_state(runs: Path) -> None:
    for path in runs.glob("state.sqlite3*"):
        path.unlink()


def restore_state(copy: Path, runs: Path) -> None:
    remove_state(runs)
    for path in copy.glob("state.sqlite3*"):
        shutil.copy(path, runs)


def assert_refused(bench: Lab, text: str, said: str) -> None:
    """The run must not be opened, and nothing may be sent."""
    before = creates(bench)
    with pytest.raises(StoreError, match=said) as refused, bench.open(text):
        pass
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)
    assert creates(bench) == before


def assert_finishes(bench: Lab, *texts: str) -> None:
    for text in texts:
        assert bench.finish(text).unanswered == 0
    assert set(bench.billed().values()) == {1}


def test_runs_share_the_database_of_their_workspace(bench: Lab) -> None:
    assert [path.name for path in bench.runs.rglob("*.sqlite3")] == ["state.sqlite3"]
    for text, provider in ((LAB, "openai"), (OTHER, "groq")):
        with open_store(bench.run_folder(text), bench.settings) as store:
            assert {batch.provider for batch in store.batches()} == {provider}
            assert [event.kind for event in store.events()].count("run_created") == 1
    assert_finishes(bench, LAB, OTHER)


@pytest.mark.parametrize("is_copied", tiered((False, True), ci=(True,)), ids=["moved", "copied"])
def test_a_workspace_that_is_moved_or_copied_goes_on(bench: Lab, tmp_path: Path, is_copied: bool) -> None:
    place = tmp_path / "elsewhere"
    shutil.copytree(bench.runs, place) if is_copied else bench.runs.rename(place)
    bench.runs = place
    assert_finishes(bench, LAB, OTHER)


def test_a_run_is_found_from_within_its_folder(bench: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bench.runs / "lab" / "tables")
    assert call("status", "..").code == 0


def test_a_run_whose_folder_is_a_link_to_another_disk_goes_on(bench: Lab, tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (bench.runs / "lab").rename(tmp_path / "big" / "lab")
    (bench.runs / "lab").symlink_to(tmp_path / "big" / "lab")
    assert_finishes(bench, LAB, OTHER)


def test_a_run_whose_folder_was_deleted_is_refused_until_it_is_put_back(bench: Lab, tmp_path: Path) -> None:
    (bench.runs / "lab").rename(tmp_path / "lab")
    assert_refused(bench, LAB, r"runs/state\.sqlite3 knows run lab with 1 batch, .* put the folder back.* another name")
    assert not (bench.runs / "lab").exists()
    assert_finishes(bench, OTHER)
    (tmp_path / "lab").rename(bench.runs / "lab")
    assert_finishes(bench, LAB)


def test_a_run_that_reused_every_answer_is_refused_as_well_without_its_folder(bench: Lab) -> None:
    third = LAB.replace('name = "lab"', 'name = "third"', 1)
    assert_finishes(bench, LAB, third)
    shutil.rmtree(bench.runs / "third")
    assert_refused(bench, third, r"knows run third with \d+ jobs?, .* put the folder back.* another name")
    assert_finishes(bench, third.replace('name = "third"', 'name = "fourth"', 1))


@pytest.mark.parametrize("with_database", [False, True])
def test_a_run_whose_folder_alone_was_copied_is_refused(bench: Lab, tmp_path: Path, with_database: bool) -> None:
    here, bench.runs = bench.runs, tmp_path / "elsewhere"
    if with_database:
        with bench.open(LAB.replace('name = "lab"', 'name = "third"', 1)):
            pass
    shutil.copytree(here / "lab", bench.runs / "lab")
    said = r"elsewhere/state\.sqlite3 " + ("does not know the run" if with_database else "is not there, and batches")
    assert_refused(bench, LAB, said)
    assert (bench.runs / "state.sqlite3").exists() == with_database
    with pytest.raises(StoreError, match=said.partition(",")[0]), open_store(bench.run_folder(LAB), bench.settings):
        pass


@pytest.mark.parametrize("name", tiered(("lab", "other", "third"), ci=("other",)))
def test_no_database_is_made_beside_runs_that_have_paid(bench: Lab, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copytree(bench.runs, tmp_path / "copy"))
    remove_state(bench.runs)
    text = OTHER if name == "other" else LAB.replace('name = "lab"', f'name = "{name}"', 1)
    assert_refused(bench, text, r"runs/state\.sqlite3 is not there, and batches were paid for: .* of lab, other name")
    assert list(bench.runs.glob("state.sqlite3*")) == []
    restore_state(copy, bench.runs)
    assert_finishes(bench, LAB, OTHER)


def test_a_damaged_database_is_refused_with_the_place_of_the_marks(bench: Lab) -> None:
    remove_state(bench.runs)
    (bench.runs / "state.sqlite3").write_bytes(b"no database" * 1000)
    for text in (LAB, OTHER):
        assert_refused(bench, text, r"runs/state\.sqlite3 cannot be opened: .* each run's intents/ name the batches")
        (mark,) = (bench.run_folder(text).intents).iterdir()
        assert mark.name.startswith("predict-")


def test_an_older_state_is_refused_for_every_run_though_one_alone_has_paid_since(bench: Lab, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(bench.runs, tmp_path / "copy"))
    assert_finishes(bench, quiz_text(("openai", "mistral"), limit=1))
    newer = Path(shutil.copytree(bench.runs, tmp_path / "newer"))
    restore_state(copy, bench.runs)
    for text in (LAB, OTHER):
        assert_refused(bench, text, "the state store of lab is older than its folder: .*lab/intents tells of the paym")
    restore_state(newer, bench.runs)
    assert_finishes(bench, LAB, OTHER)


def test_a_state_that_knows_nothing_of_a_run_that_has_paid_is_refused_for_every_run(bench: Lab, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(bench.runs, tmp_path / "copy"))
    third = LAB.replace('name = "lab"', 'name = "third"', 1).replace("limit = 1", "limit = 2")
    assert_finishes(bench, third)
    restore_state(copy, bench.runs)
    assert_refused(bench, LAB, "the state store of third is older than its folder: .*third/intents tells of the paym")
    assert_refused(bench, third, "does not know the run")
    (bench.runs / "third").rename(tmp_path / "third")
    with bench.open(LAB):
        pass


def test_a_copy_of_a_run_beside_it_keeps_no_run_from_going_on(bench: Lab) -> None:
    shutil.copytree(bench.runs / "lab", bench.runs / "lab-copy")
    assert_finishes(bench, LAB, OTHER)
