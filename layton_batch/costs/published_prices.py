"""Published prices: our own dated table, and genai-prices' batch variants, guarded against what it does silently.

genai-prices answers with the standard price when no batch variant applies, and matches names loosely. So a match
counts only for the model that was asked for, a batch price only if a variant is active on the day, and anything else
says in ``source`` what was done instead. It is imported only when a price is looked up.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, TypeVar

import msgspec

from layton_batch.costs.rates import Price, Rates, RateStep

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

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


class _Entry(_Dated, frozen=True, kw_only=True):
    batch: Rates
    standard: Rates
    source: str
    as_of: date
    supersedes: bool = False
    steps: tuple[RateStep, ...] = ()

    @property
    def price(self) -> Price:
        """Return the row as a price."""
        source = f"{NAME}: {self.source}"
        return Price(self.provider, self.model, self.batch, self.standard, source, self.as_of, self.steps)


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

    def entry(self, provider: str, model: str, on: date) -> _Entry | None:
        """Return our price on that day, whether or not it supersedes other sources."""
        return _first(self.price, provider, model, on)

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


BATCH = {"processing": "batch"}
BATCH_ENTRY = ":batch"
_DAY = r"(?:0[1-9]|[12]\d|3[01])"
_MONTH = r"(?:0[1-9]|1[0-2])"
_SNAPSHOT = re.compile(
    rf"""(?: [-@]20\d\d-?{_MONTH}-?{_DAY}   # -2025-11-13, -20251101, @20250514
         | -{_MONTH}-{_DAY} | -{_MONTH}-20\d\d  # -05-20, -11-2025
         | -\d{{3,4}}                       # -001, -2411
         | -latest | -preview | -exp
    )+""",
    re.VERBOSE,
)
_FIELDS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")


@cache
def name() -> str:
    """Return the source's name with its version."""
    return f"genai-prices {version('genai-prices')}"


def ids(provider: str) -> list[str]:
    """Return the ids of the models of a provider (its id in the data)."""
    from genai_prices.data_snapshot import get_snapshot

    return [model.id for listed in get_snapshot().providers if listed.id == provider for model in listed.models]


def find(provider: str, model: str, at: datetime, table: DatedPrices) -> Price | None:
    """Return the price of a model of a provider (its id in the data); None: the data has no such text price.

    ``table`` says what the provider's documents promise batches where the data is silent.
    """
    alias = _first(table.alias_rows, provider, model, at.date())
    info = _model(provider, model, None if alias is None else alias.listed_as)
    if info is None or (standard := _text_price(info.get_prices(at))) is None:
        return None
    batch, rule = _batch_price(info, provider, at), table.discount(provider, info.id)
    source, inferred = name(), False
    if batch is None and rule is None:
        source += ", standard price: no batch discount is documented"
    elif batch is None and rule is not None:
        source += f", standard price{'' if rule.share == 1 else f' × {rule.share}'}: {rule.source}"
        inferred = rule.share != 1 and not rule.models
    steps = []
    for above in sorted({0, *_thresholds(standard), *_thresholds(batch or standard)}):
        rates = _rates(standard, above)
        reduced = rates if rule is None else rule.apply(rates)
        steps.append(RateStep(above, reduced if batch is None else _rates(batch, above), rates))
    return Price(provider, model, steps[0].batch, steps[0].standard, source, at.date(), tuple(steps[1:]), inferred)


def _model(provider: str, model: str, listed_as: str | None) -> ModelInfo | None:
    from genai_prices.data_snapshot import get_snapshot

    for name in (model, listed_as):
        if name is None:
            continue
        try:
            listed_provider, listed_model = get_snapshot().find_provider_model(name, None, provider, None)
        except LookupError:
            continue
        # Google falls back on Anthropic's list, whose batch prices the data itself then does not apply.
        if listed_provider.id != provider or not any(listed_model is own for own in listed_provider.models):
            continue
        if listed_model.id == listed_as if listed_as else is_same_model(name, listed_model.id):
            return listed_model
    return None


def is_same_model(requested: str, listed: str) -> bool:
    """Return whether the listed id is the requested model, or the model of a requested dated snapshot.

    ``gpt-5.1-mini`` is not ``gpt-5.1-codex-mini``, and ``gpt-5.1-2025-11-13`` is ``gpt-5.1``. Listed ids that end
    in ``-latest`` or ``-0`` (``claude-sonnet-4-0``) stand for their dated releases.
    """
    requested, listed = requested.lower(), listed.lower()
    for stem in {listed, listed.removesuffix("-latest"), listed.removesuffix("-0")}:
        if requested == listed or (requested.startswith(stem) and _SNAPSHOT.fullmatch(requested[len(stem) :])):
            return True
    return False


def _batch_price(info: ModelInfo, provider: str, at: datetime) -> ModelPrice | None:
    """Return the price that the data lists for batches: of an active variant, or of the entry that OpenRouter's
    catalogue, and so the data, has for a model's batches."""
    for variant in info.price_variants or ():
        if variant.when == BATCH and (variant.constraint is None or variant.constraint.active(at)):
            return _text_price(info.get_prices(at, BATCH))
    entry = info if info.id.endswith(BATCH_ENTRY) else _model(provider, info.id + BATCH_ENTRY, None)
    return None if entry is None or not entry.id.endswith(BATCH_ENTRY) else _text_price(entry.get_prices(at))


def _text_price(price: ModelPrice) -> ModelPrice | None:
    """None without both an input and an output price: embeddings, audio, and models listed without any price."""
    return None if price.input_mtok is None or price.output_mtok is None else price


def _thresholds(price: ModelPrice) -> set[int]:
    return {tier.start for field in _FIELDS for tier in getattr(getattr(price, field), "tiers", ())}


def _rates(price: ModelPrice, above: int) -> Rates:
    """Return the rates of a request that exceeds ``above`` tokens of input by the least."""
    fresh, out, cached, written = (_amount(getattr(price, field), above) for field in _FIELDS)
    return Rates(fresh or Decimal(0), out or Decimal(0), cached, written)


def _amount(value: object, above: int) -> Decimal | None:
    if value is None or isinstance(value, Decimal):
        return value
    amount: Decimal = getattr(value, "base")  # noqa: B009 - TieredPrices, which is not imported at run time
    for tier in getattr(value, "tiers", ()):
        if above >= tier.start:
            amount = tier.price
    return amount
