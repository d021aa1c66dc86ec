"""The bill on every surface: a line a group, and always the total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

from layton_batch.costs.notes import cached_note, differing_note, reused_note, unknown_cost_note
from layton_batch.costs.report import UNKNOWN, CostLine, CostReport, line_json
from layton_batch.costs.stated import comparison_json
from layton_batch.records import JsonValue
from layton_batch.reports.document import Document
from layton_batch.reports.table import as_csv, as_html, as_markdown, say_line, show
from layton_batch.text import NONE, Column, Table, columns, plural, tokens_text

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class CostDocument(Document):
    """The bill of runs."""

    FORMATS: ClassVar = ("table", "json", "csv", "md")
    report: CostReport

    @property
    def frame(self) -> pl.DataFrame:
        """Return a row a group. Amounts are decimals in USD: batched (``cost_usd``), the same tokens unbatched, saved;
        null if no price is known."""
        import polars as pl  # the total of a bill, which `run` prints, needs none

        frame = pl.DataFrame([line_json(line, self.report.by) for line in self.report.lines], infer_schema_length=None)
        return frame.with_columns(_amounts(frame[name]) for name in frame.columns if name.endswith("_usd"))

    def show(self) -> None:
        print_costs(self.report)

    def as_json(self) -> object:
        return report_json(self.report)

    def text(self, form: str) -> str:
        return report_csv(self.report) if form == "csv" else report_markdown(self.report)

    def _repr_html_(self) -> str:
        return as_html(_short_table(self.report))


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


def report_csv(report: CostReport) -> str:
    """A header, a row per line and a last row whose first cell is ``total``; dollars exact."""
    total: Mapping[str, JsonValue] = {
        **dict.fromkeys(report.by, ""), report.by[0]: "total", **line_json(report.total, report.by),
    }  # fmt: skip
    rows = [*(line_json(line, report.by) for line in report.lines), total]
    return as_csv(Table(columns(*total), tuple(tuple(row.values()) for row in rows)))


def report_markdown(report: CostReport) -> str:
    """A GitHub-style table with the total as its last row."""
    names = ("requests", "input", "cached", "output", "reasoning", "cost", "live", "saved", "share of live")
    heads = (*_groups(report), *columns(*names, text=0), *columns("price source", "price date", text=2))
    rows = tuple(
        (
            *group, f"{line.requests:,}", f"{line.input_tokens:,}", f"{line.cached_input_tokens:,}",
            f"{line.output_tokens:,}", f"{line.reasoning_tokens:,}", line.batched.text, line.unbatched.text,
            line.saved.text, share_text(line), line.price_source or UNKNOWN, line.price_date or UNKNOWN,
        )
        for group, line in _lines(report)
    )  # fmt: skip
    return as_markdown(Table(heads, rows))


def print_costs(report: CostReport) -> None:
    """A line a group, the total last, notes on what the sums lack, and where prices are from."""
    if not report.lines:
        say_line(reused_note(report) or "no answer is in: nothing was paid")
        return
    show(_short_table(report))
    for note in (cached_note(report.total), reused_note(report)):
        if note:
            say_line(note)
    for note in (unknown_cost_note(report.total), differing_note(report)):
        if note:
            say_line(note, "yellow")
    sources = sorted({f"{line.price_source} ({line.price_date})" for line in report.lines if line.price_source})
    say_line(f"prices: {'; '.join(sources) or UNKNOWN}", "dim")


def _short_table(report: CostReport) -> Table:
    rows = tuple(
        (
            *group, f"{line.requests:,}", tokens_text(line.input_tokens + line.output_tokens), line.batched.text,
            line.unbatched.text, share_text(line),
        )
        for group, line in _lines(report)
    )  # fmt: skip
    heads = (*_groups(report), *columns("requests", "tokens", "cost", "live", "share\nof live", text=0))
    title = "Cost · live: the price of the same tokens without batches"
    return Table(heads, rows, title, sums=frozenset({len(rows) - 1}))


def total_line(report: CostReport) -> str:
    """Return the total of the bill as one line."""
    total, answers = report.total, plural(report.total.requests, "answer")
    if not report.lines:
        return reused_note(report) or "cost: nothing was paid"
    bound = f"; {note}" if (note := unknown_cost_note(total)) else ""
    return f"cost: {total.batched.text} for {answers}, {share_text(total)} of {total.unbatched.text} live{bound}"


def share_text(line: CostLine) -> str:
    """Return a line's share of live in percent."""
    return NONE if line.share_of_live is None else f"{line.share_of_live:.0%}"


def _groups(report: CostReport) -> tuple[Column, ...]:
    return tuple(Column(name, is_text=True) for name in report.by)


def _lines(report: CostReport) -> list[tuple[tuple[str, ...], CostLine]]:
    total = ("total", *("" for _ in report.by[1:]))
    return [*((line.group, line) for line in report.lines), (total, report.total)]
