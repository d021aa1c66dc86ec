"""Ratios of CPU time that are kept, and whether a change made one worse.

A ratio is of two processes of one run, on one machine: that the machine is slow or busy moves it little.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from benchmarks import board, collect, prepare, site

PATH = Path(__file__).with_name("ratios.json")
WORSE = 1.2
ROUNDS = 3
"""The best of so many counts: what disturbs a measurement makes it worse."""


def measured() -> dict[str, float]:
    """Every ratio that is kept, of sizes that take a minute together."""
    found: dict[str, float] = {}
    for _ in range(ROUNDS):
        ratios = (prepare.main(["--lines", "30000"]), collect.main(["--rows", "10000"]),
                  site.main(["--models", "40", "--items", "500"]), board.main(["--models", "100"]))  # fmt: skip
        for name, ratio in (one for found in ratios for one in found.items()):
            found[name] = min(ratio, found.get(name, ratio))
    return found


def keep() -> None:
    """Measure, and write down what is measured from now on."""
    ratios = {name: round(ratio, 3) for name, ratio in sorted(measured().items())}
    PATH.write_text(json.dumps(ratios, indent=2) + "\n", encoding="utf-8")


def check() -> int:
    """Measure, and say what is worse than what is kept; the exit code."""
    worse = list(compared(json.loads(PATH.read_text(encoding="utf-8")), measured()))
    for line in worse:
        print(f"WORSE: {line}")
    return 1 if worse else 0


def compared(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """A line for each ratio that is worse by more than a fifth, and for each that is gone."""
    gone = [f"{name} is not measured any more" for name in before if name not in now]
    return gone + [
        f"{name}: {now[name]:.2f}, was {ratio:.2f}"
        for name, ratio in before.items()
        if now.get(name, 0) > WORSE * ratio
    ]
