"""One database for all runs of a folder: whatever a person does with the folders, nothing is paid twice."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from layton_batch.errors import StoreError
from tests.support.cli_harness import call
from tests.support.lab import Lab, lab, named, quiz_text

LAB = quiz_text(("openai",), limit=1)
OTHER = named("other", quiz_text(("groq",), limit=1))
THIRD = named("third", LAB)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two runs of one workspace; each has sent its first batch."""
    with lab(tmp_path_factory.mktemp("begun")) as made:
        for text in (LAB, OTHER):
            made.begin(text)
        yield made


@pytest.fixture
def bench(begun: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A copy of that workspace."""
    monkeypatch.setattr(begun, "runs", Path(shutil.copytree(begun.runs, tmp_path / "runs")))
    return begun


def remove_state(runs: Path) -> None:
    for path in runs.glob("state.sqlite3*"):
        path.unlink()


def restore_state(copy: Path, runs: Path) -> None:
    remove_state(runs)
    for path in copy.glob("state.sqlite3*"):
        shutil.copy(path, runs)


def assert_refused(bench: Lab, text: str, *words: str) -> None:
    """The run is not opened, nothing is sent, and the message names these."""
    before = bench.creates()
    with pytest.raises(StoreError) as refused, bench.open(text):
        pass
    assert refused.value.exit_code == 2
    assert [word for word in words if word not in str(refused.value)] == []
    assert "\n" not in str(refused.value)
    assert bench.creates() == before


def assert_finishes(bench: Lab, *texts: str) -> None:
    for text in texts:
        assert bench.finish(text).unanswered == 0
    assert set(bench.billed().values()) == {1}


# ---- what goes on ----------------------------------------------------------------------------------------------------


def renamed(bench: Lab) -> None:
    bench.runs = bench.runs.rename(bench.runs.with_name("elsewhere"))


def linked(bench: Lab) -> None:
    disk = bench.runs.with_name("disk")
    disk.mkdir()
    (bench.runs / "lab").symlink_to((bench.runs / "lab").rename(disk / "lab"))


def with_a_copy_of_a_run(bench: Lab) -> None:
    shutil.copytree(bench.runs / "lab", bench.runs / "lab-copy")


@pytest.mark.parametrize("change", [renamed, linked, with_a_copy_of_a_run])
def test_a_workspace_that_is_moved_or_copied_goes_on(bench: Lab, change: Callable[[Lab], None]) -> None:
    change(bench)
    assert_finishes(bench, LAB, OTHER)
    assert [path.name for path in bench.runs.rglob("*.sqlite3")] == ["state.sqlite3"]
    for text, provider in ((LAB, "openai"), (OTHER, "groq")):
        assert {batch.provider for batch in bench.read(text).batches} == {provider}
        assert len(bench.events(text, "run_created")) == 1
    if change is with_a_copy_of_a_run:  # which is named, and stops nothing
        for command in ("status", "cost lab", "leaderboard lab"):
            assert call(*command.split(), "--runs", bench.runs).code == 0
        assert "lab-copy" in call("status", "--runs", bench.runs).err
        assert call("status", "lab-copy", "--runs", bench.runs).code == 2


# ---- what is refused until it is put back ----------------------------------------------------------------------------


def without_folder(bench: Lab, _copy: Path) -> None:
    shutil.rmtree(bench.runs / "lab")


def without_database(bench: Lab, _copy: Path) -> None:
    remove_state(bench.runs)


def with_a_damaged_database(bench: Lab, _copy: Path) -> None:
    remove_state(bench.runs)
    (bench.runs / "state.sqlite3").write_bytes(b"no database" * 1000)


def with_the_database_of_before_a_payment(bench: Lab, copy: Path) -> None:
    newer = Path(shutil.copytree(bench.runs, copy.with_name("newer")))
    assert_finishes(bench, quiz_text(("openai", "mistral"), limit=1))
    shutil.rmtree(copy)
    shutil.copytree(bench.runs, copy)
    restore_state(newer, bench.runs)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What became of a workspace: runs that are refused, those that go on, and what the message names."""

    change: Callable[[Lab, Path], None]
    refused: tuple[str, ...]
    words: tuple[str, ...]
    go_on: tuple[str, ...] = ()


TROUBLES = {
    "folder gone": Trouble(without_folder, (LAB,), ("state.sqlite3", "run lab", "put the folder back"), (OTHER,)),
    "database gone": Trouble(without_database, (LAB, OTHER, THIRD), ("state.sqlite3", "lab", "other")),
    "database damaged": Trouble(with_a_damaged_database, (LAB, OTHER), ("state.sqlite3", "intents/")),
    "database older": Trouble(with_the_database_of_before_a_payment, (LAB, OTHER), ("lab", "lab/intents")),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_a_workspace_that_lacks_something_is_refused_until_it_is_put_back(
    bench: Lab, tmp_path: Path, name: str
) -> None:
    trouble, copy = TROUBLES[name], bench.keep_copy(str(tmp_path / "copy"))
    trouble.change(bench, copy)
    for text in trouble.refused:
        assert_refused(bench, text, *trouble.words)
    assert_finishes(bench, *trouble.go_on)
    if name == "folder gone":
        shutil.copytree(copy / "lab", bench.runs / "lab")
    else:
        restore_state(copy, bench.runs)
    assert_finishes(bench, LAB, OTHER)


@pytest.mark.parametrize("with_database", [False, True])
def test_a_run_whose_folder_alone_was_copied_is_refused(bench: Lab, tmp_path: Path, with_database: bool) -> None:
    here, bench.runs = bench.runs, tmp_path / "elsewhere"
    if with_database:
        with bench.open(THIRD):
            pass
    shutil.copytree(here / "lab", bench.runs / "lab")
    assert_refused(bench, LAB, "elsewhere/state.sqlite3", "does not know the run" if with_database else "is not there")
    assert (bench.runs / "state.sqlite3").exists() == with_database
    with pytest.raises(StoreError):
        bench.read(LAB)
