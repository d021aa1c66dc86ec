"""check: what is missing, quickly, and never a key."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from layton_batch.commands import machine_check
from layton_batch.sandbox import Sandbox
from tests.support.cli_harness import call, called_at, write
from tests.support.lab import MODELS, demo_prices, manifest_text

SECRET = "sk-very-secret"


def checks(*arguments: str | Path) -> dict[str, tuple[str, str]]:
    found = cast("list[dict[str, str]]", call("check", *arguments, "--json").json)
    return {one["check"]: (one["state"], one["detail"]) for one in found}


@pytest.fixture
def secrets(offline: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for provider in MODELS:
        monkeypatch.setenv(f"{provider.upper()}_API_KEY", SECRET)
    return offline


def test_a_machine_that_is_ready_gets_0_and_prices_of_every_model(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = (MODELS["openai"], MODELS["groq"], "tern-3-referee", "sirocco-referee")
    tables = demo_prices().split("[[prices]]")
    prices = "[[prices]]".join(["", *(table for table in tables if any(f'"{model}"' in table for model in used))])
    manifest = write(offline, manifest_text(("openai", "groq"), prices=prices))
    with Sandbox() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        end = call("check", manifest)
        found = checks(manifest)
    assert end.out == f"{manifest}: all is well ({len(found)} checks)\n"
    assert (end.code, end.err) == (0, called_at(server.url, "openai", "groq", "gemini", "mistral"))
    assert {state for state, _ in found.values()} == {"ok"}
    assert {f"price {MODELS['openai']}", f"price {MODELS['groq']}", "endpoint mistral", "disk"} <= set(found)
    assert "$0.15 in, $1.2 out" in found[f"price {MODELS['openai']}"][1]


def test_no_key_is_ever_printed(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://user:{SECRET}@127.0.0.1:9/v1?key={SECRET}")
    monkeypatch.setenv("MISTRAL_BASE_URL", f"http://[{SECRET}")
    monkeypatch.setenv("GROQ_API_KEY", f"{SECRET}\u2028{SECRET}")
    for options in ((), ("--json",), ("--offline",)):
        end = call("check", *options)
        assert SECRET not in end.out + end.err
    assert end.code == 0  # without a manifest a key that cannot be used is only noted
    found = checks()
    assert found["key groq"][0] == "note"
    assert found["address mistral"][0] == "bad"


def test_endpoints_that_cannot_be_reached_are_told_and_end_with_2(secrets: Path) -> None:
    end = call("check")
    assert end.code == 2
    found = checks()
    for provider in MODELS:
        state, detail = found[f"endpoint {provider}"]
        assert (state, "cannot be reached" in detail) == ("bad", True)


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_endpoints_that_never_answer_hold_up_nothing_for_long(
    secrets: Path, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_check, "CALL_SECONDS", 60.0)
    monkeypatch.setattr(machine_check, "PATIENCE", 0.3)
    for provider in ("openai", "anthropic", "mistral", "together"):
        monkeypatch.setenv(f"{provider.upper()}_BASE_URL", silent)
    begun = time.monotonic()
    found = checks()
    assert time.monotonic() - begun < 5
    assert [found[f"endpoint {name}"][0] for name in ("openai", "anthropic", "mistral", "together")] == ["bad"] * 4
    assert "no answer within" in found["endpoint openai"][1]


def test_all_together_take_ten_seconds_at_most() -> None:
    assert machine_check.PATIENCE < 10
    assert machine_check.CALL_SECONDS < machine_check.PATIENCE


def test_a_manifest_makes_missing_keys_and_prices_bad(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    manifest = write(offline, manifest_text(prices="", top="[budget]\nmax_usd = 1"))
    end = call("check", manifest, "--offline")
    assert end.code == 2
    found = checks(manifest, "--offline")
    assert found["keys"][0] == "bad"
    assert "OPENAI_API_KEY" in found["keys"][1]
    assert found[f"price {MODELS['openai']}"][0] == "bad"
    assert not any(name.startswith("endpoint") for name in found)


def test_a_manifest_that_is_wrong_is_refused(offline: Path) -> None:
    end = call("check", write(offline, "name = 5"))
    assert (end.code, end.out) == (2, "")


def test_json_is_one_list(offline: Path) -> None:
    assert isinstance(json.loads(call("check", "--offline", "--json").out), list)


def test_a_manifest_without_models_needs_no_key(offline: Path) -> None:
    manifest = write(offline, 'name = "lab"\ntask = "mcq_idk"\n[items]\nsource = "bundled"\n')
    assert set(checks(manifest, "--offline")) == {"disk"}
