"""The sandbox as a server: its bill, its own pages, its environment, its memory and its end."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tracemalloc
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import IO

import pytest
from dotenv import dotenv_values

from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.sandbox.engine.ledger import SandboxPrices
from layton_batch.sandbox.engine.store import SandboxUsage
from layton_batch.sandbox.wire.anthropic_api import BadDocument, elements
from tests.support.paths import ROOT
from tests.support.sandbox_clients import MODELS, PROVIDERS, Echo, bench, driver, row
from tests.support.tiers import tiered

MILLION = SandboxUsage(1_000_000, 0, 1_000_000, 0)


def get(url: str):
    with urllib.request.urlopen(url, timeout=10) as reply:
        return json.loads(reply.read())


@pytest.mark.parametrize(
    ("provider", "model", "batch", "standard"),
    [
        ("openai", "gpt-5.1-2025-11-13", "5.625", "11.25"),
        ("openai", "gpt-5.2", "7.875", "15.75"),
        ("anthropic", "claude-opus-4-5-20251101", "15", "30"),
        ("gemini", "gemini-3-pro-preview", "7", "14"),
        ("gemini", "gemini-3-flash-preview", "1.75", "3.5"),
        ("mistral", "mistral-large-2512", "1", "2"),
        ("together", "moonshotai/Kimi-K2-Thinking", "5.2", "5.2"),
        ("together", "moonshotai/Kimi-K2.5", "3.3", "3.3"),
        ("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "0.88", "1.76"),
        ("groq", "openai/gpt-oss-120b", "0.375", "0.75"),
    ],
)
def test_a_million_tokens_in_and_out_cost_the_published_prices(provider, model, batch, standard):
    assert SandboxPrices.bundled().charge(provider, model, MILLION) == (Decimal(batch), Decimal(standard))


def test_cached_tokens_cost_the_cached_rate_and_otherwise_the_input_rate():
    cached = SandboxUsage(1_000_000, 400_000, 0, 0)
    book = SandboxPrices.bundled()
    assert book.charge("openai", "gpt-5.1", cached) == (Decimal("0.4"), Decimal("0.8"))
    assert book.charge("together", "moonshotai/Kimi-K2.5", cached) == (Decimal("0.5"), Decimal("0.5"))


@pytest.mark.parametrize("model", ["gpt-5.1-mini", "gpt-5.1-2025-11-13-high", "gpt-5.10", "claude-opus-4-5"])
def test_a_name_that_only_starts_alike_has_no_price(model):
    assert SandboxPrices.bundled().charge("openai", model, MILLION) is None


def test_the_ledger_is_exact_and_counts_what_it_cannot_price(tmp_path):
    with bench() as b:
        for provider in ("openai", "anthropic"):
            with driver(provider, b.sandbox, tmp_path) as sdk:
                batch = sdk.submit([row(provider, "a"), row(provider, "b")])
                b.end()
                sdk.status(batch)
        with driver("openai", b.sandbox, tmp_path) as sdk:
            again = sdk.submit([row("openai", "a"), row("openai", "c")])
            unknown = sdk.submit([row("openai", "z", model="acme-1")])
            b.end()
            sdk.status(again)
            sdk.status(unknown)
        page = get(f"{b.sandbox.url}/sandbox/ledger?rows=1")
        brief = get(f"{b.sandbox.url}/sandbox/ledger")
    ledger = b.sandbox.ledger()
    openai = Decimal(4) * (80 * Decimal("0.625") + 20 * Decimal("0.0625") + 50 * 5) / 10**6
    anthropic = Decimal(2) * (80 * Decimal("2.5") + 20 * Decimal("0.25") + 50 * Decimal("12.5")) / 10**6
    assert ledger.total_usd == openai + anthropic
    assert Decimal(page["total_usd"]) == ledger.total_usd
    assert (page["rows_billed"], page["unpriced_rows"]) == (7, 1)
    assert "rows" not in brief
    times = {(r["model"], r["custom_id"]): r["times_billed"] for r in page["rows"] if r["provider"] == "openai"}
    assert times[MODELS["openai"], "a"] == 2
    assert times[MODELS["openai"], "c"] == 1
    acme = next(line for line in page["by_model"] if line["model"] == "acme-1")
    assert (acme["usd"], acme["rows"], acme["output_tokens"]) == (None, 1, 50)


def test_the_sandboxs_own_pages(tmp_path):
    with bench() as b, driver("groq", b.sandbox, tmp_path) as sdk:
        sdk.submit([row("groq", "a")])
        assert get(f"{b.sandbox.url}/sandbox/health")["status"] == "ok"
        assert get(f"{b.sandbox.url}/sandbox/requests") == {"groq": {"create": 1, "upload": 1}}
        (batch,) = get(f"{b.sandbox.url}/sandbox/batches")
        assert (batch["provider"], batch["phase"]) == ("groq", "validating")


def test_the_environment_has_an_address_and_a_key_for_all_eight():
    with bench() as b:
        env = b.sandbox.environment()
    assert {f"{provider.upper()}_API_KEY" for provider in PROVIDERS} <= set(env)
    assert env["OPENAI_API_KEY"] == "sandbox-key-openai"
    assert env["OPENAI_BASE_URL"].endswith("/openai/v1")
    assert env["GOOGLE_GEMINI_BASE_URL"].endswith("/gemini")
    assert env["TOGETHER_BASE_URL"].endswith("/together")
    assert len(env) == 16
    assert all(value.startswith("http://127.0.0.1:") for name, value in env.items() if name.endswith("URL"))


def test_a_sandbox_can_be_stopped_twice_and_a_taken_port_is_an_error(tmp_path):
    sandbox = Sandbox(SandboxConfig(answerer=Echo()))
    port = int(sandbox.url.rsplit(":", 1)[1])
    with pytest.raises(OSError, match="in use"):
        Sandbox(SandboxConfig(answerer=Echo(), port=port))
    sandbox.stop()
    sandbox.stop()
    assert sandbox.ledger().rows_billed == 0


def test_large_rows_are_not_held_in_memory(tmp_path):
    """40 rows of 1 MB each: neither taking an inline batch apart nor answering it comes near their 40 MB."""
    image = "/9j/" + "A" * 1_000_000
    source = {"type": "base64", "media_type": "image/jpeg", "data": image}
    messages = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    body = {"requests": [row("anthropic", f"k{n}", messages=messages) for n in range(40)]}
    path = tmp_path / "body.json"
    path.write_text(json.dumps(body))
    del body

    class Blind:
        def answer(self, question):
            assert len(question.images[0]) > 700_000
            return Echo().answer(question)

    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    sized = {**headers, "Content-Length": str(path.stat().st_size)}
    with bench(answerer=Blind()) as b:
        url = f"{b.sandbox.url}/anthropic/v1/messages/batches"
        tracemalloc.start()
        try:
            with path.open("rb") as handle:
                request = urllib.request.Request(url, data=handle, headers=sized, method="POST")
                with urllib.request.urlopen(request, timeout=60) as reply:
                    batch = json.loads(reply.read())["id"]
            b.end()
            with urllib.request.urlopen(urllib.request.Request(f"{url}/{batch}", headers=headers), timeout=60) as reply:
                assert json.loads(reply.read())["request_counts"]["succeeded"] == 40
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 25_000_000


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"requests": []}', []),
        (
            '{"a": {"requests": [9]}, "requests": [1, {"x": "],[\\"}"}, "y" ], "b": [2]}',
            ["1", '{"x": "],[\\"}"}', '"y"'],
        ),
        ('{"requests":[{"a":[1,2]},[3,[4]]]}', ['{"a":[1,2]}', "[3,[4]]"]),
        ('{"requests":[1,]}', ["1", ""]),
    ],
)
def test_an_array_is_split_without_reading_its_document(text, found):
    with spooled(text) as body:
        assert [element.decode() for element in elements(body, "requests")] == found


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"requests": 1}', '{"requests": [1', '{"requests": [1]} x', "nonsense"]
)
def test_a_document_without_the_array_is_refused(text):
    with spooled(text) as body, pytest.raises(BadDocument):
        list(elements(body, "requests"))


@contextmanager
def spooled(text: str) -> Iterator[IO[bytes]]:
    with tempfile.SpooledTemporaryFile() as file:
        file.write(text.encode())
        yield file


SERVE = """
import sys
from pathlib import Path
from layton_batch.sandbox import ModelReply, SandboxConfig, serve_forever

class Fixed:
    def answer(self, question):
        return ModelReply("yes", "stop", 10, 0, 1, 0)

serve_forever(SandboxConfig(answerer=Fixed(), state_dir=Path(sys.argv[1])), Path(sys.argv[2]))
"""


@pytest.mark.parametrize("number", tiered((signal.SIGTERM, signal.SIGINT), ci=(signal.SIGTERM,)))
def test_serving_for_ever_says_where_and_ends_at_a_signal(number, tmp_path):
    ready = tmp_path / "ready"
    root = str(ROOT)
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(tmp_path / "state"), str(ready)],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        wait_for(ready)
        url = dotenv_values(ready)["OPENAI_BASE_URL"].removesuffix("/openai/v1")
        assert url in line
        assert "export OPENAI_API_KEY=sandbox-key-openai" in line
        assert get(f"{url}/sandbox/health")["status"] == "ok"
        process.send_signal(number)
        _, rest = process.communicate(timeout=20)
        assert (process.returncode, rest) == (0, b"")
    finally:
        process.kill()
        process.communicate()


def wait_for(path: Path) -> None:
    for _ in range(2000):
        if path.exists():
            return
        time.sleep(0.005)
    raise AssertionError(f"{path} did not appear")


def test_bytes_on_the_wire_need_no_sdk(tmp_path):
    with bench() as b, driver("openai", b.sandbox, tmp_path) as sdk:
        file = sdk.client.files.create(file=("a.jsonl", io.BytesIO(b"{}\n")), purpose="batch")
        assert sdk.content(file.id) == b"{}\n"
        assert sdk.client.files.delete(file.id).deleted
        assert list(sdk.client.files.list()) == []


OWN_PAGES = ("/sandbox/health", "/sandbox/ledger", "/sandbox/batches", "/sandbox/requests")
FOREIGN_HOSTS = ("evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "x@127.0.0.2x", "")


def test_a_page_whose_name_was_made_to_resolve_to_this_machine_is_not_answered():
    with Sandbox(SandboxConfig(answerer=Echo())) as there:
        port = there.url.rpartition(":")[2]
        statuses = {host.format(port=port): 421 for host in FOREIGN_HOSTS} | {
            f"localhost:{port}": 200,
            "127.0.0.1:1": 200,
        }
        for host, status in statuses.items():
            for path in (*OWN_PAGES, "/openai/v1/batches"):
                connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
                connection.request("GET", path, headers={"Host": host, "Authorization": "Bearer x"})
                assert connection.getresponse().status == status, (path, host)
                connection.close()


def serving(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "layton_batch", "sandbox", "--port", "0", "--env-file", *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


FOREIGN = "OPENAI_API_KEY=a-real-one\n"


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


@pytest.mark.parametrize(
    "kind",
    tiered(
        (
            *("a link", "a dangling link", "link to an earlier one", "a file with real keys"),
            *("a hard link", "a folder", "a pipe"),
        ),
        ci=("a link", "a file with real keys"),
    ),
)
def test_an_environment_file_goes_through_no_link_and_over_nothing_foreign(tmp_path, kind):
    target = planted(tmp_path, kind)
    before, names = target.read_bytes(), sorted(one.name for one in tmp_path.iterdir())
    process = serving(tmp_path, "env")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"--env-file env: there is something else" in said
    assert b"Traceback" not in said
    assert target.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == names


def test_an_earlier_environment_file_is_replaced_and_a_link_at_its_old_side_name_is_left_alone(tmp_path):
    target = tmp_path / "target"
    target.write_text(FOREIGN)
    (tmp_path / "env.partial").symlink_to(target)
    addresses = []
    for _ in range(2):
        before = (tmp_path / "env").stat().st_ino if addresses else None
        process = serving(tmp_path, "env")
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "env").exists() or (tmp_path / "env").stat().st_ino == before:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)
            addresses.append(dotenv_values(tmp_path / "env")["OPENAI_BASE_URL"])
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert len(set(addresses)) == 2
    assert (tmp_path / "env").stat().st_mode & 0o777 == 0o600
    assert target.read_text() == FOREIGN
    assert sorted(one.name for one in tmp_path.iterdir()) == ["env", "env.partial", "target"]
