"""A model's dated price, and what tokens that were used cost at a price."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import msgspec

from layton_batch.errors import ManifestError
from layton_batch.records import Usage


class Rates(msgspec.Struct, frozen=True, array_like=True):
    """USD per million tokens; in a file a list, of which the last two may be left out. None: the provider has no such
    rate of its own, so the tokens cost what input costs.

    ``cache_write`` is the rate of what a cache keeps for minutes. What it keeps for an hour costs twice as much as
    fresh input, by Anthropic's documents.
    Raises ManifestError on what is not a finite ``Decimal`` ≥ 0 (a float is not exact, so it is refused too).
    """

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached_input", "cache_write"):
            value: object = getattr(self, name)
            if value is None and name not in ("input", "output"):
                continue
            if not isinstance(value, Decimal) or not value.is_finite() or value < 0:
                raise ManifestError(
                    f"price: {name} is {value!r}; it must be an exact decimal, 0 or more: US dollars per million tokens"
                )

    @property
    def hour_write(self) -> Decimal:
        """Return the rate of a token that is written to be kept for an hour."""
        return self.input if self.cache_write is None else 2 * self.input

    @property
    def dearest_input(self) -> Decimal:
        """Return the highest rate of an input token: fresh, cached or written to the cache."""
        return max(rate for rate in (self.input, self.cached_input, self.cache_write) if rate is not None)


class RateStep(msgspec.Struct, frozen=True):
    """Rates of a request whose *whole* input exceeds ``above`` tokens; all its tokens are then billed at these."""

    above: int
    batch: Rates
    standard: Rates


@dataclass(frozen=True, slots=True)
class Price:
    """A model's dated price. ``steps`` are in ascending order of ``above``.

    ``inferred``: nobody publishes a batch price of this very model for this date; the provider's general statement was
    applied, as ``source`` says. An upper bound must then reckon with the standard rates.
    """

    provider: str
    model: str
    batch: Rates
    standard: Rates
    source: str
    as_of: date
    steps: tuple[RateStep, ...] = ()
    inferred: bool = False


MANIFEST = "manifest"
"""The source of a price that a manifest states, and the first word of one whose own source the manifest names."""


def manifest_price(provider: str, model: str, batch: Rates, standard: Rates, as_of: date, source: str) -> Price:
    """Make a price that a manifest states."""
    named = source if source == MANIFEST else f"{MANIFEST}: {source}"
    return Price(provider, model, batch, standard, named, as_of)


def is_of_a_manifest(source: str) -> bool:
    """Return whether a price of this source was stated in a manifest, which may have others by now."""
    return source == MANIFEST or source.startswith(f"{MANIFEST}: ")


# ---- what tokens that were used cost -------------------------------------------------------------------------------


PER_MILLION = -6
"""Rates are per million tokens: the sum is shifted by so many decimal places, which loses nothing."""


def charge(usage: Usage, price: Price, *, batched: bool) -> Decimal:
    """Return the exact USD of one request. ``usage`` is that of one reply, since a price may rise with its input.

    Cached input and cache writes are part of ``input_tokens`` and are charged at their own rates if the price has them,
    else at the input rate. Negative counts, which no provider means, are taken as zero.
    """
    cached, written = max(usage.cached_input_tokens, 0), max(usage.cache_write_tokens, 0)
    hour, read = min(max(usage.hour_write_tokens, 0), written), max(usage.input_tokens, cached + written)
    rates = price.batch if batched else price.standard
    for step in price.steps:
        if read > step.above:
            rates = step.batch if batched else step.standard
    total = (
        (read - cached - written) * rates.input
        + cached * (rates.input if rates.cached_input is None else rates.cached_input)
        + (written - hour) * (rates.input if rates.cache_write is None else rates.cache_write)
        + hour * rates.hour_write
        + max(usage.output_tokens, 0) * rates.output
    )
    return total.scaleb(PER_MILLION)
