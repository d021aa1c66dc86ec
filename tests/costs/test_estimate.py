"""Bounds before sending: no reply within the limits can cost more."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.costs.estimate import (
    OUTPUT_BY_EFFORT,
    PromptSize,
    TokenBound,
    bound_cost,
    image_size,
    image_tokens,
    output_bound,
)
from layton_batch.costs.prices import PriceBook
from layton_batch.costs.rates import Price, Rates, RateStep, charge
from layton_batch.records import Image, JsonValue, ModelSpec, Prompt, Reasoning, Usage
from tests.support.paths import SHARED_DATA
from tests.support.token_bounds import estimate_tokens

D = Decimal
BOOK = PriceBook(at=datetime(2026, 11, 21, tzinfo=UTC))
HOUR: JsonValue = {"type": "ephemeral", "ttl": "1h"}
RIDDLES = SHARED_DATA / "layton" / "riddles_vlm.jsonl"


def spec(limit: int | None = 32_000, reasoning: Reasoning | None = None, **params: JsonValue) -> ModelSpec:
    return ModelSpec("n", "openai", "gpt-5.1", "openai", limit, reasoning or Reasoning(), params)


def encoded(kind: str, width: int, height: int) -> Image:
    from PIL import Image as Pillow

    out = io.BytesIO()
    Pillow.new("RGB", (width, height)).save(out, kind)
    return Image(f"image/{kind.lower()}", base64.b64encode(out.getvalue()).decode())


rates = st.builds(
    Rates,
    st.decimals(0, 50, places=4),
    st.decimals(0, 200, places=4),
    st.none() | st.decimals(0, 80, places=4),
    st.none() | st.decimals(0, 80, places=4),
)
steps = st.lists(st.builds(RateStep, st.integers(1, 4_000), rates, rates), max_size=2).map(
    lambda found: tuple(sorted(found, key=lambda step: step.above))
)
prices = st.builds(
    Price,
    st.just("p"),
    st.just("m"),
    rates,
    rates,
    st.just("test"),
    st.just(date(2026, 11, 1)),
    steps,
    st.booleans(),
)


@given(st.data(), prices, st.text(max_size=300))
def test_no_reply_within_the_limits_costs_more_than_the_estimate(data: st.DataObject, price: Price, text: str) -> None:
    bound = estimate_tokens(Prompt("s", (text,)), spec(1_000))
    read = data.draw(st.integers(0, bound.input))
    cached = data.draw(st.integers(0, read))
    written = data.draw(st.integers(0, read - cached))
    output = data.draw(st.integers(0, bound.output))
    usage = Usage(read, cached, output, output, written)
    assert charge(usage, price, batched=True) <= bound_cost(bound, price)


@pytest.mark.parametrize("place", [{"cache_control": HOUR}, {"system": [{"type": "text", "cache_control": HOUR}]}, {}])
def test_input_that_a_manifest_has_cached_for_an_hour_is_bounded_by_its_rate(place: dict[str, JsonValue]) -> None:
    judged = spec(params=place)
    prompt = Prompt("", ("text",))
    price = BOOK.price(judged.provider, judged.model)
    assert price is not None
    tokens = PromptSize.of(prompt).tokens(judged)
    written = Usage(tokens, 0, 0, 0, tokens, tokens if place else 0)
    assert charge(written, price, batched=True) <= bound_cost(TokenBound.of(tokens, judged), price)


@given(st.text(max_size=400), st.text(max_size=400))
def test_text_is_bounded_by_its_bytes(system: str, question: str) -> None:
    """A byte-level tokenizer cannot make more tokens than bytes, whatever the script."""
    size = len(system.encode()) + len(question.encode())
    assert estimate_tokens(Prompt(system, (question,)), spec()).input >= size


@pytest.mark.parametrize(
    ("model", "bound"),
    [
        (spec(32_000), 32_000),
        (spec(None), OUTPUT_BY_EFFORT[None]),
        (spec(None, Reasoning(effort="high")), 128_000),  # what the model's page says that it can write
        (spec(None, Reasoning(effort="none")), 16_384),
        (spec(None, Reasoning(effort="a word we do not know")), 128_000),
        (replace(spec(None, Reasoning(effort="high")), model="nobody-knows-1"), 131_072),
        (replace(spec(None), provider="anthropic"), 16_000),  # what its requests state
        (replace(spec(None, Reasoning(budget_tokens=32_000)), provider="anthropic"), 40_000),
        (replace(spec(None), provider="gemini", model="gemini-3.1-pro-preview"), 65_536),
        (spec(None, Reasoning(budget_tokens=32_000)), 48_384),
        (spec(64_000, Reasoning(budget_tokens=32_000)), 64_000),  # the limit counts the budget
        (spec(8_000, Reasoning(budget_tokens=32_000)), 40_000),  # it cannot: sent as the sum
        (spec(None, max_tokens=500), 500),
        (spec(100, max_completion_tokens=500), 500),
        (spec(None, generationConfig={"maxOutputTokens": 700}), 700),
        (spec(100, n=3), 300),
        (spec(100, n=True), 100),
        (spec(100, n="3", max_tokens=-1), 100),
    ],
)
def test_output_is_bounded_by_every_limit_that_may_be_sent(model: ModelSpec, bound: int) -> None:
    assert output_bound(model) == bound


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF"])
@pytest.mark.parametrize("size", [(1, 1), (256, 192), (1024, 768), (2000, 31)])
def test_image_sizes_are_read_from_the_header(kind: str, size: tuple[int, int]) -> None:
    assert image_size(encoded(kind, *size)) == size


@given(
    st.binary(max_size=200), st.sampled_from([b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff\xff"])
)
def test_no_image_however_broken_raises_or_hangs(body: bytes, start: bytes) -> None:
    image = Image("image/jpeg", base64.b64encode(start + body).decode())
    for provider in ("openai", "anthropic", "gemini", "mistral", "together", "nobody"):
        assert 0 < image_tokens(image_size(image), provider, "m") <= 50_000


def test_image_bounds_cover_the_providers_own_examples() -> None:
    """OpenAI: 1024×1024 is 765 tokens, 2048×4096 is 1,105. Anthropic: 1092×1092 about 1,590. Gemini: 258 a tile."""
    assert image_tokens(image_size(encoded("JPEG", 1024, 1024)), "openai", "gpt-5.1") >= 765
    assert image_tokens(image_size(encoded("JPEG", 2048, 4096)), "openai", "gpt-4o") >= 1105
    assert image_tokens(image_size(encoded("JPEG", 1092, 1092)), "anthropic", "claude-opus-4-5") >= 1590
    assert image_tokens(image_size(encoded("JPEG", 1024, 1024)), "openai", "gpt-4o-mini") >= 25_501
    assert image_tokens(image_size(encoded("JPEG", 100, 100)), "gemini", "gemini-3-pro-preview") >= 1120


@pytest.mark.shared_data
def test_every_real_riddle_image_has_a_size_that_pillow_agrees_with() -> None:
    from PIL import Image as Pillow

    images = [Image("image/jpeg", json.loads(line)["img"]) for line in RIDDLES.read_text(encoding="utf-8").splitlines()]
    assert len(images) == 317
    for image in images:
        with Pillow.open(io.BytesIO(base64.b64decode(image.base64))) as opened:
            assert image_size(image) == opened.size
