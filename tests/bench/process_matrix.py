"""Kind of call × phase × provider, a fresh ``python`` for every life: ``scripts/bench faults --processes``."""

from __future__ import annotations

import time
from collections import Counter

from tests.processes.commands import bench
from tests.processes.killings import every_phase
from tests.simulation.world import SEVEN


def main() -> int:
    """Every kind of call × phase × provider, each provider's in one run; 1 where a claim did not hold."""
    begun, broken = time.perf_counter(), 0
    print("| provider | kills | replies lost | batches created | rows billed | rows lost |")
    print("|---|---|---|---|---|---|")
    for provider in SEVEN:
        with bench(preloaded=False) as place:
            ordeal = every_phase(place, provider)
        phases = Counter(phase for _, phase in ordeal.happened)
        replies = phases.pop("lost", 0)
        cells = (provider, phases.total(), replies, ordeal.batches, ordeal.billed, ordeal.lost)
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
        for claim in ordeal.broken:
            broken += 1
            print(f"BROKEN: {provider}: {claim}")
    print(f"{time.perf_counter() - begun:.0f} s")
    return 1 if broken else 0
