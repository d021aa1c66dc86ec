"""What a command reads of the environment and of a ``.env``, whom it calls with a key, and what ``check`` says."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.sandbox import Sandbox
from layton_batch.testing.providers import Answer, Loopback
from tests.support.cli_harness import call, called_at, refused, write
from tests.support.lab import MODELS, demo_prices, manifest_text, quiz_text

KEY = "sk-of-the-environment"
SECRET = "sk-very-secret"


def checks(*arguments: str | Path) -> dict[str, tuple[str, str]]:
    found: list[dict[str, str]] = call("check", *arguments, "--json").json  # type: ignore[assignment]
    return {one["check"]: (one["state"], one["detail"]) for one in found}


# ---- .env: a file of whoever made the folder gives keys, and says nothing else ---------------------------------------


@pytest.fixture
def stranger() -> Iterator[Loopback]:
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
    return write(offline, quiz_text(limit=1))


GIVEN = ("plan", "check", "run")
MORE = {"run": ("--once", "--yes")}


@pytest.mark.parametrize("command", GIVEN)
def test_an_address_in_dot_env_gets_no_key_of_the_environment(
    offline: Path, manifest: Path, stranger: Loopback, command: str
) -> None:
    write(offline, f"OPENAI_BASE_URL={stranger.url}/v1\n", ".env")
    end = call(command, manifest, *MORE.get(command, ()))
    assert ".env: OPENAI_BASE_URL is not read from it" in end.err
    write(offline, f"OPENAI_API_KEY=theirs\nOPENAI_BASE_URL={stranger.url}/v1\n", ".env")
    call(command, manifest, *MORE.get(command, ()))
    assert stranger.calls == []


@pytest.mark.parametrize("command", GIVEN)
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
        call(command, manifest, *MORE.get(command, ()))
        line = f"openai is called at {gateway.url} (OPENAI_BASE_URL in the environment)"
    assert [line in text for text in said] == [True] * len(said) != []


@pytest.mark.parametrize("name", ["LAYTON_BATCH_STATE", "LAYTON_BATCH_RUNS"])
def test_a_place_of_runs_in_dot_env_is_refused_before_anything_is_bought_a_second_time(
    offline: Path, manifest: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(offline, f"{name}=postgresql://u:secret@127.0.0.1/x\n", ".env")
    message = refused("plan", manifest)
    assert (f"{name} is not read from {offline / '.env'}" in message, "secret" in message) == (True, False)
    monkeypatch.setenv("LAYTON_BATCH_RUNS", str(offline / "elsewhere"))
    assert call("plan", manifest).code == (0 if name == "LAYTON_BATCH_RUNS" else 2)


def test_doctor_says_what_was_read_from_where(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GROQ_API_KEY", "GROQ_BASE_URL"):
        monkeypatch.delenv(name)
    write(offline, "GROQ_API_KEY=file\nGROQ_BASE_URL=http://127.0.0.1:9\nHF_ENDPOINT=http://127.0.0.1:9\n", ".env")
    found = checks("--offline")
    assert found["key openai"][1] == "set (OPENAI_API_KEY in the environment)"
    assert found["key groq"][1] == f"set (GROQ_API_KEY in {offline / '.env'})"
    assert found["address groq"][1] == f"http://127.0.0.1:9 (GROQ_BASE_URL in {offline / '.env'})"
    assert found["address openai"][1] == "http://127.0.0.1:9/v1 (OPENAI_BASE_URL in the environment)"
    assert found[".env"][1].startswith(
        f"{offline / '.env'}: GROQ_API_KEY, GROQ_BASE_URL are read from it; HF_ENDPOINT is not read from it"
    )


# ---- check -----------------------------------------------------------------------------------------------------------


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
        end, found = call("check", manifest), checks(manifest)
    assert (end.code, end.err) == (0, called_at(server.url, "openai", "groq", "gemini", "mistral"))
    assert len(end.out.splitlines()) == 1  # where all is well
    assert {state for state, _ in found.values()} == {"ok"}
    assert {f"price {MODELS['openai']}", f"price {MODELS['groq']}", "endpoint gemini", "disk"} <= set(found)
    assert "$0.15 in, $1.2 out" in found[f"price {MODELS['openai']}"][1]


def test_no_key_is_ever_printed_and_endpoints_that_cannot_be_reached_end_with_2(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for provider in MODELS:
        monkeypatch.setenv(f"{provider.upper()}_API_KEY", SECRET)
    found = checks()
    assert call("check").code == 2
    for provider in MODELS:
        state, detail = found[f"endpoint {provider}"]
        assert (state, "cannot be reached" in detail) == ("bad", True)
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://user:{SECRET}@127.0.0.1:9/v1?key={SECRET}")
    monkeypatch.setenv("MISTRAL_BASE_URL", f"http://[{SECRET}")
    monkeypatch.setenv("GROQ_API_KEY", f"{SECRET}\u2028{SECRET}")
    for options in ((), ("--json",), ("--offline",)):
        end = call("check", *options)
        assert SECRET not in end.out + end.err
    assert end.code == 0  # without a manifest a key that cannot be used is only noted
    found = checks()
    assert (found["key groq"][0], found["address mistral"][0]) == ("note", "bad")


def test_a_manifest_makes_missing_keys_and_prices_bad_and_one_without_models_needs_none(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    manifest = write(offline, manifest_text(prices="", top="[budget]\nmax_usd = 1"))
    assert call("check", manifest, "--offline").code == 2
    found = checks(manifest, "--offline")
    assert (found["keys"][0], "OPENAI_API_KEY" in found["keys"][1]) == ("bad", True)
    assert found[f"price {MODELS['openai']}"][0] == "bad"
    assert not any(name.startswith("endpoint") for name in found)
    manifest = write(offline, 'name = "lab"\ntask = "mcq_idk"\n[items]\nsource = "bundled"\n')
    assert set(checks(manifest, "--offline")) == {"disk"}
    refused("check", write(offline, "name = 5"))


def test_plan_check_and_run_need_the_same_keys(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the models and of the judges that sit; not of a substitute, who sits for nobody here."""
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL", "GROQ"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    write(offline, "id,question,answer\n1,Legs of a spider?,eight\n", "quiz.csv")
    model = '[[models]]\nname = "own"\nprovider = "groq"\nmodel = "openai/gpt-oss-20b"\n'
    path = write(offline, f'name = "lab"\ntask = "qa"\n[items]\nsource = "quiz.csv"\nsplit = "text"\n{model}')
    keys: list[dict[str, list[str]]] = call("plan", path, "--offline", "--json").json["keys"]  # type: ignore[index]
    planned = [key["variables"][0] for key in keys]
    assert len(planned) == len(set(planned)) == 4
    assert checks(path, "--offline")["keys"][1].removeprefix("not set: ").replace(
        " or GOOGLE_API_KEY", ""
    ) == ", ".join(planned)
    message = refused("run", path, "--yes", "--offline")
    assert [name for name in (*planned, "MISTRAL_API_KEY") if name in message] == planned
