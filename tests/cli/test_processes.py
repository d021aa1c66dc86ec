"""What only shows in a process of its own: imports, streams, Ctrl-C, colours, a closed pipe."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from layton_batch.store.engine import sqlite_url
from tests.support.cli_harness import PROGRAM, ROOT, finish, start, write
from tests.support.lab import BUNDLED, quiz_text
from tests.support.store_rows import RUN, opened

GOLD = BUNDLED / "gold_llm.jsonl"
PATIENCE = 60.0


# ---- imports ---------------------------------------------------------------------------------------------------------

HEAVY = ("sqlalchemy", "pydantic", "polars", "numpy", "httpx", "jinja2", "genai_prices", "altair",
         "vl_convert", "rich", "starlette", "uvicorn", "batchling", "openai", "anthropic", "google", "mistralai",
         "together", "groq")  # fmt: skip
IMPORTS = """
import sys
from layton_batch.cli import main
try:
    main(sys.argv[2:])
except SystemExit as end:
    assert end.code == 0, end.code
print(*sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1].split())), file=sys.stderr)
"""
STORE = {"sqlalchemy", "pydantic"}
"""Typer reads options by pydantic."""
PLAN = f"plan --offline {ROOT / 'manifests' / 'layton-today.toml'} --runs ."


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("--help", set()),
        (f"status {RUN} --json --runs .", STORE),
        (f"status {RUN} --log --runs .", STORE),
        (PLAN, {*STORE, "polars", "jinja2", "genai_prices"}),
    ],
)
def test_a_command_imports_only_the_heavy_libraries_that_it_needs(
    tmp_path: Path, command: str, needed: set[str]
) -> None:
    (tmp_path / RUN).mkdir()
    write(tmp_path / RUN, f'{{"manifest": {{"name": "{RUN}"}}, "run_id": "{RUN}"}}', "run.json")
    with opened(sqlite_url(tmp_path / "state.sqlite3")):
        pass
    program = [sys.executable, "-c", IMPORTS, " ".join(HEAVY), *command.split()]
    ended = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout
    assert set(ended.stderr.splitlines()[-1].split()) - {"rich"} == needed


# ---- stopping --------------------------------------------------------------------------------------------------------


def read_env(path: Path) -> dict[str, str]:
    """A file of ``NAME=value`` lines, waited for."""
    until = time.monotonic() + PATIENCE
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)
    return dict(line.split("=", 1) for line in path.read_text(encoding="utf-8").splitlines())


ENDLESS = """
from pathlib import Path
from layton_batch.sandbox import SandboxConfig, serve_forever
serve_forever(SandboxConfig(port=0, batch_seconds=1e6), Path("env"))
"""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """A sandbox process whose batches never end on their own; the environment that points there."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        yield read_env(tmp_path / "env")
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_leaves_batches_running_and_says_so(tmp_path: Path, sandbox: Mapping[str, str]) -> None:
    process = start("run", write(tmp_path, quiz_text(), "manifest.toml"), cwd=tmp_path, env=sandbox)
    assert process.stderr is not None
    assert any("at the provider" in line for line in process.stderr)  # told soon after something was submitted
    process.send_signal(signal.SIGINT)
    end = finish(process)
    assert (end.code, "go on at the provider" in end.err, "Traceback" in end.err) == (75, True, False)
    with urllib.request.urlopen(sandbox["OPENAI_BASE_URL"].replace("/openai/v1", "/sandbox/batches")) as reply:
        assert all(batch["cancel_asked"] is None for batch in json.load(reply))


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    with start("leaderboard", GOLD, "--format", "json", cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(PATIENCE) == 0
    assert errors == ""


# ---- streams ---------------------------------------------------------------------------------------------------------


def on_a_terminal(*arguments: str | Path, cwd: Path, env: Mapping[str, str]) -> str:
    """What a command shows on a terminal of 80 columns."""
    leader, follower = pty.openpty()
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "80"}
    process = subprocess.Popen(
        [*PROGRAM, *map(str, arguments)], cwd=cwd, env={**kept, **env}, stdout=follower, stderr=follower
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert process.wait(PATIENCE) == 0
    return shown.decode()


def test_a_terminal_gets_eighty_columns_and_colour_unless_told_otherwise(tmp_path: Path) -> None:
    write(tmp_path, "model,item_id,score\n" + "".join(f"{m},{i},{i % 2}\n" for m in "ab" for i in range(9)), "s.csv")
    shown = on_a_terminal("leaderboard", "s.csv", cwd=tmp_path, env={"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", shown)
    bare = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", shown)
    assert max(len(line.rstrip("\r")) for line in bare.split("\n")) <= 80
    # a pipe gets none, and an encoding without the characters is no error
    end = finish(start("leaderboard", "s.csv", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"}))
    assert (end.code, "Leaderboard" in end.out, "\x1b" in end.out + end.err) == (0, True, False), end.err
