"""What only shows in a process of its own: streams, signals, colours, a real sandbox, a closed pipe."""

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
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.cli.app import GROUPS
from layton_batch.sandbox import Sandbox, SandboxConfig
from tests.support.cli_harness import PROGRAM, ROOT, Ending, call, called_at, finish, start, write
from tests.support.lab import BUNDLED, manifest_text, quiz_text

GOLD = BUNDLED / "gold_llm.jsonl"
PATIENCE = 60.0


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


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """A sandbox process whose batches never end on their own; the environment that points there."""
    folder = tmp_path_factory.mktemp("sandbox")
    process = subprocess.Popen([sys.executable, "-c", ENDLESS], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        yield read_env(folder / "env")
    finally:
        process.kill()
        process.wait()


# ---- starting ------------------------------------------------------------------------------------------------------


def test_every_command_is_listed_with_a_text_that_is_not_cut() -> None:
    end = call("--help")
    assert end.code == 0
    names = [name for names in GROUPS.values() for name in names]
    assert re.findall(r"^  ([a-z]+) ", end.out.partition("Start:")[2], re.MULTILINE) == names
    assert "..." not in end.out.partition("Start:")[2]
    for name in names:
        assert call(name, "--help").code == 0


@pytest.mark.parametrize(
    "arguments", [("rnu",), ("run",), ("status", "--jsn"), ("run", "m.toml", "--poll-seconds", "x")]
)
def test_bad_usage_ends_with_2_and_a_sentence(offline: Path, arguments: tuple[str, ...]) -> None:
    end = call(*arguments)
    assert (end.code, end.out) == (2, "")
    assert end.err


def test_the_version_is_the_packages() -> None:
    from layton_batch import __version__

    assert call("--version").out.split() == ["layton-batch", __version__]


# ---- stopping ------------------------------------------------------------------------------------------------------


def test_ctrl_c_and_sigterm_leave_batches_running_and_say_so(tmp_path: Path, sandbox: Mapping[str, str]) -> None:
    begun = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        folder = tmp_path / number.name  # a workspace of its own: in one, the one would wait for the other's answers
        folder.mkdir()
        begun[number] = start("run", write(folder, quiz_text(), "manifest.toml"), cwd=folder, env=sandbox)
    for number, process in begun.items():
        assert process.stderr is not None
        assert " called at " in process.stderr.readline()
        assert " begins in " in process.stderr.readline()
        assert " to send: " in process.stderr.readline()
        assert any("at the provider" in line for line in process.stderr)  # told soon after something was submitted
        process.send_signal(number)
    for end in map(finish, begun.values()):
        assert end.code == 75
        assert "go on at the provider" in end.err
        assert "Traceback" not in end.err
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


# ---- streams -------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}], ids=["colour", "NO_COLOR"])
def test_a_terminal_gets_eighty_columns_and_colour_unless_told_otherwise(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    shown = on_a_terminal("leaderboard", GOLD, cwd=tmp_path, env=env)
    coloured = re.search(r"\x1b\[[0-9;]*3[0-7]m", shown) is not None
    assert not (env and coloured)
    bare = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", shown)
    assert max(len(line.rstrip("\r")) for line in bare.split("\n")) <= 80


def test_a_pipe_gets_no_escape_codes_and_an_encoding_without_the_characters_is_no_error(tmp_path: Path) -> None:
    end = finish(start("leaderboard", GOLD, cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"}))
    assert end.code == 0, end.err
    assert "Leaderboard" in end.out
    assert "\x1b" not in end.out + end.err


# ---- a real sandbox ------------------------------------------------------------------------------------------------


def test_a_sandbox_with_faults_and_a_state_folder_serves_a_run_and_remembers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, '[[faults]]\non = "row"\naction = "error"\nstatus = 500\ntimes = 1\n', "faults.toml")
    kept = ("sandbox", "--port", "0", "--state", "state", "--faults", "faults.toml")
    process = start(*kept, "--env-file", "env", cwd=tmp_path)
    try:
        env = {**read_env(tmp_path / "env"), "XDG_STATE_HOME": str(tmp_path / "user")}
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        run = call("run", write(tmp_path, manifest_text()), "--poll-seconds", "0.1", "--json")
    finally:
        process.terminate()
    served = finish(process)
    url = env["OPENAI_BASE_URL"].removesuffix("/openai/v1")
    assert (run.code, run.err) == (0, called_at(url, "openai", "gemini", "mistral"))
    assert [batch["attempt"] for batch in run.table()["batches"]] == [1, 2, 1]  # type: ignore[attr-defined]
    assert (served.code, served.out) == (0, "")
    assert served.err.startswith("sandbox at http://127.0.0.1:")
    with Sandbox(SandboxConfig(state_dir=tmp_path / "state")) as again:
        assert again.ledger().total_usd == Decimal(str(run.table()["spent_usd"]))


WRONG_SANDBOXES: Mapping[str, tuple[str, ...]] = {
    "a fault file that is not there": ("--faults", "none.toml"),
    "a fault file with an unknown key": ("--faults", "wrong.toml"),
    "a recording that is not there": ("--replay", "none.jsonl"),
    "a recording in no known form": ("--replay", "wrong.toml"),
    "a state folder that is a file": ("--state", "wrong.toml"),
    "an environment file in no folder": ("--env-file", "none/env"),
    "a port that is no port": ("--port", "70000"),
    "a port that is taken": ("--port", "{taken}"),
}


@pytest.mark.parametrize("wrong", WRONG_SANDBOXES)
def test_a_sandbox_that_cannot_be_set_up_says_why(offline: Path, sandbox: Mapping[str, str], wrong: str) -> None:
    write(offline, '[[faults]]\nonn = "row"\n', "wrong.toml")
    taken = sandbox["OPENAI_BASE_URL"].split(":")[2].partition("/")[0]
    options = [one.format(taken=taken) for one in WRONG_SANDBOXES[wrong]]
    port = () if "--port" in options else ("--port", "0")
    end: Ending = call("sandbox", *port, *options)
    assert (end.code, end.out) == (2, "")
    assert options[1] in end.err or options[0] in end.err or "in use" in end.err
