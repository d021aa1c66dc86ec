"""The same, as a person at the command line meets it: where a run is begun, exit codes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from layton_batch.sandbox import Sandbox, SandboxConfig
from tests.support.cli_harness import PROGRAM, ROOT, Ending, write
from tests.support.lab import BUNDLED, quiz_text
from tests.support.tiers import tiered

FULL, GOLD = Path("/dev/full"), BUNDLED / "gold_llm.jsonl"
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


# ---- real processes ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served() -> Iterator[Mapping[str, str]]:
    """The environment of a sandbox whose batches never end by themselves."""
    with Sandbox(SandboxConfig(batch_seconds=1e6)) as server:
        yield server.environment()


def redirected(arguments: str, cwd: Path, environment: Mapping[str, str]) -> Ending:
    """A command as a shell starts it, with its redirections."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$@" {arguments}', *PROGRAM, "run", "manifest.toml", "--once"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
        cwd=cwd, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return Ending(done.returncode, done.stdout, done.stderr)


@needs_full
@pytest.mark.parametrize(
    "streams",
    tiered(
        ("2>&-", "2>/dev/full", ">&-", ">/dev/full", ">/dev/full 2>/dev/full", "<&- >&- 2>&-"),
        ci=("<&- >&- 2>&-",),
    ),
)
def test_a_run_ends_with_its_own_code_whatever_becomes_of_its_words(
    tmp_path: Path, served: Mapping[str, str], streams: str
) -> None:
    write(tmp_path, quiz_text(limit=2))
    end = redirected(streams, tmp_path, served)
    assert end.code == 75, end.err
    assert "Traceback" not in end.err
    (log,) = tmp_path.glob("runs/*/log.jsonl")
    assert b'"submitted"' in log.read_bytes()
