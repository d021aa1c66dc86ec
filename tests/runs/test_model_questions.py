"""What the providers say of a manifest's models before anything is paid: refused where it is sure to fail."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from layton_batch.clock import SystemClock
from layton_batch.settings import Settings
from layton_batch.testing.providers import Answer, HandlerCall, Loopback
from tests.providers.conftest import reply, routes
from tests.support.cli_harness import call
from tests.support.manifest_texts import HEAD, ITEMS, write
from tests.support.paths import ROOT

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()
JURY = '[jury]\nseats = 1\n[[jury.judges]]\nname = "j"\nprovider = "anthropic"\nmodel = "claude-x"\n'
JURY += '[[jury.judges]]\nname = "k"\nprovider = "gemini"\nmodel = "gemini-x"\nsubstitute = true\n'  # it has no key
Answerer = Answer | Callable[[HandlerCall], Answer]


def model(provider: str, name: str, shown: str = "m") -> str:
    return f'[[models]]\nname = "{shown}"\nprovider = "{provider}"\nmodel = "{name}"\n'


@contextmanager
def serving(**answers: Answerer) -> Iterator[tuple[dict[str, str], Mapping[str, Loopback]]]:
    """A server for each provider named, and the environment that points there."""
    servers = {name: Loopback(answer) for name, answer in answers.items()}
    environment = {f"{name.upper()}_API_KEY": "no-key" for name in servers}
    for server in servers.values():
        server.__enter__()
    try:
        for name, server in servers.items():
            environment[f"{name.upper()}_BASE_URL"] = server.url + ("/v1" if name == "openai" else "")
        yield environment, servers
    finally:
        for server in servers.values():
            server.__exit__(None, None, None)


Findings = tuple[list[str], list[str]]
Find = Callable[..., Findings]


@pytest.fixture
def find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Find:
    """``find(models, environment, elsewhere=…)``: what `plan` refuses, and what it warns of the models. ``elsewhere``:
    the addresses are others than the providers' own."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(SystemClock, "now", lambda _self: NOW)
    write(
        tmp_path,
        json.dumps({"id": "a", "split": "llm", "description": "?", "answer": "b", "solution": "c"}),
        "items.jsonl",
    )

    def find(models: str, environment: Mapping[str, str], *, elsewhere: bool = False) -> Findings:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(Settings, "is_elsewhere", lambda *_: elsewhere)
        plan = call("plan", write(tmp_path, HEAD + ITEMS + models + JURY), "--runs", tmp_path / "runs", "--json").json
        assert isinstance(plan, dict)
        told = [line for line in plan["caveats"] if re.match(r"model '|providers could|\w+ does not serve", line)]
        return plan["refused"], [line for line in told if "models.toml" not in line]

    return find


def test_a_model_that_its_provider_does_not_have_is_refused_and_its_successor_named(find: Find) -> None:
    entries = tomllib.loads((ROOT / "layton_batch" / "models.toml").read_text(encoding="utf-8"))["openai"]
    old, new = next((entry["models"][0], entry["replacement"]) for entry in entries if "replacement" in entry)
    for elsewhere in (False, True):
        with serving(openai=routes({})) as (environment, _):
            found = find(model("openai", old), environment, elsewhere=elsewhere)
        line = next(line for line in found[elsewhere] if "is not known to openai, which was asked" in line)
        assert line.startswith(f"model 'm' (openai): {old} ")
        assert f": use {new}" in line
        assert elsewhere or "--offline" in line
        assert found[0] == [] or not elsewhere


@pytest.mark.parametrize(
    ("provider", "page", "is_refused", "said"),
    [
        ("openai", {"id": "other"}, True, "stands for another model, other, says openai: use other, or another model"),
        ("anthropic", {"id": "m", "lifecycle": "retired"}, True, "is no longer served, says anthropic"),
        (
            "anthropic",
            {"id": "m", "lifecycle": "active", "capabilities": {"batch": {"supported": False}}},
            True,
            "is not run as a batch, says anthropic",
        ),
        ("openai", {"id": "m", "shutdown_date": "2027-04-01"}, False, "will be shut down on 2027-04-01, says openai"),
        ("openai", {"id": "m", "shutdown_date": "2026-11-01"}, False, "was to be shut down on 2026-11-01, says openai"),
        (
            "mistral",
            {"id": "m", "deprecation": "2026-12-31T00:00:00Z", "deprecation_replacement_model": "n"},
            False,
            "will be shut down on 2026-12-31, says mistral: use n",
        ),
        (
            "anthropic",
            {"id": "m", "lifecycle": "deprecated", "retires_at": None},
            False,
            "is deprecated, says anthropic",
        ),
    ],
)
def test_what_is_sure_to_fail_is_refused_and_an_end_ahead_is_a_warning_with_the_day(
    find: Find, provider: str, page: object, is_refused: bool, said: str
) -> None:
    answers: dict[str, Answerer] = {"anthropic": reply({"id": "claude-x"}), provider: reply(page)}
    with serving(**answers) as (environment, _):
        refused, warnings = find(model(provider, "m"), environment)
    assert f"model 'm' ({provider}): m {said}" in (refused if is_refused else warnings)[0]
    assert is_refused or refused == []


@pytest.mark.parametrize(("elsewhere", "status"), [(False, 400), (True, 401)])
def test_a_key_that_the_provider_does_not_accept_is_refused_before_a_run_waits_for_days(
    find: Find, elsewhere: bool, status: int
) -> None:
    with serving(openai=reply({"error": {"message": "Incorrect API key provided"}}, status)) as (environment, _):
        found = find(model("openai", "a"), environment, elsewhere=elsewhere)
    (line,), others = found[elsewhere], found[not elsewhere]
    assert others == []
    assert line.startswith("openai does not serve the account: ")


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_questions_that_fail_refuse_nothing_and_are_told_in_one_line(find: Find, status: int) -> None:
    no = reply({"error": {"message": "no"}}, status)
    with serving(openai=no, mistral=no) as (environment, servers):
        refused, (line,) = find(
            model("openai", "a") + model("openai", "b", "n") + model("mistral", "c", "o"), environment
        )
        assert [len(server.calls) for server in servers.values()] == [1, 1]  # a provider that fails is asked no more
    assert refused == []
    assert line.startswith("providers could not be asked whether their models are on sale: openai: ")
    assert "; mistral: " in line


def test_a_model_of_several_names_is_asked_about_once_and_judges_too(find: Find) -> None:
    page = routes({"GET /v1/models/a": {"id": "a"}, "GET /v1/models/claude-x": {"id": "claude-x"}})
    with serving(openai=page, anthropic=page) as (environment, servers):
        assert find(model("openai", "a") + model("openai", "a", "n"), environment) == ([], [])
        calls = {name: [call.path for call in server.calls] for name, server in servers.items()}
    assert calls == {"openai": ["/v1/models/a"], "anthropic": ["/v1/models/claude-x"]}


@pytest.mark.parametrize(
    ("asked", "served", "same"),
    [
        ("gpt-5.1", "gpt-5.1", True),
        ("gpt-5.1", "gpt-5.1-2025-11-13", True),
        ("gpt-5.1", "gpt-5.1-mini", False),
        ("gpt-5.1-2025-11-13", "gpt-5.1-2026-01-01", False),
        ("gpt-5.1-2025-11-13", "gpt-5.1", True),
        ("gpt-4", "gpt-4-0613", True),
        ("claude-opus-4-5", "claude-opus-4-5-20251101", True),
        ("claude-opus-4", "claude-opus-4-5", False),
        ("mistral-large-latest", "mistral-large-2512", True),
        ("mistral-large-2411", "mistral-large-2512", False),
        ("gemini-2.0-flash", "models/gemini-2.0-flash-001", True),
        ("gemini-2.5-flash", "gemini-2.5-flash-preview-09-2025", True),
        ("gemini-3-pro-preview", "gemini-3.1-pro-preview", False),
        ("openai/gpt-oss-120b", "OpenAI/gpt-oss-120B", True),
    ],
)
def test_a_model_is_the_one_asked_for_or_a_dated_snapshot_of_it(
    find: Find, asked: str, served: str, same: bool
) -> None:
    with serving(openai=reply({"id": served}), anthropic=reply({"id": "claude-x"})) as (environment, _):
        refused, _warnings = find(model("openai", asked), environment)
    assert any("stands for another model" in line for line in refused) is not same
