"""Whatever becomes of a run's folder and its state, nobody pays twice: older stores and lost ones."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.errors import StorageError, StoreError
from layton_batch.files.run_folder import RunFolder
from layton_batch.pipeline import advance
from layton_batch.states import Lifecycle
from tests.support.lab import MODELS, Lab, lab, quiz_text
from tests.support.tiers import tiered


def states_of(folder: RunFolder) -> list[Path]:
    return list(folder.workspace.root.glob("state.sqlite3*"))


def full_for_marks(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """The disk has no room for a mark: when it is written, or not before it gets its name."""
    original = Path.open if when == "open" else Path.replace

    def full(path: Path, *arguments: object, **options: object) -> object:
        if path.parent.name == "intents" and path.name.startswith("."):
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, when, full)


@pytest.mark.parametrize(
    ("provider", "when"),
    tiered(
        MODELS,
        ("open", "replace"),
        ci=[("openai", "open"), ("anthropic", "replace")],
    ),
)
def test_without_a_mark_nothing_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str, when: str
) -> None:
    text = quiz_text((provider,), limit=2)
    with lab(tmp_path) as bench:
        with monkeypatch.context() as patch, bench.open(text) as run:
            full_for_marks(patch, when)
            with pytest.raises(StorageError, match=r"cannot write .*intents.*No space left on device"):
                advance(run)
            assert bench.creates() == 0
            (batch,) = run.store.batches()
            assert batch.state is (Lifecycle.PLANNED if when == "open" else Lifecycle.SUBMITTING)
        bench.finish_paid_once(text)


# ---- a store that is gone ------------------------------------------------------------------------------------------


PAID = quiz_text(limit=2)


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A finished run, of which each test damages a copy."""
    with lab(tmp_path_factory.mktemp("paid")) as bench:
        bench.finish(PAID)
        yield bench


@pytest.fixture
def copy(paid: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(paid, "runs", shutil.copytree(paid.runs, tmp_path / "runs"))
    return paid


@pytest.mark.parametrize("left", ["intents", "batches", "tables", "run.json"])
def test_a_folder_that_shows_an_earlier_life_is_no_new_run(copy: Lab, left: str) -> None:
    before, folder = copy.creates(), copy.run_folder(PAID)
    for path in (*states_of(folder), *folder.root.iterdir(), folder.workspace.root / "batches"):
        if path.name != left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(StoreError, match=r"Put (the store|state\.sqlite3) back") as refused:
        copy.finish(PAID)
    assert folder.root.name in str(refused.value)
    assert copy.creates() == before
