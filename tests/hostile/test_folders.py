"""Whatever becomes of a run's folder, state and words: nobody pays twice, and it ends with its own exit code."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from layton_batch.errors import StorageError
from layton_batch.pipeline import advance
from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.states import Lifecycle
from tests.support.cli_harness import PROGRAM, write
from tests.support.lab import MODELS, ROOT, lab, quiz_text
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


# ---- words that nobody can read --------------------------------------------------------------------------------------

STREAMS = ("2>&-", "2>/dev/full", ">&-", ">/dev/full", ">/dev/full 2>/dev/full", "<&- >&- 2>&-")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("streams", tiered(STREAMS, ci=("<&- >&- 2>&-",)))
def test_a_run_ends_with_its_own_code_whatever_becomes_of_its_words(tmp_path: Path, streams: str) -> None:
    write(tmp_path, quiz_text(limit=2))
    with Sandbox(SandboxConfig(batch_seconds=1e6)) as server:
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$0" "$@" {streams}', *PROGRAM, "run", "manifest.toml", "--once"],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **server.environment()},
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (75, False)
    (log,) = tmp_path.glob("runs/*/log.jsonl")
    assert b'"submitted"' in log.read_bytes()
