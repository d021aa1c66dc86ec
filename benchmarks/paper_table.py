"""The published table from the published predictions, as one process; the reference needs about 190 s for it."""

from __future__ import annotations

from benchmarks.measure import DATA, ROOT, best, told
from benchmarks.stats import best as quickest
from layton_batch.scoring.gold_file import read_gold
from layton_batch.settings import Settings


def main() -> None:
    source = DATA / "ppi_llm.jsonl"
    if not source.exists():
        print(f"paper: skipped, {source} is not there")
        return
    measured = best(["leaderboard", str(source), "--method", "paper"])
    told("paper table from ppi file, CPU", measured.cpu, "s", 1.5)
    told("paper table from ppi file, peak memory", measured.peak_mib, "MiB", 300)
    told("published gold set read, CPU", quickest(lambda: read_gold(str(source), ROOT, Settings(ROOT)), 3), "s", 0.2)
