"""The cost table as a page shows it. What has no known price is *unknown*, never 0; a sum that lacks it says
*at least*."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

import polars as pl
from markupsafe import Markup

from layton_batch.costs.report import TotalCost
from layton_batch.site.html_table import HtmlBody, HtmlCell, HtmlColumn, HtmlRow, table_html
from layton_batch.site.pages import short_line
from layton_batch.text import money

COST_COLUMNS = (
    "provider", "model", "stage", "requests", "input_tokens", "cached_input_tokens", "output_tokens",
    "reasoning_tokens", "cost_usd", "unbatched_usd", "saved_usd", "price_source", "price_date",
)  # fmt: skip
USAGE_COLUMNS = ("provider", "model", "role", "cost_usd", "unbatched_usd")
_TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")
_AMOUNTS = ("cost_usd", "unbatched_usd", "saved_usd")
STAGES = {"predict": "answers", "judge": "jury", "rejudge": "jury on labelled answers"}


@dataclass(frozen=True, slots=True)
class BillLine:
    """``tokens``: input, of these cached, output, of these reasoning. ``amounts``: batched, unbatched, saved."""

    provider: str
    model: str
    stage: str
    requests: int
    tokens: tuple[int, ...]
    amounts: tuple[TotalCost, ...]


@dataclass(frozen=True, slots=True)
class ShownBill:
    """``unknown_cost``: upper bound for requests whose cost is unknown, in addition to the sums; empty without any."""

    total: BillLine
    by_provider: Markup
    by_model: Markup
    prices: tuple[str, ...]
    unknown_cost: str = ""


CostRow = Mapping[str, object]
Gaps = Mapping[tuple[str, str, str], int]


def show_bill(rows: Sequence[CostRow], gaps: Gaps, unknown_cost: Decimal = Decimal(0)) -> ShownBill | None:
    """The cost table's rows; ``gaps`` counts the requests without a known price (see ``unpriced``), ``unknown_cost`` is
    the upper bound for requests whose cost is unknown."""
    if not rows:
        return None
    lines = [_line(row, gaps) for row in rows]
    total = _sum("Total", "", lines, whole=not unknown_cost)
    stages = _sums(lines, "stage")
    parts = [replace(line, provider=f"of these: {line.stage}") for line in stages] if len(stages) > 1 else []
    return ShownBill(
        total=total,
        by_provider=table_html(
            "Cost by provider",
            [HtmlColumn("Provider", is_head=True), _REQUESTS, *_USD],
            [HtmlBody([_provider_row(line) for line in _sums(lines, "provider")])],
            [_provider_row(total), *(replace(_provider_row(part), data={"part": ""}) for part in parts)],
        ),
        by_model=table_html(
            "Cost by model and stage",
            [HtmlColumn("Provider", is_text=True, label=""), HtmlColumn("Model", is_head=True),
             HtmlColumn("Stage", is_text=True, label=""), _REQUESTS, *_COUNTS, *_USD],
            [HtmlBody([_model_row(line) for line in lines])],
            [_model_row(replace(total, provider="", model="Total"))],
        ),
        prices=_prices(rows),
        unknown_cost=money(unknown_cost) if unknown_cost else "",
    )  # fmt: skip


_REQUESTS = HtmlColumn("Requests", is_falling=True, label="requests")
_COUNTS = [HtmlColumn(name, is_falling=True, label=name.lower()) for name in ("Input", "Cached", "Output", "Reasoning")]
_USD = [HtmlColumn(name, is_falling=True, label=name.lower()) for name in ("Batched", "Unbatched", "Saved")]


def _provider_row(line: BillLine) -> HtmlRow:
    return HtmlRow([line.provider, f"{line.requests:,}", *map(_amount_cell, line.amounts)])


def _model_row(line: BillLine) -> HtmlRow:
    counts = (f"{count:,}" for count in line.tokens)
    names = (line.provider, line.model, line.stage)
    return HtmlRow([*names, f"{line.requests:,}", *counts, *map(_amount_cell, line.amounts)])


def _amount_cell(amount: TotalCost) -> HtmlCell:
    unknown = amount.usd is None
    return HtmlCell(amount.text, sort="" if unknown else amount.exact, tone="unknown" if unknown else "")


def unpriced(usage: pl.DataFrame) -> dict[tuple[str, str, str], int]:
    """Requests without a known price by provider, model and stage. The cost table sums what is known and cannot tell
    a whole sum from one that lacks some requests; the usage table can."""
    missing = usage.filter(pl.col("cost_usd").is_null() | pl.col("unbatched_usd").is_null())
    counted = missing.group_by("provider", "model", "role").len()
    return {(provider, model, role): count for provider, model, role, count in counted.iter_rows()}


def _line(row: CostRow, gaps: Gaps) -> BillLine:
    key = (str(row["provider"]), str(row["model"]), str(row["stage"]))
    complete = not gaps.get(key)
    return BillLine(
        provider=short_line(row["provider"]),
        model=short_line(row["model"]),
        stage=short_line(STAGES.get(key[2], key[2])),
        requests=_count(row["requests"]),
        tokens=tuple(_count(row[name]) for name in _TOKENS),
        amounts=tuple(_amount(row[name], complete) for name in _AMOUNTS),
    )


def _amount(value: object, complete: bool) -> TotalCost:
    try:
        usd = Decimal(str(value))
    except InvalidOperation:
        return TotalCost(None, complete=False)
    return TotalCost(usd, complete) if usd.is_finite() else TotalCost(None, complete=False)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _sums(lines: Iterable[BillLine], field: str) -> tuple[BillLine, ...]:
    groups: dict[str, list[BillLine]] = {}
    for line in lines:
        groups.setdefault(getattr(line, field), []).append(line)
    return tuple(
        _sum(name if field == "provider" else "", name if field == "stage" else "", groups[name])
        for name in sorted(groups)
    )


def _sum(provider: str, stage: str, lines: Sequence[BillLine], *, whole: bool = True) -> BillLine:
    return BillLine(
        provider=provider,
        model="",
        stage=stage,
        requests=sum(line.requests for line in lines),
        tokens=tuple(sum(counts) for counts in zip(*(line.tokens for line in lines), strict=True)),
        amounts=tuple(_added(amounts, whole=whole) for amounts in zip(*(line.amounts for line in lines), strict=True)),
    )


def _added(amounts: Sequence[TotalCost], *, whole: bool) -> TotalCost:
    known_usd = [amount.usd for amount in amounts if amount.usd is not None]
    return TotalCost(
        sum(known_usd, Decimal(0)) if known_usd else None, whole and all(amount.complete for amount in amounts)
    )


def _prices(rows: Sequence[CostRow]) -> tuple[str, ...]:
    named = {(str(row["price_source"]), str(row["price_date"] or "no date")) for row in rows if row["price_source"]}
    return tuple(short_line(f"{source} ({date})") for source, date in sorted(named))
