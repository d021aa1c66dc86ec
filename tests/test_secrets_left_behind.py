"""Everything a run leaves behind that fails everywhere and is then killed, searched for the keys of all providers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from layton_batch.redaction import HIDDEN
from layton_batch.testing.providers import Answer, HandlerCall, Loopback
from tests.support.cli_harness import PROGRAM
from tests.support.lab import MODELS, ROOT, quiz_text

KEYS = {name: f"sk-test-{name}-0123456789abcdefSECRET" for name in MODELS}
LOUD = {"OPENAI_LOG": "debug", "ANTHROPIC_LOG": "debug", "TOGETHER_LOG": "debug", "GROQ_LOG": "debug",
        "MISTRAL_DEBUG": "1"}  # fmt: skip
MAIN = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
from layton_batch.cli import main
main()
"""


def telltale(call: HandlerCall) -> Answer:
    """Answer as a provider that repeats the key it was given in everything it says."""
    told = " ".join(f"{name}: {value}" for name, value in call.headers.items())
    error = {"message": f"Incorrect API key provided: {told}", "type": "invalid_request_error", "code": "bad_key"}
    status = (400, 401, 500)[len(call.path) % 3]
    return Answer(status, json.dumps({"error": error}).encode(), {"content-type": "application/json"})


def secrets_in(content: bytes) -> list[str]:
    return [key for key in KEYS.values() if key.encode() in content]


PATIENCE_SECONDS = 90.0
ASKED = ("status --log", "cancel --no-wait", "cost")
"""What a person looks at afterwards, or tries."""


def environment(url: str) -> dict[str, str]:
    paths = {name: "/v1" if name in ("openai", "doubleword") else "" for name in MODELS}
    prefixes = {name: "GOOGLE_GEMINI" if name == "gemini" else name.upper() for name in MODELS}
    addresses = {f"{prefixes[name]}_BASE_URL": url + path for name, path in paths.items()}
    return addresses | {f"{name.upper()}_API_KEY": key for name, key in KEYS.items()}


def test_a_killed_run_whose_keys_came_from_a_dot_env_leaves_none_behind(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.toml"
    manifest.write_text(quiz_text(tuple(MODELS), limit=1), encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    with Loopback(telltale) as server:
        variables = environment(server.url)
        lines = (f"{name}={value}\n" for name, value in variables.items())
        (work / ".env").write_text("".join(lines), encoding="utf-8")
        said, shown = loud_run(work, manifest, tmp_path / "runs")
        (work / ".env").unlink()
        assert b"DEBUG" in said  # the SDKs did talk
        assert files_with_keys(tmp_path, {"state.sqlite3-wal", "log.jsonl", "said"}) == []
        for asked in ASKED:
            said += answer(tmp_path, asked, variables)
    assert secrets_in(said) == []
    assert secrets_in(shown) == []
    assert files_with_keys(tmp_path, {"state.sqlite3"}) == []
    left = b"".join(path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file())
    assert HIDDEN.encode() in left  # they were told, and did not pass


def files_with_keys(folder: Path, expected: set[str]) -> list[Path]:
    """Those of all files below; ``expected`` ones must be among the files that were searched."""
    searched = [path for path in folder.rglob("*") if path.is_file()]
    assert expected <= {path.name for path in searched}
    return [path for path in searched if secrets_in(path.read_bytes())]


def loud_run(work: Path, manifest: Path, runs: Path) -> tuple[bytes, bytes]:
    """(what it said, its command line as everybody on the machine sees it); killed when each provider has failed it."""
    with (work / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "run", str(manifest), "--runs", str(runs)],
            cwd=work,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **LOUD},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    until, told, shown = time.monotonic() + PATIENCE_SECONDS, b"", b""
    try:
        while process.poll() is None and any(f"{name}:".encode() not in told for name in MODELS):
            assert time.monotonic() < until, told
            told = b"".join(path.read_bytes() for path in runs.glob("*/log.jsonl"))
            shown += Path(f"/proc/{process.pid}/cmdline").read_bytes()
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return (work / "said").read_bytes(), shown


def answer(folder: Path, asked: str, given: dict[str, str]) -> bytes:
    name, *options = asked.split()
    command = [*PROGRAM, name, "lab", "--runs", str(folder / "runs"), *options]
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LAYTON_BATCH_PACING": "0.001", **given}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert b"Traceback" not in done.stderr, (asked, done.stderr)
    return done.stdout + done.stderr
