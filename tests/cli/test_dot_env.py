"""A ``.env`` in the working folder is a file of whoever made the folder: it gives keys, and says nothing else."""

from __future__ import annotations

import io
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.testing.providers import Answer, Loopback
from tests.support.cli_harness import call, write
from tests.support.lab import manifest_text

KEY = "sk-of-the-environment"
ONLY_HERE = """
[jury]
seats = 1
[[jury.judges]]
name = "referee"
family = "another"
provider = "openai"
model = "referee"
"""


@pytest.fixture
def stranger(offline: Path) -> Iterator[Loopback]:
    """An address that whoever wrote the ``.env`` listens at."""
    with Loopback(lambda _call: Answer(404, b"{}")) as server:
        yield server


@pytest.fixture
def manifest(offline: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manifest of OpenAI alone, whose key the environment sets and whose address it does not."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL")
    # the usual address answers nobody here, and quickly
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    return write(offline, manifest_text(("openai",), limit=1, jury=ONLY_HERE))


@pytest.mark.parametrize("command", ["plan", "check", "run"])
def test_an_address_in_dot_env_gets_no_key_of_the_environment(
    offline: Path, manifest: Path, stranger: Loopback, command: str
) -> None:
    write(offline, f"OPENAI_BASE_URL={stranger.url}/v1\n", ".env")
    end = call(command, manifest, *(["--once", "--yes"] if command == "run" else []))
    assert stranger.calls == []
    assert ".env: OPENAI_BASE_URL is not read from it" in end.err


def test_a_key_beside_the_address_does_not_open_it_for_the_key_of_the_environment(
    offline: Path, manifest: Path, stranger: Loopback
) -> None:
    write(offline, f"OPENAI_API_KEY=theirs\nOPENAI_BASE_URL={stranger.url}/v1\n", ".env")
    assert call("plan", manifest).code == 0
    assert stranger.calls == []


def test_an_address_beside_its_key_is_used_and_said_before_the_first_call(
    offline: Path, manifest: Path, stranger: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    write(offline, f"OPENAI_API_KEY=of-the-file\nOPENAI_BASE_URL={stranger.url}/v1\n", ".env")
    end = call("plan", manifest)
    assert [one.headers["authorization"] for one in stranger.calls]
    assert {one.headers["authorization"] for one in stranger.calls} == {"Bearer of-the-file"}
    assert f"openai is called at {stranger.url} (OPENAI_BASE_URL in {offline / '.env'})" in end.err


@pytest.mark.parametrize("command", ["plan", "check", "run"])
def test_an_address_of_the_environment_is_said_before_a_key_goes_there(
    manifest: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    said: list[str] = []

    def answer(_call: object) -> Answer:
        assert isinstance(sys.stderr, io.StringIO)  # of the command that is running
        said.append(sys.stderr.getvalue())
        return Answer(404, b"{}")

    with Loopback(answer) as gateway:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{gateway.url}/v1")
        call(command, manifest, *(["--once", "--yes"] if command == "run" else []))
        line = f"openai is called at {gateway.url} (OPENAI_BASE_URL in the environment)"
    assert said
    assert all(line in one for one in said)


def test_the_hub_and_its_token_are_of_the_environment_only(
    offline: Path, manifest: Path, stranger: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf-of-the-environment")
    source = "hf://datasets/rvienne/layton-eval/items.jsonl"
    write(offline, manifest_text(("openai",), limit=1, jury=ONLY_HERE, items=source))
    write(offline, f"HF_ENDPOINT={stranger.url}\n", ".env")
    call("plan", manifest)
    assert stranger.calls == []


def test_an_engine_in_dot_env_is_not_connected_to(offline: Path, manifest: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as scheduler:
        scheduler.settimeout(0.05)
        write(offline, f"LAYTON_BATCH_ENGINE=dask://127.0.0.1:{scheduler.getsockname()[1]}\n", ".env")
        end = call("run", manifest, "--once", "--yes")
        assert "LAYTON_BATCH_ENGINE is not read from it" in end.err
        with pytest.raises(TimeoutError):
            scheduler.accept()


@pytest.mark.parametrize("name", ["LAYTON_BATCH_STATE", "LAYTON_BATCH_RUNS"])
def test_a_place_of_runs_in_dot_env_is_refused_before_anything_is_bought_a_second_time(
    offline: Path, manifest: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(offline, f"{name}=postgresql://u:secret@127.0.0.1/x\n", ".env")
    end = call("plan", manifest)
    assert end.code == 2
    assert f"{name} is not read from {offline / '.env'}" in end.err
    assert "secret" not in end.err
    monkeypatch.setenv("LAYTON_BATCH_RUNS", str(offline / "elsewhere"))
    assert call("plan", manifest).code == (0 if name == "LAYTON_BATCH_RUNS" else 2)


def test_doctor_says_what_was_read_from_where(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GROQ_API_KEY", "GROQ_BASE_URL", "MISTRAL_API_KEY"):
        monkeypatch.delenv(name)
    write(offline, "GROQ_API_KEY=file\nGROQ_BASE_URL=http://127.0.0.1:9\nHF_ENDPOINT=http://127.0.0.1:9\n", ".env")
    found = {one["check"]: one["detail"] for one in json.loads(call("check", "--offline", "--json").out)}
    assert found["key openai"] == "set (OPENAI_API_KEY in the environment)"
    assert found["key groq"] == f"set (GROQ_API_KEY in {offline / '.env'})"
    assert found["address groq"] == f"http://127.0.0.1:9 (GROQ_BASE_URL in {offline / '.env'})"
    assert found["address openai"] == "http://127.0.0.1:9/v1 (OPENAI_BASE_URL in the environment)"
    assert found[".env"] == (
        f"{offline / '.env'}: GROQ_API_KEY, GROQ_BASE_URL are read from it; HF_ENDPOINT is not read from it: set it in "
        "the environment if you mean it"
    )
