"""The prices that a run is charged by: the manifest's own before those that are published."""

from __future__ import annotations

from datetime import date

from layton_batch.clock import Clock, utc
from layton_batch.costs.prices import PriceBook
from layton_batch.costs.rates import Price, Rates, manifest_price
from layton_batch.manifest.form import PriceTable
from layton_batch.manifest.manifest import Manifest


def price_book(manifest: Manifest, clock: Clock) -> PriceBook:
    """The prices of the moment, the manifest's own first."""
    today = utc(clock.now()).date()
    return PriceBook([_own_price(entry, today) for entry in manifest.prices], at=utc(clock.now()))


def _own_price(entry: PriceTable, today: date) -> Price:
    standard = Rates(entry.input, entry.output, entry.cached_input)
    batch = Rates(
        input=entry.input if entry.batch_input is None else entry.batch_input,
        output=entry.output if entry.batch_output is None else entry.batch_output,
        cached_input=entry.cached_input if entry.batch_cached_input is None else entry.batch_cached_input,
    )
    as_of = date.fromisoformat(entry.date) if entry.date else today
    return manifest_price(entry.provider, entry.model, batch, as_of, standard, entry.source)
