"""Charging: exact, additive within one step, monotone, and never zero for what is unknown."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import layton_batch
from layton_batch.costs.prices import PriceBook
from layton_batch.costs.rates import Price, Rates, charge
from layton_batch.providers import connect
from layton_batch.records import Usage

D = Decimal
PRICE = Price(
    "p",
    "m",
    batch=Rates(D("0.625"), D(5), D("0.0625"), D("0.78125")),
    standard=Rates(D("1.25"), D(10), D("0.125"), D("1.5625")),
    source="test",
    as_of=date(2026, 11, 1),
)

counts = st.integers(0, 10**7)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    fresh, cached, written = draw(counts), draw(counts), draw(counts)
    output = draw(counts)
    hour = draw(st.integers(0, written))
    return Usage(fresh + cached + written, cached, output, draw(st.integers(0, output)), written, hour)


@given(usages(), st.booleans())
def test_cost_is_exact(usage: Usage, batched: bool) -> None:
    rates = PRICE.batch if batched else PRICE.standard
    fresh = usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens
    assert rates.cached_input is not None
    assert rates.cache_write is not None
    expected = (
        fresh * Fraction(rates.input)
        + usage.cached_input_tokens * Fraction(rates.cached_input)
        + (usage.cache_write_tokens - usage.hour_write_tokens) * Fraction(rates.cache_write)
        + usage.hour_write_tokens * 2 * Fraction(rates.input)
        + usage.output_tokens * Fraction(rates.output)
    ) / 1_000_000
    assert Fraction(charge(usage, PRICE, batched=batched)) == expected


def test_our_prices_are_those_the_sandbox_bills() -> None:
    """Two tables written apart: a run's cost can equal the sandbox's ledger only if they agree."""
    folder = Path(layton_batch.__file__).parent / "sandbox"  # read as a file: the two share no code
    tables = tomllib.loads((folder / "prices.toml").read_text(encoding="utf-8"))
    book = PriceBook(at=datetime(2026, 11, 21, tzinfo=UTC))
    for provider, models in tables.items():
        for model, entry in models.items():
            price = book.price(provider, model)
            assert price is not None, model
            for rates, billed in ((price.batch, entry["batch"]), (price.standard, entry["standard"])):
                cached = rates.input if rates.cached_input is None else rates.cached_input
                expected = [D(text) for text in billed]
                assert [rates.input, rates.output, cached][: len(expected)] == expected, (provider, model)


def test_our_charge_equals_the_price_datas_own_calculator() -> None:
    """Independent check of the rates read out of genai-prices: its own arithmetic on the same usage."""
    from genai_prices import Usage as TheirUsage
    from genai_prices import calc_price

    at = datetime(2026, 11, 21, tzinfo=UTC)
    book = PriceBook(at=at)
    models = [
        ("openai", "openai", "gpt-5.1-2025-11-13"),
        ("openai", "openai", "gpt-5.4"),
        ("anthropic", "anthropic", "claude-sonnet-4-5"),
        ("gemini", "google", "gemini-3.1-pro-preview"),
        ("mistral", "mistral", "mistral-large-2512"),
        ("groq", "groq", "openai/gpt-oss-120b"),
        ("xai", "x-ai", "grok-4.3"),
    ]
    for provider, data_id, model in models:
        price = book.price(provider, model)
        assert price is not None
        for size in (1_000, 199_999, 200_000, 200_001, 272_000, 272_001, 400_000):
            usage = Usage(size, size // 4, 3_210, 3_000)
            theirs = TheirUsage(input_tokens=size, cache_read_tokens=size // 4, output_tokens=3_210)
            for batched in (True, False):
                context = {"processing": "batch"} if batched else None
                expected = calc_price(
                    theirs, model, provider_id=data_id, genai_request_timestamp=at, price_context=context
                ).total_price
                assert charge(usage, price, batched=batched) == expected, (model, size, batched)


def test_what_anthropic_keeps_for_an_hour_costs_twice_as_much_as_fresh_input() -> None:
    kept = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 27_312}
    usage = {"input_tokens": 30, "cache_creation_input_tokens": 27_312, "cache_creation": kept, "output_tokens": 10}
    message = {"model": "claude-opus-5", "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}
    line = {"custom_id": "c", "result": {"type": "succeeded", "message": {**message, "usage": usage}}}
    read = connect("anthropic", None).decode(json.dumps(line).encode()).usage
    price = PriceBook(at=datetime(2026, 11, 21, tzinfo=UTC)).price("anthropic", "claude-sonnet-4-5")
    assert price is not None
    rates = price.batch
    expected = (30 * rates.input + 27_312 * 2 * rates.input + 10 * rates.output) / 1_000_000
    assert charge(read, price, batched=True) == expected


def test_counts_that_contradict_each_other_are_charged_without_going_below_zero() -> None:
    assert charge(Usage(10, 100, 0), PRICE, batched=True) == charge(Usage(100, 100, 0), PRICE, batched=True)
    assert charge(Usage(-5, -5, -5, -5, -5), PRICE, batched=True) == 0
