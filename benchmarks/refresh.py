"""What a night's refresh takes: 1 model is added to 20 on bundled riddles, a jury of three; requests and CPU time.

Both are held against those of the 20 models' run. One process does both, with the SDKs loaded before; the sandbox is in
another, so that its work does not count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from dotenv import dotenv_values

from benchmarks.measure import ROOT, told
from layton_batch.loop import drive
from layton_batch.manifest.checks import load_manifest
from layton_batch.runs.open import open_run
from layton_batch.settings import Settings

MODELS, SHARE = 20, 15
PROVIDERS = ("openai", "anthropic", "mistral", "together", "groq")
REFEREES = (("tern-3-referee", "gemini"), ("kite-1-referee", "gemini"), ("snipe-2-referee", "gemini"))
PATIENCE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Night:
    """What one `run` took: CPU seconds, and requests that were sent in all by its end."""

    cpu: float
    sent: int


def main() -> None:
    whole, added = measure()
    told("refresh with 1 model more, requests", added.sent / whole.sent, "of all", 1 / SHARE)
    told("refresh with 1 model more, CPU", added.cpu / whole.cpu, "of all", 1 / SHARE)
    print(f"  {MODELS} models: {whole.sent} requests, {whole.cpu:.2f} s; 1 more: {added.sent}, {added.cpu:.2f} s")


def measure(models: int = MODELS) -> tuple[Night, Night]:
    """The run of so many models, and then the one that adds another."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server, env = _sandbox(folder)
        try:
            settings = Settings.from_environment(env, folder)
            _night(folder, settings, "warm", len(PROVIDERS), limit=1)
            whole = _night(folder, settings, "board", models)
            grown = _night(folder, settings, "board", models + 1)
        finally:
            server.terminate()
            server.wait()
    return whole, Night(grown.cpu, grown.sent - whole.sent)


def _sandbox(folder: Path) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
    """Start a sandbox in a process of its own; return the process and the environment that points to the sandbox."""
    ready = folder / "ready"
    server = subprocess.Popen(
        [sys.executable, "-m", "layton_batch", "sandbox", "--port", "0", "--env-file", str(ready)],
        cwd=ROOT,
        env={**os.environ, "LAYTON_BATCH_PACING": "0.2"},
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not ready.exists():
        if server.poll() is not None:
            raise SystemExit("the sandbox did not start")
        time.sleep(0.05)
    return server, {key: str(value) for key, value in dotenv_values(ready).items()}


def _night(folder: Path, settings: Settings, name: str, models: int, limit: int = 1000) -> Night:
    path = folder / "manifest.toml"
    path.write_text(_manifest(name, models, limit), encoding="utf-8")
    begun = time.process_time()
    with open_run(load_manifest(path), folder / "runs", settings, poll_seconds=0.2) as run:
        status = drive(run, once=False, stop_at=time.time() + PATIENCE_SECONDS)
    cpu = time.process_time() - begun
    if status.unanswered or any(batch.state != "collected" for batch in status.batches):
        sys.exit(f"the run {name} is {status.state}")
    return Night(cpu, sum(batch.requests for batch in status.batches))


def _manifest(name: str, models: int, limit: int) -> str:
    told = f'name = "{name}"\ntask = "layton"\n[items]\nsource = "bundled"\nsplit = "llm"\nlimit = {limit}\n'
    for number in range(models):
        provider = PROVIDERS[number % len(PROVIDERS)]
        told += f'[[models]]\nname = "{name}-{number}"\nprovider = "{provider}"\nmodel = "{name}-{number}"\n'
        told += "max_output_tokens = 4000\n"
    told += "[jury]\nseats = 3\n"
    for referee, provider in REFEREES:
        told += f'[[jury.judges]]\nname = "{referee}"\nprovider = "{provider}"\nmodel = "{referee}"\n'
        told += "max_output_tokens = 2000\n"
    return told
