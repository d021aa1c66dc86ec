"""Charges of the provider side: every executed row at the sandbox's own prices, in exact decimals."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from typing import cast

from layton_batch.sandbox.engine.store import Billed, SandboxUsage

_MILLION = Decimal(1_000_000)
_WRITE = Decimal("1.25")
"""Price of a token that is written to a cache for five minutes, over the price of input. Anthropic alone bills it."""
_SNAPSHOT = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{6,8}|latest)")


@dataclass(frozen=True, slots=True)
class Rate:
    """USD per million tokens."""

    input: Decimal
    output: Decimal
    cached: Decimal

    def cost(self, usage: SandboxUsage) -> Decimal:
        cached, written = usage.cached_input_tokens, usage.cache_write_tokens
        fresh = max(usage.input_tokens - cached - written, 0)
        read = fresh * self.input + cached * self.cached + written * _WRITE * self.input
        parts = read + usage.output_tokens * self.output
        return parts / _MILLION


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One model's sum. `usd` is None when the model has no price; `rows` counts its billed rows either way."""

    provider: str
    model: str
    rows: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    usd: Decimal | None
    unbatched_usd: Decimal | None


@dataclass(frozen=True, slots=True)
class BilledRow:
    """`times_billed` counts the bills of this custom_id for this model over all batches: 1 unless it was bought
    again."""

    provider: str
    batch_id: str
    custom_id: str
    model: str
    usd: Decimal | None
    times_billed: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """`total_usd` is exact and leaves out the `unpriced_rows`."""

    rows_billed: int
    total_usd: Decimal
    unpriced_rows: int
    by_model: tuple[LedgerLine, ...]
    rows: tuple[BilledRow, ...]


class SandboxPrices:
    """Prices of `prices.toml`, and of `[prices]` tables in the same form in `profiles.toml` where that file has any."""

    def __init__(self, tables: Mapping[str, object]) -> None:
        self._rates: dict[tuple[str, str], tuple[Rate, Rate]] = {}
        for provider, table in tables.items():
            for model, entry in cast("Mapping[str, Mapping[str, list[str]]]", table).items():
                self._rates[provider, model] = (_rate(entry["batch"]), _rate(entry["standard"]))

    @classmethod
    def bundled(cls) -> SandboxPrices:
        folder = files("layton_batch.sandbox")
        tables: dict[str, dict[str, object]] = tomllib.loads((folder / "prices.toml").read_text(encoding="utf-8"))
        profiles = folder / "profiles.toml"
        if profiles.is_file():
            extra = tomllib.loads(profiles.read_text(encoding="utf-8")).get("prices", {})
            for provider, table in extra.items():
                tables[provider] = {**table, **tables.get(provider, {})}
        return cls(tables)

    def charge(self, provider: str, model: str, usage: SandboxUsage) -> tuple[Decimal, Decimal] | None:
        """(batch price, price outside a batch) in USD; None for a model without a price."""
        rates = self._find(provider, model)
        return None if rates is None else (rates[0].cost(usage), rates[1].cost(usage))

    def _find(self, provider: str, model: str) -> tuple[Rate, Rate] | None:
        exact = self._rates.get((provider, model))
        if exact is not None:
            return exact
        dated = _SNAPSHOT.search(model)
        if dated is None or dated.end() != len(model):
            return None
        return self._rates.get((provider, model[: dated.start()]))


def _rate(numbers: list[str]) -> Rate:
    values = [Decimal(str(number)) for number in numbers]
    return Rate(values[0], values[1], values[2] if len(values) > 2 else values[0])


def summarise(billed: Iterable[Billed]) -> Ledger:
    rows = list(billed)
    times = Counter((row.provider, row.model, row.custom_id) for row in rows)
    groups: dict[tuple[str, str], list[Billed]] = {}
    for row in rows:
        groups.setdefault((row.provider, row.model), []).append(row)
    lines = tuple(_line(provider, model, group) for (provider, model), group in sorted(groups.items()))
    return Ledger(
        rows_billed=len(rows),
        total_usd=sum((Decimal(row.usd) for row in rows if row.usd is not None), Decimal(0)),
        unpriced_rows=sum(row.usd is None for row in rows),
        by_model=lines,
        rows=tuple(
            BilledRow(
                row.provider,
                row.batch_id,
                row.custom_id,
                row.model,
                None if row.usd is None else Decimal(row.usd),
                times[row.provider, row.model, row.custom_id],
            )
            for row in rows
        ),
    )


def _line(provider: str, model: str, group: list[Billed]) -> LedgerLine:
    usage = SandboxUsage()
    for row in group:
        usage = usage.plus(row.usage)
    return LedgerLine(
        provider,
        model,
        len(group),
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        _sum(row.usd for row in group),
        _sum(row.unbatched_usd for row in group),
    )


def _sum(amounts: Iterable[str | None]) -> Decimal | None:
    amounts_stated = [Decimal(amount) for amount in amounts if amount is not None]
    return sum(amounts_stated, Decimal(0)) if amounts_stated else None
