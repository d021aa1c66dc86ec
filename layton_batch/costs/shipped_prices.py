"""Our own dated prices: ``prices.toml``, read once, with the rules for what a batch discounts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import TypeVar

import msgspec

from layton_batch.costs.rates import Price, Rates, RateStep

NAME = "layton-batch table"


class Discount(msgspec.Struct, frozen=True):
    """Discount on batches by a provider's documents: ``share`` of the standard input and output rates is paid.

    ``cached_share`` is the same for cached input: 1 where the discount does not stack with caching. A cached token
    never costs more than a fresh one. No ``models``: every model of the provider.
    """

    provider: str
    share: Decimal
    cached_share: Decimal
    source: str
    models: frozenset[str] = frozenset()

    def includes(self, model: str) -> bool:
        """Return whether the discount is for this model, in any case of letters."""
        return not self.models or model.lower() in {name.lower() for name in self.models}

    def apply(self, standard: Rates) -> Rates:
        """Return the batch rates."""
        fresh = standard.input * self.share
        cached, written = standard.cached_input, standard.cache_write
        return Rates(
            input=fresh,
            output=standard.output * self.share,
            cached_input=None if cached is None else min(cached * self.cached_share, fresh),
            cache_write=None if written is None else written * self.share,
        )


class _Dated(msgspec.Struct, frozen=True, kw_only=True):
    """A row about a model, from the first day on, up to but not including the last; None: open."""

    provider: str
    model: str
    start: date | None = None
    end: date | None = None

    def holds(self, provider: str, model: str, on: date) -> bool:
        """Return whether the row is of this model, in any case of letters, and of this day."""
        is_of_model = self.provider == provider and self.model.lower() == model.lower()
        return is_of_model and (self.start is None or on >= self.start) and (self.end is None or on < self.end)


class _Step(msgspec.Struct, frozen=True):
    above: int
    batch: list[Decimal]
    standard: list[Decimal]


class _Entry(_Dated, frozen=True, kw_only=True):
    """Rates are ``[input, output]``, ``[…, cached input]``, ``[…, cache write]``."""

    batch: list[Decimal]
    standard: list[Decimal]
    source: str
    as_of: date
    supersedes: bool = False
    steps: list[_Step] = []

    @property
    def price(self) -> Price:
        """Return the row as a price."""
        return Price(
            provider=self.provider,
            model=self.model,
            batch=Rates(*self.batch),
            standard=Rates(*self.standard),
            source=f"{NAME}: {self.source}",
            as_of=self.as_of,
            steps=tuple(RateStep(step.above, Rates(*step.batch), Rates(*step.standard)) for step in self.steps),
        )


class _Alias(_Dated, frozen=True, kw_only=True):
    listed_as: str


class _Refusal(_Dated, frozen=True, kw_only=True):
    reason: str


_Row = TypeVar("_Row", bound=_Dated)


class DatedPrices(msgspec.Struct, frozen=True):
    """Our own table of prices. ``provider`` is the price data's id of the provider."""

    price: list[_Entry] = []
    alias_rows: list[_Alias] = msgspec.field(name="alias", default_factory=list)
    refused: list[_Refusal] = []
    discount_rows: list[Discount] = msgspec.field(name="discount", default_factory=list)

    def entry(self, provider: str, model: str, on: date) -> Price | None:
        """Return our price on that day, whether or not it supersedes other sources."""
        row = _first(self.price, provider, model, on)
        return None if row is None else row.price

    def superseding(self, provider: str, model: str, on: date) -> Price | None:
        """Return our price on that day if it supersedes other sources."""
        row = _first((row for row in self.price if row.supersedes), provider, model, on)
        return None if row is None else row.price

    def alias(self, provider: str, model: str, on: date) -> str | None:
        """Return the id under which a source lists this model, if it differs."""
        row = _first(self.alias_rows, provider, model, on)
        return None if row is None else row.listed_as

    def refusal(self, provider: str, model: str, on: date) -> str | None:
        """Return the reason why this name must not be priced, although a source has a price."""
        row = _first(self.refused, provider, model, on)
        return None if row is None else row.reason

    def discount(self, provider: str, model: str) -> Discount | None:
        """Return the discount of the provider's documents on a batch of this model; None: no discount."""
        rules = (rule for rule in self.discount_rows if rule.provider == provider)
        return next((rule for rule in rules if rule.includes(model)), None)


def _first(rows: Iterable[_Row], provider: str, model: str, on: date) -> _Row | None:
    return next((row for row in rows if row.holds(provider, model, on)), None)


@cache
def load() -> DatedPrices:
    """Load the bundled table. Numbers are read as ``Decimal`` straight from the text."""
    return parse((files("layton_batch.costs") / "prices.toml").read_text(encoding="utf-8"))


def parse(text: str) -> DatedPrices:
    """Parse a table from TOML text of ``prices.toml``'s form."""
    data: Mapping[str, object] = tomllib.loads(text, parse_float=Decimal)
    return msgspec.convert(data, DatedPrices, builtin_types=(date,))
