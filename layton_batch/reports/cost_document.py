"""The bill on every surface: a line a group, and always the total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

from layton_batch.columns import Table
from layton_batch.costs.report import (
    UNKNOWN,
    WHOLE,
    CostLine,
    CostQuery,
    CostReport,
    bill_notes,
    cached_note,
    cost_table,
    line_json,
    reused_note,
    share_text,
    unknown_cost_note,
)
from layton_batch.costs.stated import comparison_json
from layton_batch.records import JsonValue
from layton_batch.reports.table import Document, as_csv, as_html, as_markdown, say_line, show
from layton_batch.text import plural

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class CostDocument(Document):
    """The bill of ``runs``, by name, for a query. ``caution``: that a sandbox made it up."""

    FORMATS: ClassVar = ("table", "json", "csv", "md", "html")
    report: CostReport
    runs: Sequence[str] = field(default=(), compare=False)
    query: CostQuery = field(default=WHOLE, compare=False)
    caution: str | None = None

    @property
    def frame(self) -> pl.DataFrame:
        """Return a row a group. Amounts are decimals in USD: batched (``cost_usd``), the same tokens unbatched, saved;
        null if no price is known."""
        import polars as pl  # the total of a bill, which `run` prints, needs none

        frame = pl.DataFrame(cost_table(self.report).records(), infer_schema_length=None)
        return frame.with_columns(_amounts(frame[name]) for name in frame.columns if name.endswith("_usd"))

    def show(self) -> None:
        if self.report.lines:
            show(self.table)
        else:
            for note in self.notes:
                say_line(note)

    def as_json(self) -> object:
        return report_json(self.report) | {"notes": list(self.notes)}

    def text(self, form: str) -> str:
        if form == "html":
            from layton_batch.site.cost_page import bill_page  # loads the templates

            return bill_page(self.report, self.runs, _days(self.query), self.sources, self.caution)
        return as_csv(self.table) if form == "csv" else as_markdown(self.table)

    def _repr_html_(self) -> str:
        return as_html(self.table)

    @property
    def table(self) -> Table[CostLine]:
        """Return a line a group, the total last, with the notes."""
        title = "Cost · live: the price of the same tokens without batches"
        return replace(cost_table(self.report, title), notes=self.notes)

    @property
    def notes(self) -> Sequence[str]:
        """Return what a reader has to know of the sums, and where prices are from."""
        return [*filter(None, [self.caution]), *self.sources]

    @property
    def sources(self) -> Sequence[str]:
        """Return what the sums hold and lack, and where prices are from."""
        report, total, has_days = self.report, self.report.total, {"day", "week", "month"}.intersection(self.report.by)
        empty = f"no answer {'ended ' + _days(self.query) if self.query.has_dates else 'is in'}: nothing was paid"
        prices = f"prices: {total.price_source} ({total.price_date})" if total.price_source else f"prices: {UNKNOWN}"
        return [
            *filter(None, (cached_note(total), unknown_cost_note(total), *bill_notes(report))),
            *([prices] if report.lines else [] if report.reused.requests else [empty]),
            *(["days are in UTC"] if has_days or self.query.has_dates else []),
        ]


def _days(query: CostQuery) -> str:
    """Say of which days a bill is; empty for one of all days."""
    if query.since is not None and query.since == query.until:
        return f"on {query.since}"
    parts = (f"{word} {day}" for word, day in (("from", query.since), ("until", query.until)) if day is not None)
    return " ".join(parts)


def _amounts(column: pl.Series) -> pl.Series:
    """Return amounts of exact decimal text as decimals with as many digits as they need; null where not known."""
    import polars as pl

    values = [None if text == UNKNOWN else Decimal(text) for text in column]
    digits = max((-int(value.as_tuple().exponent) for value in values if value is not None), default=0)
    return pl.Series(column.name, values, pl.Decimal(38, max(digits, 2)))


def report_json(report: CostReport) -> dict[str, JsonValue]:
    """``{"by", "rows", "total", "differing", "reused"}``; rows have the keys of ``line_json``, and those of
    ``comparison_json`` for batches of which the provider states another cost."""
    return {
        "by": list(report.by),
        "rows": [line_json(line, report.by) for line in report.lines],
        "total": line_json(report.total, report.by),
        "differing": [comparison_json(comparison) for comparison in report.differing],
        "reused": {"requests": report.reused.requests, "paid_usd": report.reused.batched.exact},
    }


def total_line(report: CostReport) -> str:
    """Return the total of the bill as one line."""
    total, answers = report.total, plural(report.total.requests, "answer")
    if not report.lines:
        return reused_note(report) or "cost: nothing was paid"
    bound = f"; {note}" if (note := unknown_cost_note(total)) else ""
    return f"cost: {total.batched.text} for {answers}, {share_text(total)} of {total.unbatched.text} live{bound}"
