"""Prices of a model's tokens, in a batch and outside one, on a given date, and their sources.

``PriceBook.price`` asks in this order: the manifest's own prices; our dated table (``prices.toml``) where an entry says
that it supersedes; genai-prices in batch context; the rest of our table. Nothing found is None, *unknown*: never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from layton_batch.costs import published_prices
from layton_batch.costs.published_prices import Discount
from layton_batch.costs.rates import Price
from layton_batch.model_table import bare_model
from layton_batch.text import did_you_mean

PROVIDER_IDS = {"gemini": "google", "vertex": "google", "xai": "x-ai"}
"""Our provider names where the price data says otherwise."""


class PriceBook:
    """Prices as of one moment. Look-ups are remembered; a book may be shared between threads.

    ``at`` decides which dated price holds; a naive datetime is taken as UTC. ``overrides`` go before all others.
    """

    def __init__(self, overrides: Sequence[Price] = (), *, at: datetime) -> None:
        self.at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        self._known: dict[tuple[str, str], Price | None] = {(price.provider, price.model): price for price in overrides}

    def price(self, provider: str, model: str) -> Price | None:
        """Return the price of a model by its id at the provider (``ModelSpec.model``); None: unknown."""
        if (provider, model) not in self._known:
            self._known[provider, model] = self._look_up(provider, model)
        return self._known[provider, model]

    def why_unknown(self, provider: str, model: str) -> str | None:
        """Tell a person why a model has no price and what to do; None: it has a price."""
        if self.price(provider, model) is not None:
            return None
        reason = published_prices.load().refusal(_data_id(provider), bare_model(model), self.at.date())
        return reason or (
            f"no price is known for {provider}/{model} on {self.at.date()}: "
            "check the model's id, or state its price in the manifest"
        )

    def _look_up(self, provider: str, model: str) -> Price | None:
        table = published_prices.load()
        data_id, bare, on = _data_id(provider), bare_model(model), self.at.date()
        if table.refusal(data_id, bare, on):
            return None
        entry = table.entry(data_id, bare, on)
        price = None if entry is not None and entry.supersedes else published_prices.find(data_id, bare, self.at, table)
        # A price of our own beats one that is only inferred from the provider's general statement.
        if entry is not None and (price is None or price.inferred):
            price = entry.price
        return None if price is None else replace(price, provider=provider, model=model)


def near_model(provider: str, model: str) -> str:
    """Return ``; did you mean 'x'?`` with the model of known price whose id is nearest, or nothing."""
    return did_you_mean(bare_model(model), published_prices.ids(_data_id(provider)), 0.85)


def discount(provider: str, model: str) -> Discount | None:
    """Return the discount of the provider's documents on a batch of this model; None: no discount."""
    return published_prices.load().discount(_data_id(provider), bare_model(model))


def _data_id(provider: str) -> str:
    return PROVIDER_IDS.get(provider, provider)
