"""Digests of accounts: equal for one key at one address, another for everything else, and never the key."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from layton_batch.providers.protocol import ReplyAccount
from layton_batch.runs import connections
from layton_batch.runs.connections import SANDBOX_KEY, account_digest, organisation_digest
from layton_batch.sandbox import environment_file
from layton_batch.settings import Settings

HERE = "http://127.0.0.1:8765/openai/v1"
VERTEX = "https://europe-aiplatform.googleapis.com/v1/projects/p/locations/europe"


@pytest.fixture(autouse=True)
def real_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are digested as a run digests them; other tests do it quickly."""
    monkeypatch.setattr(connections, "scrypt", hashlib.scrypt)


def digest(provider: str = "openai", salt: str = "run", **environment: str) -> str | None:
    return account_digest(Settings.from_environment(environment, Path("/nowhere")), provider, salt)


def test_one_key_at_one_address_is_one_account() -> None:
    usual = digest(OPENAI_API_KEY="key")
    assert usual == digest(OPENAI_API_KEY=" key ")
    assert usual == digest(OPENAI_API_KEY="key", OPENAI_BASE_URL="https://api.openai.com/v1/")
    assert digest(OPENAI_API_KEY="key", OPENAI_BASE_URL=HERE) == digest(
        OPENAI_API_KEY="key", OPENAI_BASE_URL=f"{HERE}/"
    )


def test_another_key_address_organisation_project_or_run_is_another() -> None:
    found = [
        digest(OPENAI_API_KEY="key"),
        digest(OPENAI_API_KEY="other"),
        digest(OPENAI_API_KEY="key", OPENAI_BASE_URL=HERE),
        digest(OPENAI_API_KEY="key", OPENAI_BASE_URL="http://api.openai.com/v1"),
        digest(OPENAI_API_KEY="key", OPENAI_ORG_ID="o"),
        digest(OPENAI_API_KEY="key", OPENAI_PROJECT_ID="o"),
        digest(OPENAI_API_KEY="key", salt="another run"),
        digest("groq", GROQ_API_KEY="key"),
    ]
    assert len(set(found)) == len(found)
    assert all(re.fullmatch("[0-9a-f]{32}", one or "") for one in found)


def test_without_a_key_there_is_no_account() -> None:
    assert digest(OPENAI_BASE_URL=HERE) is None


def test_a_sandbox_is_one_account_at_every_port() -> None:
    assert digest(OPENAI_API_KEY="sandbox-key-openai", OPENAI_BASE_URL=HERE) == digest(
        OPENAI_API_KEY="sandbox-key-openai", OPENAI_BASE_URL="http://127.0.0.1:1/openai/v1"
    )


def test_a_token_of_the_hour_does_not_make_another_account_but_another_project_does() -> None:
    first = digest("vertex", GOOGLE_VERTEX_ACCESS_TOKEN="a", GOOGLE_VERTEX_BASE_URL=VERTEX)
    assert first == digest("vertex", GOOGLE_VERTEX_ACCESS_TOKEN="b", GOOGLE_VERTEX_BASE_URL=VERTEX)
    assert first != digest("vertex", GOOGLE_VERTEX_ACCESS_TOKEN="a", GOOGLE_VERTEX_BASE_URL=VERTEX.replace("p/", "q/"))


def test_an_organisation_is_known_once_a_reply_names_it() -> None:
    named = ReplyAccount()
    assert organisation_digest(named, "anthropic", "run") is None
    named.read({"content-type": "application/json"})
    assert organisation_digest(named, "anthropic", "run") is None
    named.read({"anthropic-organization-id": "acme"})
    first = organisation_digest(named, "anthropic", "run")
    named.read({})  # not every reply names it
    assert first == organisation_digest(named, "anthropic", "run") != organisation_digest(named, "anthropic", "other")


def test_the_keys_of_a_sandbox_are_known_without_its_server() -> None:
    assert SANDBOX_KEY == environment_file.KEY
