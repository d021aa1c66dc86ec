"""Whatever becomes of a run's folder and its state, nobody pays twice: older stores and lost ones."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from layton_batch.errors import StorageError, StoreError
from layton_batch.files.run_folder import RunFolder
from layton_batch.pipeline import advance
from layton_batch.runs.stores import open_store
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from layton_batch.store.intents import Intent, read_intents
from tests.pipeline.test_drivers import creates
from tests.support.lab import MODELS, Lab, lab, quiz_text
from tests.support.tiers import FAMILIES, tiered

EVENTS_SINCE = 3_000
"""Lines of a log about one batch of odd rows: far more than 256 KiB."""


def held_up(provider: str) -> Fault:
    """The first batch is not sent at once, so that a copy of its store can be made while it is planned."""
    on = "create" if provider == "anthropic" else "upload"
    return Fault(on=on, action="status", status=429, provider=provider, times=1)


def states_of(folder: RunFolder) -> list[Path]:
    return list(folder.workspace.root.glob("state.sqlite3*"))


def paid_behind_a_backup(bench: Lab, text: str) -> RunFolder:
    """A run that has paid, and whose log has grown since; its store is one from before the payment."""
    folder = bench.run_folder(text)
    with bench.open(text) as run:
        advance(run)
        assert {batch.state for batch in run.store.batches()} == {Lifecycle.PLANNED}
    backup = {path.name: path.read_bytes() for path in states_of(folder)}
    bench.clock.sleep(120.0)
    with bench.open(text) as run:
        advance(run)
        assert {batch.state for batch in run.store.batches()} == {Lifecycle.IN_FLIGHT}
    for path in states_of(folder):
        path.unlink()
    for name, content in backup.items():
        (folder.workspace.root / name).write_bytes(content)
    line = {
        "at": "2026-11-18T00:00:00Z",
        "run": folder.root.name,
        "seq": 999,
        "event": "row_refused",
        "detail": "x" * 80,
    }
    with folder.log.open("ab") as log:
        log.writelines(
            orjson.dumps(line | {"seq": 900 + n}, option=orjson.OPT_APPEND_NEWLINE) for n in range(EVENTS_SINCE)
        )
    return folder


@pytest.mark.parametrize("provider", tiered(MODELS, ci=("openai", "anthropic")))
def test_an_older_store_is_refused_however_long_ago_the_payment_was(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=2)
    with lab(tmp_path, held_up(provider)) as bench:
        folder = paid_behind_a_backup(bench, text)
        before = creates(bench)
        with pytest.raises(StoreError, match=r"older than its folder: .*intents tells of the payment for predict-"):
            bench.finish(text)
        folder.log.unlink()  # the log is for people: nothing hangs on it
        with pytest.raises(StoreError, match="older than its folder"):
            bench.finish(text)
        assert creates(bench) == before
        bench.clock.sleep(120.0)
        assert set(bench.billed().values()) == {1}


def test_a_reading_command_makes_no_store_where_there_is_none(tmp_path: Path) -> None:
    text = quiz_text(limit=2)
    with lab(tmp_path) as bench:
        with bench.open(text) as run:
            advance(run)
        folder = bench.run_folder(text)
        for path in states_of(folder):
            path.unlink()
        with pytest.raises(StoreError, match="is not there: put it back"), open_store(folder, bench.settings):
            pass
        assert not folder.workspace.database.exists()


def test_every_intent_of_every_driver_has_its_mark(tmp_path: Path) -> None:
    text = quiz_text(FAMILIES, limit=2)
    with lab(tmp_path) as bench:
        with bench.open(text) as earlier:
            advance(earlier)
        bench.finish(text)
        with open_store(bench.run_folder(text), bench.settings) as store:
            events = [event for event in store.events() if event.kind == "submitting"]
        assert read_intents(bench.run_folder(text).intents) == [
            Intent(event.seq, str(event.batch_id)) for event in events
        ]
        assert creates(bench) == len(events) == 4


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
            assert creates(bench) == 0
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
    before, folder = creates(copy), copy.run_folder(PAID)
    for path in (*states_of(folder), *folder.root.iterdir(), folder.workspace.root / "batches"):
        if path.name != left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(StoreError, match=r"Put (the store|state\.sqlite3) back") as refused:
        copy.finish(PAID)
    assert folder.root.name in str(refused.value)
    assert creates(copy) == before


@pytest.mark.parametrize("gone", [(), ("intents", "log.jsonl")], ids=["marks", "no marks"])
def test_another_database_is_no_new_run_either(copy: Lab, tmp_path: Path, gone: tuple[str, ...]) -> None:
    before, folder = creates(copy), copy.run_folder(PAID)
    for path in (folder.root / name for name in gone):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    folder.workspace.database.rename(tmp_path / "elsewhere.sqlite3")
    said = r"the state store .*runs/state\.sqlite3 (does not know the run|is not there).* Is LAYTON_BATCH_STATE set"
    with pytest.raises(StoreError, match=said):
        copy.finish(PAID)
    assert creates(copy) == before
