"""Prices: every way in which a price source can mislead leads to the right price, or to *unknown*."""

from __future__ import annotations

import tomllib
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import layton_batch
from layton_batch.costs.prices import PriceBook
from layton_batch.costs.rates import Price, Rates
from layton_batch.errors import ManifestError

NOW = datetime(2026, 11, 21, tzinfo=UTC)
D = Decimal


def book(at: datetime = NOW, *overrides: Price) -> PriceBook:
    return PriceBook(overrides, at=at)


def known(provider: str, model: str, at: datetime = NOW) -> Price:
    price = book(at).price(provider, model)
    assert price is not None
    return price


@pytest.mark.parametrize(
    ("provider", "model", "batch", "standard"),
    [
        ("openai", "gpt-5.1", ("0.625", "5"), ("1.25", "10")),
        ("openai", "gpt-5.1-2025-11-13", ("0.625", "5"), ("1.25", "10")),
        ("openai", "gpt-5.2-2025-12-11", ("0.875", "7"), ("1.75", "14")),
        ("anthropic", "claude-opus-4-5-20251101", ("2.5", "12.5"), ("5", "25")),
        ("gemini", "gemini-3-pro-preview", ("1", "6"), ("2", "12")),
        ("gemini", "gemini-3.1-pro-preview", ("1", "6"), ("2", "12")),
        ("gemini", "models/gemini-3-flash-preview", ("0.25", "1.5"), ("0.5", "3")),
        ("vertex", "publishers/google/models/gemini-3-flash-preview", ("0.25", "1.5"), ("0.5", "3")),
        ("mistral", "mistral-large-2512", ("0.25", "0.75"), ("0.5", "1.5")),
        ("mistral", "mistral-medium-2508", ("0.2", "1"), ("0.4", "2")),
        ("together", "moonshotai/Kimi-K2-Thinking", ("1.2", "4"), ("1.2", "4")),
        ("together", "moonshotai/Kimi-K2.5", ("0.5", "2.8"), ("0.5", "2.8")),
        ("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", ("0.44", "0.44"), ("0.88", "0.88")),
        ("together", "openai/gpt-oss-120b", ("0.15", "0.6"), ("0.15", "0.6")),
        ("groq", "openai/gpt-oss-120b", ("0.075", "0.3"), ("0.15", "0.6")),
        ("groq", "llama-3.3-70b-versatile", ("0.295", "0.395"), ("0.59", "0.79")),
        ("doubleword", "Qwen/Qwen3-VL-235B-A22B-Instruct-FP8", ("0.21", "1.9"), ("0.21", "1.9")),
        ("openrouter", "google/gemini-3.8-flash", ("0.375", "1.875"), ("0.75", "3.75")),
        ("openrouter", "z-ai/glm-5.3", ("0.45", "2"), ("1.4", "4.4")),
        ("openrouter", "z-ai/glm-5.3-prime", ("2.8", "8.8"), ("2.8", "8.8")),
        ("xai", "grok-4.3", ("1", "2"), ("1.25", "2.5")),
    ],
)
def test_models_in_use_have_their_batch_and_standard_price(
    provider: str, model: str, batch: tuple[str, str], standard: tuple[str, str]
) -> None:
    price = known(provider, model)
    assert (price.batch.input, price.batch.output) == tuple(map(D, batch))
    assert (price.standard.input, price.standard.output) == tuple(map(D, standard))
    assert (price.provider, price.model) == (provider, model)
    assert price.source


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-5.1-mini"),  # the data would answer gpt-5.1-codex-mini
        ("openai", "gpt-5-chat-latest"),  # … gpt-5
        ("openai", "gpt-5.1-codex"),
        ("openai", "gpt-5.10"),
        ("openai", "gpt-5.1-2025-13-99"),
        ("gemini", "gemini-3.1-pro-preview-customtools"),
        ("gemini", "gemini-pro-latest"),  # … whatever is newest
        ("gemini", "claude-mythos-5-2"),  # Google's list falls back on Anthropic's
        ("gemini", "gemini-embedding-001"),  # no output price
        ("gemini", "gemma-3"),  # listed without any price
        ("no-such-provider", "gpt-5.1"),
        ("openai", ""),
        ("openai", "\x00'; drop table"),
    ],
)
def test_what_is_not_known_for_certain_is_unknown_and_says_why(provider: str, model: str) -> None:
    prices = book()
    assert prices.price(provider, model) is None
    reason = prices.why_unknown(provider, model)
    assert reason is not None
    assert "manifest" in reason


@pytest.mark.parametrize(
    ("provider", "dated", "listed"),
    [
        ("openai", "GPT-5.1", "gpt-5.1"),
        ("openai", "gpt-5.1-2025-11-13", "gpt-5.1"),
        ("openai", "gpt-5.2-20251211", "gpt-5.2"),
        ("anthropic", "claude-sonnet-4-20250514", "claude-sonnet-4-0"),
        ("anthropic", "claude-3-5-haiku-20241022", "claude-3-5-haiku-latest"),
        ("anthropic", "claude-sonnet-5@20260101", "claude-sonnet-5"),
        ("gemini", "gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("gemini", "gemini-2.0-flash-001", "gemini-2.0-flash"),
    ],
)
def test_a_dated_form_of_a_listed_id_counts_as_that_model(provider: str, dated: str, listed: str) -> None:
    found, price = known(provider, dated), known(provider, listed)
    assert (found.batch, found.standard, found.steps) == (price.batch, price.standard, price.steps)


def test_the_standard_price_never_passes_for_a_batch_price_unsaid() -> None:
    price = known("openai", "gpt-5.1-codex-mini")  # listed, but without a batch price
    assert price.inferred
    assert price.batch.input == price.standard.input / 2
    assert "0.5" in price.source
    assert "Batch API guide" in price.source
    plain = known("together", "openai/gpt-oss-120b")
    assert plain.batch == plain.standard
    assert "standard price" in plain.source


def test_batch_prices_before_the_data_lists_them_say_what_was_done() -> None:
    before, since = datetime(2026, 10, 13, tzinfo=UTC), datetime(2026, 10, 14, tzinfo=UTC)
    early, listed = known("openai", "gpt-5.1", before), known("openai", "gpt-5.1", since)
    assert early.standard == listed.standard
    assert (early.batch.input, early.batch.output) == (listed.batch.input, listed.batch.output)
    assert (early.inferred, listed.inferred) == (True, False)
    assert "standard price × 0.5: " in early.source
    assert early.as_of == date(2026, 10, 13)


def test_where_the_standard_price_changed_since_an_early_batch_price_is_the_documented_share() -> None:
    """mistral-large-4 had other prices before 2026-10-20; the variants are dated, so each day has its own."""
    by_day = [known("mistral", "mistral-large-4", datetime(2026, 10, day, tzinfo=UTC)) for day in (15, 21, 30)]
    assert [price.batch.input for price in by_day] == [D("0.34"), D("0.68"), D("0.35")]
    assert all(not price.inferred for price in by_day)


def test_the_discount_does_not_touch_what_the_documents_exclude() -> None:
    gemini, groq, claude = (
        known("gemini", "gemini-3-pro-preview"),
        known("groq", "moonshotai/kimi-k2-instruct"),
        known("anthropic", "claude-opus-4-5"),
    )
    assert gemini.batch.cached_input == gemini.standard.cached_input == D("0.2")
    assert groq.batch.cached_input == groq.standard.cached_input == D("0.5")
    assert (claude.batch.cached_input, claude.standard.cached_input) == (D("0.25"), D("0.5"))
    assert (claude.batch.cache_write, claude.standard.cache_write) == (D("3.125"), D("6.25"))


def test_the_floating_mistral_alias_is_priced_only_while_its_target_is_known() -> None:
    spring = known("mistral", "mistral-large-latest", datetime(2026, 3, 1, tzinfo=UTC))
    assert spring.batch.input == D("0.25")
    assert book().price("mistral", "mistral-large-latest") is None
    assert "mistral-large-2512" in (book().why_unknown("mistral", "mistral-large-latest") or "")


@pytest.mark.parametrize("wrong", [D("-1"), D("nan"), D("inf"), 0.5, 1, "1", None])
def test_a_rate_that_is_not_an_exact_amount_is_refused(wrong: object) -> None:
    with pytest.raises(ManifestError, match="input"):
        Rates(wrong, D(1))  # type: ignore[arg-type]


def test_every_entry_of_the_shipped_prices_holds_together() -> None:
    table = Path(layton_batch.__file__).parent / "costs" / "prices.toml"
    entries = tomllib.loads(table.read_text(encoding="utf-8"))["price"]
    for entry in entries:
        assert all(batch <= standard for batch, standard in zip(entry["batch"][:2], entry["standard"], strict=False))
        assert entry["as_of"] <= date(2026, 11, 21)
        assert len(entry["source"]) > 20
