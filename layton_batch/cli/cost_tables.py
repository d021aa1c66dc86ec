"""The bill on a terminal: at most 80 columns where names allow."""

from __future__ import annotations

from layton_batch.cli.terminal import console, plain
from layton_batch.costs.cost_layout import amount_text
from layton_batch.costs.report import CostLine, CostReport


def print_costs(report: CostReport) -> None:
    """A line per model and stage, the total last, and where prices are from."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Cost · batched against the same tokens unbatched", box=None, header_style="bold")
    table.add_column("model", overflow="fold")
    table.add_column("stage")
    for name in ("requests", "in", "out", "batched", "unbatched", "saved"):
        table.add_column(name, justify="right")
    for line in report.lines:
        table.add_row(escape(plain(line.model)), line.stage, *_numbers(line))
    table.add_section()
    table.add_row("total", "", *_numbers(report.total), style="bold")
    console().print(table)
    sources = sorted({f"{line.price_source} ({line.price_date})" for line in report.lines if line.price_source})
    console().print(f"prices: {'; '.join(sources) or 'unknown'}", style="dim", markup=False)


def _numbers(line: CostLine) -> tuple[str, ...]:
    return (
        f"{line.requests:,}",
        _tokens(line.input_tokens),
        _tokens(line.output_tokens),
        *(amount_text(amount) for amount in (line.batched, line.unbatched, line.saved)),
    )


def _tokens(count: int) -> str:
    if count >= 10_000_000:
        return f"{count / 1e6:,.1f}M"
    return f"{count / 1e3:,.1f}k" if count >= 10_000 else f"{count:,}"
