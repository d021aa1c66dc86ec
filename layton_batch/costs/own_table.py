"""Our own dated prices: ``prices.toml``, read once, with the rules for what a batch discounts."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import TypeVar, cast

from layton_batch.costs.rates import Price, Rates, RateStep

_Toml = Mapping[str, object]
K = TypeVar("K")
T = TypeVar("T")
NAME = "layton-batch table"


@dataclass(frozen=True, slots=True)
class Period:
    """From the first day on, up to but not including the last; None: open."""

    start: date | None
    end: date | None

    def holds(self, on: date) -> bool:
        return (self.start is None or on >= self.start) and (self.end is None or on < self.end)


@dataclass(frozen=True, slots=True)
class Discount:
    """Discount on batches by a provider's documents: ``share`` of the standard input and output rates is paid.

    ``cached_share`` is the same for cached input: 1 where the discount does not stack with caching. A cached token
    never costs more than a fresh one. No ``models``: every model of the provider.
    """

    share: Decimal
    cached_share: Decimal
    models: frozenset[str]
    source: str

    def apply(self, standard: Rates) -> Rates:
        fresh = standard.input * self.share
        cached, written = standard.cached_input, standard.cache_write
        return Rates(
            input=fresh,
            output=standard.output * self.share,
            cached_input=None if cached is None else min(cached * self.cached_share, fresh),
            cache_write=None if written is None else written * self.share,
        )


@dataclass(frozen=True, slots=True)
class _PriceEntry:
    price: Price
    period: Period
    supersedes: bool


@dataclass(frozen=True, slots=True)
class _Named:
    """Text on a model's name for a period: an alias' target, or the reason for refusing the name."""

    text: str
    period: Period


@dataclass(frozen=True, slots=True)
class OwnTable:
    """Our own table of prices. Every key is (the price data's provider id, the model id in lower case)."""

    entries: Mapping[tuple[str, str], Sequence[_PriceEntry]]
    aliases: Mapping[tuple[str, str], Sequence[_Named]]
    refusals: Mapping[tuple[str, str], Sequence[_Named]]
    discounts: Mapping[str, Sequence[Discount]]

    def entry(self, provider: str, model: str, on: date) -> Price | None:
        """Return our price on that day, whether or not it supersedes other sources."""
        entries = (e for e in self.entries.get((provider, model.lower()), ()) if e.period.holds(on))
        return next((e.price for e in entries), None)

    def superseding(self, provider: str, model: str, on: date) -> Price | None:
        """Return our price on that day if it supersedes other sources."""
        entries = (e for e in self.entries.get((provider, model.lower()), ()) if e.period.holds(on) and e.supersedes)
        return next((e.price for e in entries), None)

    def alias(self, provider: str, model: str, on: date) -> str | None:
        """Return the id under which a source lists this model, if it differs."""
        return _text(self.aliases.get((provider, model.lower()), ()), on)

    def refusal(self, provider: str, model: str, on: date) -> str | None:
        """Return the reason why this name must not be priced, although a source has a price."""
        return _text(self.refusals.get((provider, model.lower()), ()), on)

    def discount(self, provider: str, model: str) -> Discount | None:
        """Return the discount of the provider's documents on a batch of this model; None: no discount."""
        rules = self.discounts.get(provider, ())
        return next((rule for rule in rules if not rule.models or model.lower() in rule.models), None)


def _text(named: Sequence[_Named], on: date) -> str | None:
    return next((n.text for n in named if n.period.holds(on)), None)


@cache
def load() -> OwnTable:
    """Load the bundled table. Numbers are read as ``Decimal`` straight from the text."""
    text = (files("layton_batch.costs") / "prices.toml").read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> OwnTable:
    """Parse a table from TOML text of ``prices.toml``'s form."""
    data = tomllib.loads(text, parse_float=Decimal)
    return OwnTable(
        entries=_grouped(data, "price", _key, _entry),
        aliases=_grouped(data, "alias", _key, lambda row: _Named(str(row["listed_as"]), _period(row))),
        refusals=_grouped(data, "refused", _key, lambda row: _Named(str(row["reason"]), _period(row))),
        discounts=_grouped(data, "discount", lambda row: str(row["provider"]), _discount),
    )


def _grouped(
    data: _Toml, kind: str, key: Callable[[_Toml], K], parse_row: Callable[[_Toml], T]
) -> Mapping[K, Sequence[T]]:
    groups: dict[K, list[T]] = {}
    for row in cast("Sequence[_Toml]", data.get(kind, ())):
        groups.setdefault(key(row), []).append(parse_row(row))
    return groups


def _key(row: _Toml) -> tuple[str, str]:
    return str(row["provider"]), str(row["model"]).lower()


def _period(row: _Toml) -> Period:
    return Period(cast("date | None", row.get("start")), cast("date | None", row.get("end")))


def _entry(row: _Toml) -> _PriceEntry:
    batch, standard = _rates(row["batch"]), _rates(row["standard"])
    price = Price(
        provider=str(row["provider"]),
        model=str(row["model"]),
        batch=batch,
        standard=standard,
        source=f"{NAME}: {row['source']}",
        as_of=cast("date", row["as_of"]),
        steps=tuple(
            RateStep(cast("int", step["above"]), _rates(step["batch"]), _rates(step["standard"]))
            for step in cast("Sequence[_Toml]", row.get("steps", ()))
        ),
    )
    return _PriceEntry(price, _period(row), bool(row.get("supersedes", False)))


def _rates(value: object) -> Rates:
    """``[input, output]``, ``[…, cached input]``, ``[…, cache write]``."""
    numbers = [Decimal(str(number)) for number in cast("Sequence[Decimal | int]", value)]
    return Rates(*numbers)


def _discount(row: _Toml) -> Discount:
    return Discount(
        share=Decimal(str(row["share"])),
        cached_share=Decimal(str(row["cached_share"])),
        models=frozenset(name.lower() for name in cast("Sequence[str]", row.get("models", ()))),
        source=str(row["source"]),
    )
