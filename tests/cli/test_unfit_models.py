"""plan and run, where models are gone or take other settings: before anything is paid, and never after."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from layton_batch.clock import SystemClock
from layton_batch.errors import ManifestError
from layton_batch.manifest.checks import load_manifest
from layton_batch.runs.open import open_run
from layton_batch.sandbox import Sandbox
from layton_batch.settings import Settings
from tests.support.cli_harness import call, write
from tests.support.manual_clock import ManualClock
from tests.support.paths import ROOT, SHARED_DATA

DATA = SHARED_DATA / "layton"
TODAY = datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()
MEANWHILE = datetime(2026, 1, 15, 12, tzinfo=UTC).timestamp()
GONE = """
name = "old"
task = "mcq_idk"
[items]
source = "bundled"
split = "demo"
limit = 2
[[models]]
name = "m"
provider = "openai"
model = "gpt-4-turbo"
max_output_tokens = 100
"""


@pytest.fixture
def own_addresses(offline: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Providers at their own addresses, which nothing may call, on the day of the table."""

    def refuse(*_: object) -> None:
        raise AssertionError("a call to the network")

    for name in ("OPENAI", "ANTHROPIC", "GOOGLE_GEMINI", "MISTRAL", "TOGETHER", "GROQ", "DOUBLEWORD", "XAI"):
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    monkeypatch.setattr(SystemClock, "now", lambda _self: TODAY)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return offline


def test_plan_shows_the_plan_and_ends_with_what_run_refuses(own_addresses: Path) -> None:
    end = call("plan", write(own_addresses, GONE), "--json", "--offline")
    document = end.table()
    (refused,) = document["refused"]  # type: ignore[misc]  # a list of one
    assert (end.code, document["requests"]) == (2, 2)
    assert refused.startswith("model 'm' (openai): gpt-4-turbo was shut down on 2026-10-23: use gpt-5.6-sol")
    assert "`run` refuses to begin:" in end.err
    assert refused in end.err


def test_run_refuses_before_it_makes_anything(own_addresses: Path) -> None:
    end = call("run", write(own_addresses, GONE))
    assert end.code == 2
    assert "gpt-4-turbo was shut down on 2026-10-23" in end.err
    assert not (own_addresses / "runs").exists()


def test_a_run_whose_model_ends_meanwhile_goes_on(own_addresses: Path) -> None:
    manifest = load_manifest(write(own_addresses, GONE))
    settings = Settings.from_environment({"OPENAI_API_KEY": "no-key"}, own_addresses)
    for seconds in (MEANWHILE, TODAY):
        with open_run(manifest, own_addresses / "runs", settings, clock=ManualClock(seconds)) as run:
            assert run.store.row() is not None
    with (
        pytest.raises(ManifestError, match="gpt-4-turbo was shut down"),
        open_run(manifest, own_addresses / "other", settings, clock=ManualClock(TODAY)),
    ):
        pass


def test_the_manifest_of_todays_models_passes_every_check_without_a_network(own_addresses: Path) -> None:
    end = call("plan", ROOT / "manifests" / "layton-today.toml", "--json", "--offline")
    document = end.table()
    assert (end.code, end.err, document["refused"]) == (0, "", [])
    assert document["max_usd"] is not None  # every price is known
    providers = document["providers"]
    assert isinstance(providers, dict)
    assert set(providers) == {
        "openai", "anthropic", "gemini", "mistral", "together", "groq", "doubleword", "openrouter", "xai",
    }  # fmt: skip


# ---- what the providers say ----------------------------------------------------------------------------------------


@pytest.fixture
def own_sandbox(offline: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A sandbox whose addresses pass for the providers' own."""
    with Sandbox() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(Settings, "is_elsewhere", lambda _self, _provider: False)
        yield server


UNKNOWN = GONE.replace("gpt-4-turbo", "no-such-model")
NOT_KNOWN = "no-such-model is not known to openai, which was asked"


def test_run_refuses_a_model_that_its_provider_does_not_have_before_anything_is_made_or_paid(
    own_sandbox: Sandbox, offline: Path
) -> None:
    end = call("run", write(offline, UNKNOWN))
    assert end.code == 2
    assert NOT_KNOWN in end.err
    assert not (offline / "runs").exists()
    assert own_sandbox.request_counts() == {"openai": {"models": 1}}


def test_offline_begins_without_asking_and_a_run_that_goes_on_does_not_ask(own_sandbox: Sandbox, offline: Path) -> None:
    manifest = write(offline, UNKNOWN)
    assert call("run", manifest, "--once", "--offline").code == 75
    assert call("run", manifest, "--once").code in (0, 75)
    assert "models" not in own_sandbox.request_counts()["openai"]


@pytest.mark.parametrize("command", ["plan", "check"])
def test_plan_and_doctor_end_with_2_too_unless_they_are_not_to_ask(
    own_sandbox: Sandbox, offline: Path, command: str
) -> None:
    manifest = write(offline, UNKNOWN)
    end = call(command, manifest)
    assert end.code == 2
    assert NOT_KNOWN in " ".join((end.out + end.err).split())
    assert call(command, manifest, "--offline").code == 0
    assert own_sandbox.request_counts()["openai"]["models"] == 1
