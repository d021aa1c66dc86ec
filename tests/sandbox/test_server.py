"""The sandbox as a server: its own pages, its environment, its memory, its neighbours and its end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from dotenv import dotenv_values

from layton_batch.sandbox import Sandbox, SandboxConfig
from tests.support.cli_harness import call
from tests.support.paths import ROOT
from tests.support.sandbox_clients import PROVIDERS, Echo, bench, client, row


def test_its_own_pages_and_an_environment_with_an_address_and_a_key_for_every_provider(tmp_path: Path) -> None:
    with bench() as b, client("groq", b, tmp_path) as sent:
        sent.submit([row("groq", "a")])
        assert b.sandbox.request_counts()["groq"]["create"] == 1
        (batch,) = b.page("batches")
        assert (batch["provider"], batch["phase"]) == ("groq", "validating")
        variables = b.sandbox.environment()
    assert {f"{provider.upper()}_API_KEY" for provider in PROVIDERS} <= set(variables)
    assert variables["OPENAI_API_KEY"] == "sandbox-key-openai"
    assert len(variables) == 18
    assert all(value.startswith("http://127.0.0.1:") for name, value in variables.items() if name.endswith("URL"))


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

FOREIGN = "OPENAI_API_KEY=a-real-one\n"


def serving(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "layton_batch", "sandbox", "--port", "0", "--env-file", "env"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


KINDS = (
    *("a link", "a dangling link", "link to an earlier one", "a file with real keys"),
    *("a hard link", "a folder", "a pipe"),
)


def planted(folder: Path, kind: str) -> Path:
    target, env = folder / "target", folder / "env"
    target.write_text(FOREIGN if kind != "link to an earlier one" else "OPENAI_API_KEY=sandbox-key-openai\n")
    if kind == "a file with real keys":
        env.write_text(FOREIGN)
    elif kind == "a hard link":
        env.hardlink_to(target)
    elif kind == "a folder":
        env.mkdir()
    elif kind == "a pipe":
        os.mkfifo(env)
    else:
        env.symlink_to(folder / "nowhere" if kind == "a dangling link" else target)
    return target


@pytest.mark.parametrize("kind", KINDS)
def test_an_environment_file_goes_through_no_link_and_over_nothing_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    target = planted(tmp_path, kind)
    before, names = target.read_bytes(), sorted(one.name for one in tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    ended = call("sandbox", "--port", "0", "--env-file", "env")
    assert (ended.code, "--env-file env" in ended.err) == (2, True)
    assert target.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == names


def test_serving_writes_its_addresses_over_an_earlier_file_and_ends_at_a_signal(tmp_path: Path) -> None:
    env, target = tmp_path / "env", tmp_path / "target"
    target.write_text(FOREIGN)
    (tmp_path / "env.partial").symlink_to(target)  # a link at the old name of the file while it is written
    addresses = set()
    for _ in range(2):
        before = env.stat().st_ino if env.exists() else None
        process = serving(tmp_path)
        try:
            until = time.monotonic() + 60
            while not env.exists() or env.stat().st_ino == before:
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
        addresses.add(url)
    assert len(addresses) == 2
    assert env.stat().st_mode & 0o777 == 0o600
    assert target.read_text() == FOREIGN
    assert sorted(one.name for one in tmp_path.iterdir()) == ["env", "env.partial", "target"]
