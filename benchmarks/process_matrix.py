"""Kind of call × fate × provider, a fresh ``python`` for every life: ``scripts/bench faults --processes``."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.processes.killings import Ordeal, every_phase
from tests.simulation.world import SEVEN
from tests.support.commands import Bench, Sandbox


def main(workers: int) -> int:
    """All of a provider's cells in one run, ``workers`` providers at a time; 1 where a claim did not hold."""
    begun, broken, cells, lives = time.perf_counter(), 0, 0, 0
    print("| provider | kills | replies lost | batches created | rows billed | rows lost |")
    print("|---|---|---|---|---|---|")
    with multiprocessing.get_context("spawn").Pool(max(1, min(workers, len(SEVEN)))) as pool:
        for ordeal in pool.imap(_ordeal, SEVEN, chunksize=1):
            fates = Counter(fate for _, fate in ordeal.happened)
            replies = fates.pop("lost", 0)
            row = (ordeal.provider, fates.total(), replies, ordeal.batches, ordeal.billed, ordeal.lost)
            print(f"| {' | '.join(map(str, row))} |", flush=True)
            cells, lives = cells + len(ordeal.happened), lives + ordeal.lives
            for claim in ordeal.broken:
                broken += 1
                print(f"BROKEN: {ordeal.provider}: {claim}")
    print(f"{cells} cells, {lives} processes, {broken} claims broken, {time.perf_counter() - begun:.0f} s")
    return 1 if broken else 0


def _ordeal(provider: str) -> Ordeal:
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder, Sandbox(preload=False) as sandbox:
        return every_phase(Bench(Path(folder), sandbox), provider)
