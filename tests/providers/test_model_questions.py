"""Asking providers about their models, through the real SDKs: of the sandbox, and of replies as documented."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from layton_batch.providers import closing, connect, knows_models
from layton_batch.providers.protocol import Access, ModelNotice, Provider
from layton_batch.sandbox import Sandbox
from layton_batch.settings import Settings
from tests.support.lab import MODELS

from .conftest import Serve, reply


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as server:
        yield server


def about(provider: Provider, model: str) -> ModelNotice | None:
    knows = knows_models(provider)
    assert knows is not None
    return knows.about(model)


@pytest.mark.parametrize(("provider", "model"), MODELS.items())
def test_every_provider_is_asked_about_a_model_it_has_and_one_it_does_not(
    sandbox: Sandbox, provider: str, model: str
) -> None:
    key, address = Settings.from_environment(sandbox.environment(), Path()).access(provider)
    with closing(connect(provider, Access(key, address))) as connected:
        notice = ModelNotice(model, runs_as_batch=True if provider == "anthropic" else None)
        assert about(connected, model) == notice
        assert about(connected, "no-such-model") is None
    assert set(sandbox.request_counts()[provider]) == {"models"}


CATALOGUE = {"data": [{"id": "maker/one"}, {"id": "maker/one:batch"}, {"id": "maker/two"}]}


@pytest.mark.parametrize(("provider", "model", "page", "notice"), [
    ("openai", "m", {"id": "m-2025-11-13", "object": "model", "shutdown_date": "2027-04-01"},
     ModelNotice("m-2025-11-13", date(2027, 4, 1), is_deprecated=True)),
    ("openai", "m", {"id": "m", "shutdown_date": "some day"}, ModelNotice("m")),
    ("anthropic", "m", {"id": "m", "lifecycle": "deprecated", "retires_at": "2026-11-24T00:00:00Z"},
     ModelNotice("m", date(2026, 11, 24), is_deprecated=True)),
    ("anthropic", "m", {"id": "m", "lifecycle": "retired", "capabilities": {"batch": {"supported": False}}},
     ModelNotice("m", is_deprecated=True, is_over=True, runs_as_batch=False)),
    ("mistral", "m", {"id": "other", "aliases": ["m"], "deprecation": "2026-12-01T12:00:00Z",
                      "deprecation_replacement_model": "n"},
     ModelNotice("m", date(2026, 12, 1), is_deprecated=True, replacement="n")),
    # a model of OpenRouter runs as batches where the catalogue has a price for them
    ("openrouter", "maker/one", CATALOGUE, ModelNotice("maker/one", runs_as_batch=True)),
    ("openrouter", "maker/one:batch", CATALOGUE, ModelNotice("maker/one:batch", runs_as_batch=True)),
    ("openrouter", "maker/two", CATALOGUE, ModelNotice("maker/two", runs_as_batch=False)),
    ("openrouter", "maker/three", CATALOGUE, None),
])  # fmt: skip
def test_what_a_provider_says_of_a_model_is_read(
    serve: Serve, provider: str, model: str, page: object, notice: ModelNotice | None
) -> None:
    assert about(serve(provider, reply(page))[0], model) == notice
