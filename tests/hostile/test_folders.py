"""Whatever becomes of a run's folder, state and words: nobody pays twice, and it ends with its own exit code."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.errors import StorageError, StoreError
from layton_batch.pipeline import advance
from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.states import Lifecycle
from tests.support.cli_harness import PROGRAM, write
from tests.support.lab import MODELS, ROOT, Lab, lab, quiz_text
from tests.support.tiers import tiered


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
    tiered(MODELS, ("open", "replace"), ci=[("openai", "open"), ("anthropic", "replace")]),
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
    workspace = folder.workspace.root
    for path in (*workspace.glob("state.sqlite3*"), *folder.root.iterdir(), workspace / "batches"):
        if path.name != left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(StoreError, match=r"Put (the store|state\.sqlite3) back") as refused:
        copy.finish(PAID)
    assert folder.root.name in str(refused.value)
    assert copy.creates() == before


# ---- words that nobody can read --------------------------------------------------------------------------------------

STREAMS = ("2>&-", "2>/dev/full", ">&-", ">/dev/full", ">/dev/full 2>/dev/full", "<&- >&- 2>&-")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("streams", tiered(STREAMS, ci=("<&- >&- 2>&-",)))
def test_a_run_ends_with_its_own_code_whatever_becomes_of_its_words(tmp_path: Path, streams: str) -> None:
    write(tmp_path, PAID)
    with Sandbox(SandboxConfig(batch_seconds=1e6)) as server:
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$0" "$@" {streams}', *PROGRAM, "run", "manifest.toml", "--once"],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **server.environment()},
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (75, False)
    (log,) = tmp_path.glob("runs/*/log.jsonl")
    assert b'"submitted"' in log.read_bytes()
