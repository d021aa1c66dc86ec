"""What tokens that were used cost."""

from __future__ import annotations

from decimal import Decimal

from layton_batch.costs.prices import Price
from layton_batch.records import Usage

PER_MILLION = -6
"""Rates are per million tokens: the sum is shifted by so many decimal places, which loses nothing."""


def charge(usage: Usage, price: Price, *, batched: bool) -> Decimal:
    """Exact USD of one request: ``usage`` must be one reply's, since a price may step up with a request's input.

    Cached input and cache writes are part of ``input_tokens`` and are charged at their own rates where the price has
    them, at the input rate where it has not. Negative counts, which no provider means, are taken as zero.
    """
    cached, written = max(usage.cached_input_tokens, 0), max(usage.cache_write_tokens, 0)
    read = max(usage.input_tokens, cached + written)
    rates = price.rates(read, batched=batched)
    total = (
        (read - cached - written) * rates.input
        + cached * (rates.input if rates.cached_input is None else rates.cached_input)
        + written * (rates.input if rates.cache_write is None else rates.cache_write)
        + max(usage.output_tokens, 0) * rates.output
    )
    return total.scaleb(PER_MILLION)
