"""A run whose words nobody can read: it ends with its own exit code all the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from layton_batch.sandbox import Sandbox, SandboxConfig
from tests.support.cli_harness import PROGRAM, ROOT, write
from tests.support.lab import quiz_text
from tests.support.tiers import tiered

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
