"""A request's model id and reasoning setting name the recorded model."""

from __future__ import annotations

import pytest

from layton_batch.sandbox.answerers.replay import Ambiguous, resolve

RECORDED = (
    "claude-opus-4-5-20251101-thinking-32k",
    "claude-opus-4-5-20251101-no-thinking",
    "gemini-3-flash-high",
    "gemini-3-pro-high",
    "moonshotai-kimi-k2-thinking",
    "moonshotai-kimi-k2.5-thinking",
    "gpt-5.1-2025-11-13-high",
    "gpt-5.2-2025-12-11-high",
    "mistral-large-2512",
)


@pytest.mark.parametrize(
    ("model", "reasoning", "name"),
    [
        ("gpt-5.1-2025-11-13", "high", "gpt-5.1-2025-11-13-high"),
        ("gpt-5.2-2025-12-11", "HIGH", "gpt-5.2-2025-12-11-high"),
        ("gpt-5.1", "high", "gpt-5.1-2025-11-13-high"),
        ("claude-opus-4-5-20251101", 32000, "claude-opus-4-5-20251101-thinking-32k"),
        ("claude-opus-4-5-20251101", 32768, "claude-opus-4-5-20251101-thinking-32k"),
        ("claude-opus-4-5-20251101", None, "claude-opus-4-5-20251101-no-thinking"),
        ("claude-opus-4-5-20251101", "none", "claude-opus-4-5-20251101-no-thinking"),
        ("claude-opus-4-5", 0, "claude-opus-4-5-20251101-no-thinking"),
        ("gemini-3-pro-preview", "high", "gemini-3-pro-high"),
        ("models/gemini-3-flash-preview", "high", "gemini-3-flash-high"),
        ("moonshotai/Kimi-K2-Thinking", None, "moonshotai-kimi-k2-thinking"),
        ("moonshotai/Kimi-K2.5", None, "moonshotai-kimi-k2.5-thinking"),
        ("moonshotai/Kimi-K2.5", "default", "moonshotai-kimi-k2.5-thinking"),
        ("moonshotai/Kimi-K2.5", -1, "moonshotai-kimi-k2.5-thinking"),
        ("mistral-large-2512", None, "mistral-large-2512"),
        ("mistral-large-2512", "high", "mistral-large-2512"),
        ("mistral-large-latest", None, "mistral-large-2512"),
    ],
)
def test_the_rule_names_the_published_models(model: str, reasoning: str | int | None, name: str) -> None:
    assert resolve(model, reasoning, RECORDED) == name


@pytest.mark.parametrize(
    ("model", "reasoning"),
    [
        ("gpt-5.1-2025-11-13", "low"),
        ("gpt-5.1-2025-11-13", None),
        ("gpt-5", "high"),
        ("claude-opus-4-5-20251101", 8000),
        ("gemini-3", "high"),
        ("moonshotai/Kimi", None),
        ("", None),
        ("///", "high"),
    ],
)
def test_another_setting_or_model_is_never_passed_off(model: str, reasoning: str | int | None) -> None:
    assert resolve(model, reasoning, RECORDED) is None


def test_an_equal_name_wins_over_likeness() -> None:
    recorded = ("Tern_3", "tern-3", "tern-3-high")
    assert resolve("tern-3", None, recorded) == "tern-3"
    assert resolve("Tern_3", None, recorded) == "Tern_3"
    assert resolve("tern-3", "high", recorded) == "tern-3-high"


def test_two_records_that_fit_equally_are_ambiguous() -> None:
    with pytest.raises(Ambiguous, match="tern-3-20250101, tern-3-20260101"):
        resolve("tern-3", None, ("tern-3-20250101", "tern-3-20260101"))


def test_an_alias_decides_first_and_may_depend_on_the_setting() -> None:
    aliases = {"mine": "mistral-large-2512", "mine@high": "gemini-3-pro-high", "lost": "nobody"}
    assert resolve("mine", None, RECORDED, aliases) == "mistral-large-2512"
    assert resolve("mine", "high", RECORDED, aliases) == "gemini-3-pro-high"
    assert resolve("lost", None, RECORDED, aliases) is None
