"""What the providers say of a manifest's models before anything is paid: refused where it is sure to fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from layton_batch import model_table
from layton_batch.manifest.model_checks import ModelFindings
from layton_batch.model_table import is_same_model
from layton_batch.runs.model_questions import ask_providers
from layton_batch.settings import Settings
from layton_batch.testing.providers import Answer, HandlerCall, Loopback
from tests.providers.conftest import reply, routes
from tests.support.manifest_texts import HEAD, ITEMS, load
from tests.support.manual_clock import ManualClock

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()
JURY = '[jury]\nseats = 1\n[[jury.judges]]\nname = "j"\nprovider = "anthropic"\nmodel = "claude-x"\n'
JURY += '[[jury.judges]]\nname = "k"\nprovider = "gemini"\nmodel = "gemini-x"\nsubstitute = true\n'  # it has no key
TABLE = model_table.parse(
    '[[openai]]\nmodels = ["old"]\nreplacement = "new"\nends = 2026-12-31\nsource = "a page"\nas_of = 2026-11-22\n'
)
GONE = "model 'm' (openai): old is not known to openai, which was asked: use new"
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


def found(folder: Path, models: str, environment: Mapping[str, str], *, elsewhere: bool = False) -> ModelFindings:
    manifest = load(folder, HEAD + ITEMS + models + JURY)
    settings = Settings.from_environment(environment, folder)
    return ask_providers(manifest, settings, ManualClock(NOW), table=TABLE, is_elsewhere=lambda _provider: elsewhere)


def test_a_model_that_its_provider_does_not_have_is_refused_and_its_successor_named(tmp_path: Path) -> None:
    with serving(openai=routes({})) as (environment, _):
        findings = found(tmp_path, model("openai", "old"), environment)
    assert findings.refused == (f"{GONE}. If it is right all the same: --offline does not ask",)
    assert findings.warnings == ()


def test_the_environment_says_what_another_address_is(tmp_path: Path) -> None:
    with serving(openai=routes({})) as (environment, _):
        manifest = load(tmp_path, HEAD + ITEMS + model("openai", "old") + JURY)
        findings = ask_providers(manifest, Settings.from_environment(environment, tmp_path), ManualClock(NOW))
    assert (len(findings.refused), len(findings.warnings)) == (0, 1)


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
    tmp_path: Path, provider: str, page: object, is_refused: bool, said: str
) -> None:
    answers: dict[str, Answerer] = {"anthropic": reply({"id": "claude-x"}), provider: reply(page)}
    with serving(**answers) as (environment, _):
        findings = found(tmp_path, model(provider, "m"), environment)
    assert f"model 'm' ({provider}): m {said}" in (findings.refused if is_refused else findings.warnings)[0]
    assert is_refused or findings.refused == ()


@pytest.mark.parametrize(("elsewhere", "status"), [(False, 400), (True, 401)])
def test_a_key_that_the_provider_does_not_accept_is_refused_before_a_run_waits_for_days(
    tmp_path: Path, elsewhere: bool, status: int
) -> None:
    with serving(openai=reply({"error": {"message": "Incorrect API key provided"}}, status)) as (environment, _):
        findings = found(tmp_path, model("openai", "a"), environment, elsewhere=elsewhere)
    ((line,), others) = (findings.warnings, findings.refused) if elsewhere else (findings.refused, findings.warnings)
    assert others == ()
    assert line.startswith("openai does not serve the account: ")


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_questions_that_fail_refuse_nothing_and_are_told_in_one_line(tmp_path: Path, status: int) -> None:
    no = reply({"error": {"message": "no"}}, status)
    with serving(openai=no, mistral=no) as (environment, servers):
        findings = found(
            tmp_path, model("openai", "a") + model("openai", "b", "n") + model("mistral", "c", "o"), environment
        )
        assert [len(server.calls) for server in servers.values()] == [1, 1]  # a provider that fails is asked no more
    assert findings.refused == ()
    (line,) = findings.warnings
    assert line.startswith("providers could not be asked whether their models are on sale: openai: ")
    assert "; mistral: " in line


def test_a_model_of_several_names_is_asked_about_once_and_judges_too(tmp_path: Path) -> None:
    page = routes({"GET /v1/models/a": {"id": "a"}, "GET /v1/models/claude-x": {"id": "claude-x"}})
    with serving(openai=page, anthropic=page) as (environment, servers):
        findings = found(tmp_path, model("openai", "a") + model("openai", "a", "n"), environment)
        calls = {name: [call.path for call in server.calls] for name, server in servers.items()}
    assert findings == ModelFindings((), ())
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
def test_a_model_is_the_one_asked_for_or_a_dated_snapshot_of_it(asked: str, served: str, same: bool) -> None:
    assert is_same_model(asked, served) is same
