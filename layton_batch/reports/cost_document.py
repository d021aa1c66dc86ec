"""The bill on every surface: a line a group, and always the total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

from layton_batch.costs.notes import bill_notes, cached_note, reused_note, unknown_cost_note
from layton_batch.costs.report import UNKNOWN, WHOLE, CostQuery, CostReport, cost_table, line_json, share_text
from layton_batch.costs.stated import comparison_json
from layton_batch.records import JsonValue
from layton_batch.reports.document import Document
from layton_batch.reports.table import as_csv, as_html, as_markdown, say_line, show
from layton_batch.text import plural

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class CostDocument(Document):
    """The bill of ``runs``, by name, for a query."""

    FORMATS: ClassVar = ("table", "json", "csv", "md", "html")
    report: CostReport
    runs: Sequence[str] = field(default=(), compare=False)
    query: CostQuery = field(default=WHOLE, compare=False)

    @property
    def frame(self) -> pl.DataFrame:
        """Return a row a group. Amounts are decimals in USD: batched (``cost_usd``), the same tokens unbatched, saved;
        null if no price is known."""
        import polars as pl  # the total of a bill, which `run` prints, needs none

        frame = pl.DataFrame(cost_table(self.report).records(), infer_schema_length=None)
        return frame.with_columns(_amounts(frame[name]) for name in frame.columns if name.endswith("_usd"))

    def show(self) -> None:
        print_costs(self.report)

    def as_json(self) -> object:
        return report_json(self.report)

    def text(self, form: str) -> str:
        if form == "html":
            from layton_batch.site.cost_page import bill_page  # loads the templates

            return bill_page(self.report, self.runs, _days(self.query), _notes(self.report))
        return as_csv(cost_table(self.report)) if form == "csv" else as_markdown(cost_table(self.report))

    def _repr_html_(self) -> str:
        return as_html(cost_table(self.report, TITLE))


TITLE = "Cost · live: the price of the same tokens without batches"


def _days(query: CostQuery) -> str:
    """Say of which days a bill is; empty for one of all days."""
    if query.since is not None and query.since == query.until:
        return f"on {query.since}"
    parts = (f"{word} {day}" for word, day in (("from", query.since), ("until", query.until)) if day is not None)
    return " ".join(parts)


def _notes(report: CostReport) -> list[str]:
    """Return what a reader of a bill has to know of its sums, and where its prices are from."""
    sources = sorted({f"{line.price_source} ({line.price_date})" for line in report.lines if line.price_source})
    prices = f"prices: {'; '.join(sources) or UNKNOWN}" if report.lines else None
    notes = (cached_note(report.total), unknown_cost_note(report.total), *bill_notes(report), prices)
    return [*filter(None, notes)]


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
        "reused": {"requests": report.reused.requests, "paid_usd": report.reused.paid.exact},
    }


def print_costs(report: CostReport) -> None:
    """A line a group, the total last, notes on what the sums lack, and where prices are from."""
    if not report.lines:
        say_line(reused_note(report) or "no answer is in: nothing was paid")
        return
    show(cost_table(report, TITLE))
    for note in _notes(report):
        say_line(note)


def total_line(report: CostReport) -> str:
    """Return the total of the bill as one line."""
    total, answers = report.total, plural(report.total.requests, "answer")
    if not report.lines:
        return reused_note(report) or "cost: nothing was paid"
    bound = f"; {note}" if (note := unknown_cost_note(total)) else ""
    return f"cost: {total.batched.text} for {answers}, {share_text(total)} of {total.unbatched.text} live{bound}"
