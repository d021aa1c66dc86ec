"""Digests of accounts: equal for one key at one address, another for everything else, and never the key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from layton_batch.providers.protocol import ACCOUNT_HEADERS
from layton_batch.runs.open import providers_for
from layton_batch.sandbox import Sandbox
from layton_batch.settings import Settings
from layton_batch.testing.providers import Answer, Loopback
from tests.support.manifest_texts import MINIMAL, load

HERE = "http://127.0.0.1:8765/openai/v1"
VERTEX = "https://europe-aiplatform.googleapis.com/v1/projects/p/locations/europe"


class Accounts:
    """Accounts that a run's providers are called with."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.manifest = folder, load(folder, MINIMAL)

    def key(self, provider: str = "openai", salt: str = "run", **environment: str) -> str | None:
        settings = Settings.from_environment(environment, self.folder)
        return providers_for(self.manifest, settings).account(provider, salt).key


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    return Accounts(tmp_path)


def test_one_key_at_one_address_is_one_account(accounts: Accounts) -> None:
    usual = accounts.key(OPENAI_API_KEY="key")
    assert usual == accounts.key(OPENAI_API_KEY=" key ")
    assert usual == accounts.key(OPENAI_API_KEY="key", OPENAI_BASE_URL="https://api.openai.com/v1/")
    elsewhere = [accounts.key(OPENAI_API_KEY="key", OPENAI_BASE_URL=url) for url in (HERE, f"{HERE}/")]
    assert elsewhere[0] == elsewhere[1] != usual
    assert accounts.key(OPENAI_BASE_URL=HERE) is None  # no key


def test_another_key_address_organisation_project_or_run_is_another(accounts: Accounts) -> None:
    found = [
        accounts.key(OPENAI_API_KEY="key"),
        accounts.key(OPENAI_API_KEY="other"),
        accounts.key(OPENAI_API_KEY="key", OPENAI_BASE_URL=HERE),
        accounts.key(OPENAI_API_KEY="key", OPENAI_BASE_URL="http://api.openai.com/v1"),
        accounts.key(OPENAI_API_KEY="key", OPENAI_ORG_ID="o"),
        accounts.key(OPENAI_API_KEY="key", OPENAI_PROJECT_ID="o"),
        accounts.key(OPENAI_API_KEY="key", salt="another run"),
        accounts.key("groq", GROQ_API_KEY="key"),
    ]
    assert len(set(found)) == len(found)
    assert all(re.fullmatch("[0-9a-f]{32}", one or "") for one in found)


def test_a_sandbox_is_one_account_at_every_port(accounts: Accounts) -> None:
    with Sandbox() as server:
        environment = server.environment()
        moved = {name: value.replace(server.url, "http://127.0.0.1:1") for name, value in environment.items()}
    assert accounts.key(**environment) == accounts.key(**moved) is not None


def test_a_token_of_the_hour_does_not_make_another_account_but_another_project_does(accounts: Accounts) -> None:
    first = accounts.key("vertex", GOOGLE_VERTEX_ACCESS_TOKEN="a", GOOGLE_VERTEX_BASE_URL=VERTEX)
    assert first == accounts.key("vertex", GOOGLE_VERTEX_ACCESS_TOKEN="b", GOOGLE_VERTEX_BASE_URL=VERTEX)
    other = VERTEX.replace("p/", "q/")
    assert first != accounts.key("vertex", GOOGLE_VERTEX_ACCESS_TOKEN="a", GOOGLE_VERTEX_BASE_URL=other)


def test_an_organisation_is_known_once_a_reply_names_it(accounts: Accounts) -> None:
    page = b"{}"
    form = {"content-type": "application/json"}
    answers = [
        Answer(200, page, form),
        Answer(200, page, {**form, ACCOUNT_HEADERS[1]: "acme"}),
        Answer(200, page, form),
    ]
    with Loopback(lambda _call: answers.pop(0)) as server:
        environment = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": server.url}
        providers = providers_for(accounts.manifest, Settings.from_environment(environment, accounts.folder))
        named = [providers.account("anthropic", "run").organisation]
        while answers:
            providers.get("anthropic").cancel("b-1")
            named.append(providers.account("anthropic", "run").organisation)
        assert named[:2] == [None, None]
        assert (
            named[2] == named[3] != providers.account("anthropic", "another run").organisation
        )  # not every one names it
        assert re.fullmatch("[0-9a-f]{32}", named[2] or "")
        providers.close()
