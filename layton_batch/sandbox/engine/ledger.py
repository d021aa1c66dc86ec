"""Charges of the provider side: every executed row at the sandbox's own prices, in exact decimals."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from importlib.resources import files

from layton_batch.sandbox.answerers.profiles import bundled_profiles
from layton_batch.sandbox.answerers.questions import SandboxUsage
from layton_batch.sandbox.engine.store import BilledRow

_MILLION = Decimal(1_000_000)
_WRITE = Decimal("1.25")
"""Price of a token that is written to a cache for five minutes, over the price of input. Anthropic alone bills it."""
_SNAPSHOT = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{6,8}|latest)\Z")


@dataclass(frozen=True, slots=True)
class Ledger:
    """`total_usd` is exact and leaves out the `unpriced_rows`."""

    rows_billed: int
    total_usd: Decimal
    unpriced_rows: int
    rows: tuple[BilledRow, ...]


@cache
def _rates() -> dict[tuple[str, str], list[Decimal]]:
    """USD per million tokens in a batch by provider and model: of input, of output, and of cached input if it has a
    price of its own."""
    published = tomllib.loads((files("layton_batch.sandbox") / "prices.toml").read_text(encoding="utf-8"))
    return {
        (provider, model): [Decimal(number) for number in entry["batch"]]
        for tables in (bundled_profiles().prices, published)
        for provider, table in tables.items()
        for model, entry in table.items()
    }


def charge(provider: str, model: str, usage: SandboxUsage) -> Decimal | None:
    """Return the price of the tokens in a batch in USD; None for a model without a price."""
    rates = _rates().get((provider, model)) or _rates().get((provider, _SNAPSHOT.sub("", model)))
    if rates is None:
        return None
    read, cached, written = usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens
    fresh = max(read - cached - written, 0) + written * _WRITE
    return (fresh * rates[0] + cached * rates[2 if len(rates) > 2 else 0] + usage.output_tokens * rates[1]) / _MILLION


def summarise(billed: Iterable[BilledRow]) -> Ledger:
    rows = tuple(billed)
    times = Counter((row.provider, row.model, row.custom_id) for row in rows)
    return Ledger(
        rows_billed=len(rows),
        total_usd=sum((row.usd for row in rows if row.usd is not None), Decimal(0)),
        unpriced_rows=sum(row.usd is None for row in rows),
        rows=tuple(replace(row, times_billed=times[row.provider, row.model, row.custom_id]) for row in rows),
    )
