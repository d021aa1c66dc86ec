"""A model's dated price, and what tokens that were used cost at a price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from layton_batch.errors import ManifestError
from layton_batch.records import Usage


@dataclass(frozen=True, slots=True)
class Rates:
    """USD per million tokens. None: the provider has no such rate of its own, so the tokens cost what input costs.

    ``cache_write`` is the rate of what a cache keeps for minutes. What it keeps for an hour costs twice as much as
    fresh input, by Anthropic's documents.
    Raises ManifestError on what is not a finite ``Decimal`` ≥ 0 (a float is not exact, so it is refused too).
    """

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None

    def __post_init__(self) -> None:
        _check_rate("input", self.input)
        _check_rate("output", self.output)
        _check_rate("cached_input", self.cached_input)
        _check_rate("cache_write", self.cache_write)

    @property
    def hour_write(self) -> Decimal:
        """Return the rate of a token that is written to be kept for an hour."""
        return self.input if self.cache_write is None else 2 * self.input

    @property
    def dearest_input(self) -> Decimal:
        """Return the highest rate of an input token: fresh, cached or written to the cache."""
        return max(rate for rate in (self.input, self.cached_input, self.cache_write) if rate is not None)


def _check_rate(name: str, value: object) -> None:
    if value is None and name not in {"input", "output"}:
        return
    if not isinstance(value, Decimal) or not value.is_finite() or value < 0:
        raise ManifestError(
            f"price: {name} is {value!r}; it must be an exact decimal, 0 or more: US dollars per million tokens"
        )


@dataclass(frozen=True, slots=True)
class RateStep:
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


def manifest_price(
    provider: str, model: str, batch: Rates, as_of: date, standard: Rates | None = None, source: str = MANIFEST
) -> Price:
    """Make a price that a manifest states. Without standard rates the batch rates stand for both: nothing is saved."""
    named = source if source == MANIFEST else f"{MANIFEST}: {source}"
    return Price(provider, model, batch, standard or batch, named, as_of)


def is_of_a_manifest(source: str) -> bool:
    """Return whether a price of this source was stated in a manifest, which may have others by now."""
    return source == MANIFEST or source.startswith(f"{MANIFEST}: ")


# ---- what tokens that were used cost -------------------------------------------------------------------------------


PER_MILLION = -6
"""Rates are per million tokens: the sum is shifted by so many decimal places, which loses nothing."""


def charge(usage: Usage, price: Price, *, batched: bool) -> Decimal:
    """Return the exact USD of one request. ``usage`` is that of one reply, since a price may rise with its input."""
    return usd(charger(price, batched=batched)(usage))


Units = tuple[int, int]
"""A sum of USD as a whole number, and how many of its digits are decimals: what many sums are quickly made of."""


def usd(units: Units) -> Decimal:
    """Return a sum in USD, with all of its decimals."""
    whole, decimals = units
    return Decimal(whole).scaleb(-decimals)


def charger(price: Price, *, batched: bool) -> Callable[[Usage], Units]:
    """Return :func:`charge` at one price, for many replies.

    Cached input and cache writes are part of ``input_tokens`` and are charged at their own rates if the price has them,
    else at the input rate. Negative counts, which no provider means, are taken as zero.
    """
    first = _scaled(price.batch if batched else price.standard)
    steps = [(step.above, _scaled(step.batch if batched else step.standard)) for step in price.steps]

    def charged(usage: Usage) -> Units:
        cached, written = max(usage.cached_input_tokens, 0), max(usage.cache_write_tokens, 0)
        hour, read = min(max(usage.hour_write_tokens, 0), written), max(usage.input_tokens, cached + written)
        rates = first
        for above, scaled in steps:
            if read > above:
                rates = scaled
        fresh = (read - cached - written) * rates[0]
        units = fresh + cached * rates[1] + (written - hour) * rates[2] + hour * rates[3]
        return units + max(usage.output_tokens, 0) * rates[4], rates[5]

    return charged


def _scaled(rates: Rates) -> tuple[int, ...]:
    """Return the rates of input, cached input, both cache writes and output as whole numbers, and the decimals of
    USD."""
    cached = rates.input if rates.cached_input is None else rates.cached_input
    written = rates.input if rates.cache_write is None else rates.cache_write
    five = (rates.input, cached, written, rates.hour_write, rates.output)
    decimals = max(*(-int(rate.as_tuple().exponent) for rate in five), PER_MILLION)
    return *(int(rate.scaleb(decimals)) for rate in five), decimals - PER_MILLION
