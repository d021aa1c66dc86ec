"""plan and run, where models are gone or take other settings: before anything is paid, and never after."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from layton_batch.clock import SystemClock
from layton_batch.errors import ManifestError
from layton_batch.manifest.checks import load_manifest
from layton_batch.run.open import open_run
from layton_batch.settings import Settings
from tests.cli.cli_harness import call, write
from tests.manual_clock import ManualClock
from tests.pipeline.replay_manifest import ROOT, replay_manifest

DATA = ROOT.parent / "shared" / "data" / "layton"
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
    end = call("plan", write(own_addresses, GONE), "--json")
    document = end.table()
    (refused,) = document["refused"]  # type: ignore[misc]  # a list of one
    assert (end.code, document["requests"]) == (2, 2)
    assert refused.startswith("model 'm' (openai): gpt-4-turbo was shut down on 2026-10-23: use gpt-5.6-sol")
    assert "`run` refuses this manifest:" in end.err
    assert refused in end.err


def test_run_refuses_before_it_makes_anything(own_addresses: Path) -> None:
    end = call("run", write(own_addresses, GONE))
    assert end.code == 2
    assert "gpt-4-turbo was shut down on 2026-10-23" in end.err
    assert not (own_addresses / "runs").exists()


def test_at_another_address_plan_only_says_it(own_addresses: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    end = call("plan", write(own_addresses, GONE), "--json")
    assert (end.code, end.err, end.table()["refused"]) == (0, "", [])
    assert "gpt-4-turbo was shut down" in str(end.table()["caveats"])


def test_doctor_finds_it_too(own_addresses: Path) -> None:
    end = call("doctor", write(own_addresses, GONE), "--offline")
    assert end.code == 2
    assert "gpt-4-turbo was shut down" in " ".join(end.out.split())


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
    end = call("plan", ROOT / "manifests" / "layton-today.toml", "--json")
    document = end.table()
    assert (end.code, end.err, document["refused"]) == (0, "", [])
    assert document["max_usd"] is not None  # every price is known
    providers = document["providers"]
    assert isinstance(providers, dict)
    assert set(providers) == {"openai", "anthropic", "gemini", "mistral", "together", "groq", "doubleword", "xai"}


@pytest.mark.shared_data
@pytest.mark.skipif(not DATA.is_dir(), reason="the optional folder of real data, ../shared/data, is not there")
def test_the_papers_manifest_is_still_planned_and_says_what_is_gone(own_addresses: Path) -> None:
    text = replay_manifest(DATA).replace("# limit = 20", "limit = 2")
    end = call("plan", write(own_addresses, text), "--json")
    document = end.table()
    assert (end.code, document["requests"]) == (2, 2 * 9 * 4)
    assert [str(line).split(": ")[1].split(" ")[0] for line in document["refused"]] == [  # type: ignore[attr-defined]
        "gemini-3-pro-preview", "moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2-Thinking",
    ]  # fmt: skip
