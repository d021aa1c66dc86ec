"""Asking providers about their models, through the real SDKs: of the sandbox, and of replies as documented."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from layton_batch.providers import closing, connect, knows_models
from layton_batch.providers.protocol import Access, ModelNotice, Provider
from layton_batch.sandbox import Sandbox
from layton_batch.settings import Settings
from tests.support.lab import MODELS

from .conftest import Play
from .documents import Case, cases


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


@cases("models.jsonl")
def test_what_a_provider_says_of_a_model_is_read(play: Play, case: Case) -> None:
    """A model of OpenRouter runs as batches if its catalogue has a price for them."""
    notice = about(play(case["provider"], {"": case["reply"]})[0], case["model"])
    assert (notice and asdict(notice) | {"ends": notice.ends and notice.ends.isoformat()}) == case["notice"]
