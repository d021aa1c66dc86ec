"""The published table from the published predictions, as one process; the reference needs about 190 s for it."""

from __future__ import annotations

from tests.bench.measure import DATA, best, told


def main() -> None:
    source = DATA / "ppi_llm.jsonl"
    if not source.exists():
        print(f"paper: skipped, {source} is not there")
        return
    measured = best(["leaderboard", str(source), "--method", "paper"])
    told("paper table from ppi file, CPU", measured.cpu, "s", 1.5)
    told("paper table from ppi file, peak memory", measured.peak_mib, "MiB", 300)
