"""Processes measured from outside: wall time, CPU time and peak memory of the largest."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.support.paths import ROOT


@dataclass(frozen=True)
class Measured:
    """One process: seconds and MiB."""

    wall: float
    cpu: float
    peak_mib: float
    output: str
    code: int


def run(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> Measured:
    """Run ``python -m layton_batch ARGUMENTS`` and measure it."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "layton_batch", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
        cwd=ROOT,
    )
    assert process.stdout is not None
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    wall = time.perf_counter() - begun
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output, process.returncode)


def best(arguments: Sequence[str], rounds: int = 5) -> Measured:
    """The quickest of several runs, by CPU time."""
    return min((run(arguments) for _ in range(rounds)), key=lambda one: one.cpu)


def told(name: str, value: float, unit: str, limit: float) -> None:
    """A figure beside the limit it is held against."""
    verdict = "within" if value <= limit else "OVER"
    print(f"{name:44} {value:9.2f} {unit:4} limit {limit:g} {unit} ({verdict})")
