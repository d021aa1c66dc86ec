"""The paper's run end to end: 9 models, 186 riddles, 5 providers' batch APIs on loopback, batches of one second."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from dotenv import dotenv_values

from benchmarks.measure import DATA, ROOT, run, told
from tests.support.replay_manifest import replay_manifest

PUBLISHED = {"gemini-3-flash-high": (85.2, 1.4), "mistral-large-2512": (48.7, 1.4)}


def main() -> None:
    if not (DATA / "ppi_llm.jsonl").exists():
        print(f"replay: skipped, {DATA} is not there")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server, env = sandbox(folder, (DATA / "ppi_llm.jsonl", DATA / "riddles_llm.jsonl"))
        try:
            _measure(folder, env)
        finally:
            server.terminate()
            server.wait()


def _measure(folder: Path, env: dict[str, str]) -> None:
    manifest = folder / "replay.toml"
    manifest.write_text(replay_manifest(DATA), encoding="utf-8")
    measured = run(["run", str(manifest), "--runs", str(folder / "runs"), "--poll-seconds", "0.25", "--json"], env)
    status = json.loads(measured.output)
    told("paper replay end to end, wall", measured.wall, "s", 120)
    told("paper replay end to end, CPU", measured.cpu, "s", 120)
    told("paper replay end to end, peak memory", measured.peak_mib, "MiB", 500)
    requests = sum(job["requests"] for job in status["jobs"])
    print(f"  {requests} requests, state {status['state']}, spent ${status['spent_usd']}")
    board = run(["leaderboard", status["run"], "--runs", str(folder / "runs"), "--method", "paper", "--format", "json"])
    rows = {row["model"]: (row["score"], row["half_width"]) for row in json.loads(board.output)}
    print(f"  table as published: {all(rows[model] == score for model, score in PUBLISHED.items())}")


def sandbox(
    folder: Path, replay: Sequence[Path] = (), batch_seconds: float = 1
) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
    """The sandbox in a process of its own, and the environment that points at it."""
    ready = folder / "ready"
    files = [argument for path in replay for argument in ("--replay", str(path))]
    server = subprocess.Popen(
        [sys.executable, "-m", "layton_batch", "sandbox", "--port", "0", *files, "--batch-seconds", str(batch_seconds),
         "--env-file", str(ready)],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not ready.exists():
        if server.poll() is not None:
            raise SystemExit("the sandbox did not start")
        time.sleep(0.05)
    return server, {key: str(value) for key, value in dotenv_values(ready).items()}
