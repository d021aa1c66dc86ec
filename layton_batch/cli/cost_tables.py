"""The bill on a terminal: at most 80 columns wide; long names go on in a second line."""

from __future__ import annotations

from layton_batch.cli.terminal import console, one_line
from layton_batch.costs.cost_layout import amount_text, money
from layton_batch.costs.report import CostLine, CostReport


def print_costs(report: CostReport) -> None:
    """A sum per provider with a line per model and stage under it, the total last, and where prices are from."""
    from rich.markup import escape
    from rich.table import Table

    if not report.lines:
        console().print("no answer is in yet: nothing was paid")
        return
    table = Table(title="Cost · batched against the same tokens unbatched", box=None, header_style="bold",
                  padding=(0, 1, 0, 0), pad_edge=False)  # fmt: skip
    table.add_column("model", overflow="fold")
    table.add_column("stage")
    for name in ("reqs", "in", "out", "batched", "unbatched", "saved"):
        table.add_column(name, justify="right")
    for provider in report.by_provider:
        table.add_row(escape(one_line(provider.provider)), "", *_numbers(provider), style="bold")
        for line in report.lines:
            if line.provider == provider.provider:
                table.add_row(f" {escape(one_line(line.model))}", line.stage, *_numbers(line))
    table.add_row("total", "", *_numbers(report.total), style="bold")
    console().print(table)
    if more := untold_text(report.total):
        console().print(more, markup=False)
    sources = sorted({f"{line.price_source} ({line.price_date})" for line in report.lines if line.price_source})
    console().print(f"prices: {'; '.join(sources) or 'unknown'}", style="dim", markup=False)


def untold_text(total: CostLine) -> str | None:
    """What the sums lack: requests whose line cannot be read or had, and answers that do not tell their tokens."""
    if not total.untold.usd:
        return None
    requests = "1 request" if total.untold_requests == 1 else f"{total.untold_requests:,} requests"
    return f"and up to {money(total.untold.usd)} more that cannot be told ({requests})"


def _numbers(line: CostLine) -> tuple[str, ...]:
    return (
        f"{line.requests:,}",
        tokens_text(line.input_tokens),
        tokens_text(line.output_tokens),
        *(amount_text(amount) for amount in (line.batched, line.unbatched, line.saved)),
    )


def tokens_text(count: int) -> str:
    """At most five characters up to a thousand million: ``9,999``, ``12.3k``, ``414k``, ``1.5M``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= (10 * size if unit == "k" else size):
            shown = count / size
            return f"{shown:,.0f}{unit}" if shown >= 100 else f"{shown:.1f}{unit}"
    return f"{count:,}"
