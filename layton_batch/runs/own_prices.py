"""The prices that a run is charged by: the manifest's own before those that are published."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from layton_batch.clock import utc
from layton_batch.costs.prices import PriceBook, discount
from layton_batch.costs.rates import Price, Rates, manifest_price
from layton_batch.manifest.form import PriceTable
from layton_batch.manifest.manifest import Manifest

CACHE_WRITE = {"anthropic": Decimal("1.25")}
"""Price of input that is written to a provider's prompt cache, over the price of input, where it is dearer: requests to
Anthropic mark long instructions for its cache."""


def price_book(manifest: Manifest, at: float) -> PriceBook:
    """Return the prices of a moment (epoch seconds), the manifest's own first."""
    today = utc(at).date()
    return PriceBook([_own_price(entry, today) for entry in manifest.prices], at=utc(at))


def _own_price(entry: PriceTable, today: date) -> Price:
    """Return the price of an entry. Batch rates that it leaves out follow from the provider's documented discount."""
    dearer = CACHE_WRITE.get(entry.provider)
    standard = Rates(entry.input, entry.output, entry.cached_input, dearer and dearer * entry.input)
    rule = discount(entry.provider, entry.model)
    reduced = standard if rule is None else rule.apply(standard)
    fresh, cached = reduced.input if entry.batch_input is None else entry.batch_input, entry.batch_cached_input
    if cached is None and reduced.cached_input is not None:
        cached = min(reduced.cached_input, fresh)
    output = reduced.output if entry.batch_output is None else entry.batch_output
    batch = Rates(fresh, output, cached, dearer and dearer * fresh)
    as_of = date.fromisoformat(entry.date) if entry.date else today
    return manifest_price(entry.provider, entry.model, batch, standard, as_of, entry.source)
