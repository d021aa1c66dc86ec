"""Requests as each dialect writes them: the line of its documents, its settings, and what it cannot do."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import orjson
import pytest

from layton_batch.errors import ManifestError
from layton_batch.providers import connect, problems
from layton_batch.providers.request_line import request_line
from layton_batch.records import Reasoning, Request

from .conftest import IMAGE, effort, make_request

DOCUMENTED = [
    orjson.loads(line) for line in (Path(__file__).parent / "documented_lines.jsonl").read_bytes().splitlines()
]
"""A line of each form, as the provider's documents have it."""


@pytest.mark.parametrize("entry", DOCUMENTED, ids=lambda entry: f"{entry['provider']} {entry['model']}")
def test_a_line_is_the_documented_one(entry: dict[str, Any]) -> None:
    parts = ("What is shown?", IMAGE) if entry["picture"] else ("What is shown?",)
    spec = {"model": entry["model"], "reasoning": Reasoning(**entry["reasoning"]), "max_output_tokens": 4096}
    request = make_request(entry["provider"], *parts, **spec)
    assert request_line(connect(entry["provider"], None), request) == orjson.dumps(entry["line"])


def written(request: Request) -> Any:
    """What a line says to the model."""
    line = json.loads(request_line(connect(request.model.provider, None), request))
    return next(line[key] for key in ("body", "params", "request") if key in line)


CACHED = [{"type": "text", "text": "four" * 1024, "cache_control": {"type": "ephemeral"}}]
SAFETY = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]
SETTINGS: list[tuple[str, dict[str, Any], dict[str, object]]] = [
    ("openai", {"params": {"max_completion_tokens": 9}, "max_output_tokens": 5}, {"max_completion_tokens": 9}),
    ("mistral", {"params": {"random_seed": 7, "max_tokens": 5}}, {"random_seed": 7, "max_tokens": 5}),
    ("together", {"reasoning": effort("none")}, {"reasoning": {"enabled": False}, "reasoning_effort": None}),
    ("openrouter", {"reasoning": Reasoning(budget_tokens=2000)}, {"reasoning": {"max_tokens": 2000}}),
    ("anthropic", {}, {"max_tokens": 16_000, "thinking": None}),
    ("anthropic", {"reasoning": effort("none")}, {"thinking": {"type": "disabled"}, "output_config.effort": None}),
    ("anthropic", {"reasoning": Reasoning(budget_tokens=32_000)},
     {"thinking": {"type": "enabled", "budget_tokens": 32_000}, "max_tokens": 40_000}),
    # an effort switches thinking on for Claude 4.6 and later alone
    *(("anthropic", {"model": model, "reasoning": effort("high")},
       {"thinking": {"type": "adaptive"}, "output_config.effort": "high"})
      for model in ("claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-8", "claude-fable-5")),
    *(("anthropic", {"model": model, "reasoning": effort("high")}, {"thinking": None, "output_config.effort": "high"})
      for model in ("claude-opus-4-5-20251101", "claude-sonnet-4-5", "wagtail-5")),
    ("anthropic", {"model": "claude-opus-4-6"}, {"thinking": None}),
    ("anthropic", {"params": {"temperature": 0, "max_tokens": 7, "output_config": {"effort": "max"}}},
     {"temperature": 0, "max_tokens": 7, "output_config.effort": "max", "output_config.format.type": "json_schema"}),
    # a system text that the model's cache keeps is marked for it
    ("anthropic", {"model": "claude-opus-4-8", "system": "four" * 1024}, {"system": CACHED}),
    ("anthropic", {"model": "claude-opus-4-8", "system": "four" * 1023 + "fou"}, {"system": "four" * 1023 + "fou"}),
    ("anthropic", {"model": "claude-opus-4-5-20251101", "system": "four" * 4095}, {"system": "four" * 4095}),
    ("anthropic", {"model": "unknown-1", "system": "four" * 1024}, {"system": "four" * 1024}),
    ("anthropic", {"system": ""}, {"system": None}),
    ("gemini", {"reasoning": effort("none")}, {"generationConfig.thinkingConfig": {"thinkingBudget": 0}}),
    ("gemini", {"reasoning": effort("minimal")}, {"generationConfig.thinkingConfig": {"thinkingLevel": "MINIMAL"}}),
    ("gemini", {"reasoning": Reasoning(budget_tokens=32_000)},
     {"generationConfig.thinkingConfig": {"thinkingBudget": 32_000}}),
    ("gemini", {"params": {"temperature": 0, "safetySettings": SAFETY, "generationConfig": {"topK": 1}}},
     {"safetySettings": SAFETY, "generationConfig.temperature": 0, "generationConfig.topK": 1,
      "generationConfig.responseMimeType": "application/json"}),
]  # fmt: skip


@pytest.mark.parametrize(("provider", "spec", "expected"), SETTINGS)
def test_a_setting_stands_where_the_api_has_it(
    provider: str, spec: dict[str, Any], expected: dict[str, object]
) -> None:
    found = written(make_request(provider, **spec))
    for path, value in expected.items():
        assert reduce(lambda holder, key: (holder or {}).get(key), path.split("."), found) == value, path


BUDGET = {"reasoning": Reasoning(budget_tokens=9)}
IMPOSSIBLE: list[tuple[str, dict[str, Any], list[str]]] = [
    ("openai", {"reasoning": effort("xhigh")}, []),
    ("openai", {"reasoning": effort("huge")}, ["effort 'huge'"]),
    ("openai", {**BUDGET, "params": {"stream": True, "model": "x"}}, ["budgets", "params.model", "params.stream"]),
    ("openai", {"model": "gpt-5.2-pro", "params": {"input": "x"}}, ["params.input"]),
    ("groq", {"reasoning": effort("default")}, []),
    ("groq", {"reasoning": effort("minimal")}, ["minimal"]),
    ("mistral", {"reasoning": effort("minimal")}, []),
    ("mistral", BUDGET, ["budget"]),
    ("together", {"reasoning": effort("none")}, []),
    ("together", {"reasoning": effort("xhigh")}, ["xhigh"]),
    ("xai", BUDGET, ["budget"]),
    ("openrouter", {"reasoning": Reasoning(budget_tokens=2000)}, []),
    *(("openrouter", {"params": {key: ["x"]}}, [key])
      for key in ("provider", "models", "plugins", "image_config", "stream", "messages")),
    ("anthropic", {"reasoning": Reasoning(budget_tokens=1024), "max_output_tokens": 1025}, []),
    ("anthropic", {"reasoning": effort("minimal")}, ["minimal"]),
    ("anthropic", {"reasoning": Reasoning(budget_tokens=1023)}, ["1024"]),
    ("anthropic", {"reasoning": Reasoning(budget_tokens=4096), "max_output_tokens": 4096}, ["max_output_tokens"]),
    ("anthropic", {"params": {"stream": True}}, ["stream"]),
    ("gemini", {"model": "gemini-3-flash-preview", "reasoning": effort("max")}, ["max"]),
    ("gemini", {"model": "gemini-2.5-pro", "reasoning": effort("low")}, ["budget"]),
    ("gemini", {"model": "gemini-3-flash-preview", "reasoning": effort("none")}, ["minimal"]),
    ("gemini", {"reasoning": Reasoning(budget_tokens=-2)}, ["-1"]),
    ("gemini", {"params": {"max_output_tokens": 5}}, ["maxOutputTokens"]),
    ("gemini", {"params": {"contents": []}}, ["contents"]),
    ("groq", {"window": "7d"}, []),
    ("groq", {"window": "8d"}, ["window '8d'"]),
    ("doubleword", {"window": "7d"}, ["window '7d'"]),
    ("openai", {"window": "7d"}, ["window '7d'"]),
    ("anthropic", {"window": "1h"}, ["window '1h'"]),
]  # fmt: skip


@pytest.mark.parametrize(("provider", "spec", "words"), IMPOSSIBLE)
def test_what_the_api_cannot_do_is_said_before_anything_is_sent(
    provider: str, spec: dict[str, Any], words: list[str]
) -> None:
    window = spec.pop("window", None) if "window" in (spec := dict(spec)) else None
    found = problems(connect(provider, None), replace(make_request(provider, **spec).model, window=window))
    assert len(found) == len(words)
    assert all(word in problem for word, problem in zip(words, found, strict=True))


def test_a_request_with_an_image_is_refused_before_its_whole_batch_would_fail() -> None:
    with pytest.raises(ManifestError):
        request_line(connect("openrouter", None), make_request("openrouter", "?", IMAGE))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**70, [{"deep": float("-inf")}]])
def test_params_that_json_lacks_are_an_error_naming_the_model(value: object) -> None:
    with pytest.raises(ManifestError, match=r"'shown'.*params"):
        request_line(connect("openai", None), make_request("openai", params={"x": value}))
