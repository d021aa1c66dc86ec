"""The sandbox as a server: its own pages, its environment, its memory, its neighbours and its end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest
from dotenv import dotenv_values

from layton_batch.sandbox import Sandbox, SandboxConfig
from tests.support.cli_harness import call
from tests.support.paths import ROOT
from tests.support.sandbox_clients import Echo

FOREIGN_HOSTS = ("evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "x@127.0.0.2x", "")


def test_a_page_whose_name_was_made_to_resolve_to_this_machine_is_not_answered() -> None:
    with Sandbox(SandboxConfig(answerer=Echo())) as there:
        port = there.url.rpartition(":")[2]
        statuses = {host.format(port=port): 400 for host in FOREIGN_HOSTS}
        for host, status in {**statuses, f"localhost:{port}": 200, "127.0.0.1:1": 200}.items():
            for path in ("/sandbox/ledger", "/openai/v1/batches"):
                connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
                connection.request("GET", path, headers={"Host": host, "Authorization": "Bearer x"})
                assert connection.getresponse().status == status, (path, host)
                connection.close()


# ---- as a command ----------------------------------------------------------------------------------------------------

FOREIGN, EARLIER = "OPENAI_API_KEY=a-real-one\n", "OPENAI_API_KEY=sandbox-key-openai\n"


def linked_to_an_earlier_one(env: Path, target: Path) -> None:
    target.write_text(EARLIER)
    env.symlink_to(target)


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "a link": Path.symlink_to,
    "a dangling link": lambda env, target: env.symlink_to(target / "nowhere"),
    "a link to an earlier one": linked_to_an_earlier_one,
    "a hard link": Path.hardlink_to,
    "a file with real keys": lambda env, _: env.write_text(FOREIGN),
    "a folder": lambda env, _: env.mkdir(),
    "a pipe": lambda env, _: os.mkfifo(env),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_an_environment_file_goes_through_no_link_and_over_nothing_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    target = tmp_path / "target"
    target.write_text(FOREIGN)
    PLANTED[kind](tmp_path / "env", target)
    before, names = target.read_bytes(), sorted(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    ended = call("sandbox", "--port", "0", "--env-file", "env")
    assert (ended.code, "--env-file env" in ended.err) == (2, True)
    assert (target.read_bytes(), sorted(tmp_path.iterdir())) == (before, names)


def test_serving_writes_its_addresses_over_an_earlier_file_and_ends_at_a_signal(tmp_path: Path) -> None:
    env, target = tmp_path / "env", tmp_path / "target"
    target.write_text(FOREIGN)
    env.write_text(EARLIER)
    (tmp_path / "env.partial").symlink_to(target)  # a link at the old name of the file while it is written
    command = [sys.executable, "-m", "layton_batch", "sandbox", "--port", "0", "--env-file", "env"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 60
        while env.read_text() == EARLIER:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        url = str(dotenv_values(env)["OPENAI_BASE_URL"]).removesuffix("/openai/v1")
        with urlopen(f"{url}/sandbox/ledger", timeout=10) as reply:
            assert json.loads(reply.read())["rows_billed"] == 0
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=20)
        assert (process.returncode, b"Traceback" in said) == (0, False)
    finally:
        process.kill()
        process.communicate()
    assert env.stat().st_mode & 0o777 == 0o600
    assert target.read_text() == FOREIGN
    assert sorted(one.name for one in tmp_path.iterdir()) == ["env", "env.partial", "target"]
