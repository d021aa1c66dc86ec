"""The bill as a table for people, as Markdown, CSV and JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from layton_batch.costs.notes import cached_note, differing_note, reused_note, unknown_cost_note
from layton_batch.costs.report import UNKNOWN, CostLine, CostReport, line_json
from layton_batch.costs.stated import comparison_json
from layton_batch.records import JsonValue
from layton_batch.reports.table import as_csv, as_markdown, json_text, say_line, show
from layton_batch.text import Column, Table, columns, tokens_text

FORMATS = ("table", "json", "csv", "md")
_TEXTS = ("Provider", "Model", "Stage", "Price source", "Price date")


def write_costs(report: CostReport, form: str) -> None:
    """The bill on stdout in one of FORMATS."""
    if form == "table":
        print_costs(report)
    elif form == "json":
        sys.stdout.write(json_text(report_json(report)))
    else:
        sys.stdout.write(report_csv(report) if form == "csv" else report_markdown(report))


def report_json(report: CostReport) -> dict[str, JsonValue]:
    """``{"rows", "by_provider", "by_stage", "total", "differing", "reused"}``; keys are the cost table's columns
    (``line_json``), and those of ``comparison_json`` for batches of which the provider states another cost."""
    return {
        "rows": [line_json(line) for line in report.lines],
        "by_provider": [line_json(line) for line in report.by_provider],
        "by_stage": [line_json(line) for line in report.by_stage],
        "total": line_json(report.total),
        "differing": [comparison_json(comparison) for comparison in report.differing],
        "reused": {"requests": report.reused.requests, "paid_usd": report.reused.paid.exact},
    }


def report_csv(report: CostReport) -> str:
    """A header, a row per line and a last row whose provider is ``total``; dollars exact."""
    total: Mapping[str, JsonValue] = {**line_json(report.total), "provider": "total"}
    rows = [*(line_json(line) for line in report.lines), total]
    return as_csv(Table(columns(*total), tuple(tuple(row.values()) for row in rows)))


def report_markdown(report: CostReport) -> str:
    """A GitHub-style table with the total as its last row."""
    lines = [*((line, line.provider) for line in report.lines), (report.total, "Total")]
    rows = [
        {
            "Provider": first,
            "Model": line.model,
            "Stage": line.stage,
            "Requests": f"{line.requests:,}",
            "Input": f"{line.input_tokens:,}",
            "Cached": f"{line.cached_input_tokens:,}",
            "Output": f"{line.output_tokens:,}",
            "Reasoning": f"{line.reasoning_tokens:,}",
            "Batched": line.batched.text,
            "Unbatched": line.unbatched.text,
            "Saved": line.saved.text,
            "Price source": line.price_source or UNKNOWN,
            "Price date": line.price_date or UNKNOWN,
        }
        for line, first in lines
    ]
    return as_markdown(Table(columns(*rows[0], text=_TEXTS), tuple(tuple(row.values()) for row in rows)))


def print_costs(report: CostReport) -> None:
    """A sum per provider with a line per model and stage under it, the total last, and where prices are from."""
    if not report.lines:
        say_line(reused_note(report) or "no answer is in: nothing was paid")
        return
    rows: list[tuple[str, ...]] = []
    sums = set()
    for provider in report.by_provider:
        sums.add(len(rows))
        rows.append((provider.provider, "", *_figures(provider)))
        rows += [
            (f" {line.model}", line.stage, *_figures(line))
            for line in report.lines
            if line.provider == provider.provider
        ]
    sums.add(len(rows))
    rows.append(("total", "", *_figures(report.total)))
    names = ("requests", "in", "out", "batched", "unbatched", "saved")
    heads = (Column("model", is_text=True), Column("stage", is_text=True), *columns(*names, text=0))
    show(Table(heads, tuple(rows), "Cost · batched against the same tokens unbatched", sums=frozenset(sums)))
    for note in (cached_note(report.total), reused_note(report)):
        if note:
            say_line(note)
    if note := unknown_cost_note(report.total):
        say_line(note, "yellow")
    if note := differing_note(report):
        say_line(note, "yellow")
    sources = sorted({f"{line.price_source} ({line.price_date})" for line in report.lines if line.price_source})
    say_line(f"prices: {'; '.join(sources) or UNKNOWN}", "dim")


def write_groups(by: str, groups: Sequence[tuple[str, CostLine]], form: str) -> None:
    """Sums of the bill on stdout, a line a group, in one of FORMATS; dollars exact in JSON and CSV."""
    if form in ("json", "csv"):
        rows = [{by: name, **summed_json(line)} for name, line in groups]
        heads = columns(by, *_SUMS)
        table = Table(heads, tuple(tuple(row.values()) for row in rows))
        sys.stdout.write(json_text(rows) if form == "json" else as_csv(table))
        return
    names = (by, "requests", "in", "out", "batched", "unbatched", "saved")
    shown = Table(columns(*names), tuple((name, *_figures(line)) for name, line in groups))
    if form == "md":
        sys.stdout.write(as_markdown(shown))
    elif groups:
        show(shown)
    else:
        say_line("no answer is in: nothing was paid")


_SUMS = (
    "requests", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "unbatched_usd",
    "saved_usd", "unknown_cost_requests", "unknown_cost_usd", "complete",
)  # fmt: skip


def summed_json(line: CostLine) -> dict[str, JsonValue]:
    """Return a sum with the names of the run's cost table; USD are exact decimal text."""
    row = line_json(line)
    return {name: row[name] for name in _SUMS}


def _figures(line: CostLine) -> tuple[str, ...]:
    tokens = (tokens_text(line.input_tokens), tokens_text(line.output_tokens))
    return (f"{line.requests:,}", *tokens, line.batched.text, line.unbatched.text, line.saved.text)
