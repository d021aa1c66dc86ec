"""CPU time of ``--help``: imports must wait until a command needs them."""

from __future__ import annotations

from tests.bench.measure import best, told


def main() -> None:
    measured = best(["--help"])
    told("--help, CPU", measured.cpu, "s", 0.5)
    told("--help, peak memory", measured.peak_mib, "MiB", 100)
