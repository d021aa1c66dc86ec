"""One measurement in a process of its own: peak memory is a process's, and never goes down."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import ROOT


@dataclass(frozen=True)
class Apart:
    """CPU seconds, bytes that came of it, and the largest the process was."""

    cpu: float
    size: int
    peak_mib: float


def apart(module: str, kind: str, folder: Path) -> Apart:
    """``python -m MODULE KIND FOLDER``, which prints the three figures as a JSON list."""
    words = [sys.executable, "-m", module, kind, str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{kind} of {module} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return Apart(*json.loads(done.stdout.splitlines()[-1]))
