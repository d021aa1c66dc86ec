"""The page of the bill: what `cost` says of the run. What has no known price is *unknown*, never 0; a sum that lacks
it says *at least*."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from layton_batch.costs.notes import bill_notes
from layton_batch.costs.report import CostLine, CostReport, TotalCost
from layton_batch.site.html_table import HtmlBody, HtmlCell, HtmlColumn, HtmlRow, HtmlTable
from layton_batch.site.pages import more_assets, sentence, short_line, write

STAGES = {"predict": "answers", "judge": "jury", "rejudge": "jury on labelled answers"}
_REQUESTS = HtmlColumn("Requests", is_falling=True, label="requests")
_COUNTS = [HtmlColumn(name, is_falling=True, label=name.lower()) for name in ("Input", "Cached", "Output", "Reasoning")]
_USD = [HtmlColumn(name, is_falling=True, label=name.lower())
        for name in ("Batched", "Unbatched", "Saved", "Share of unbatched")]  # fmt: skip


def write_cost_page(bill: CostReport | None, building: Path, about: Mapping[str, object]) -> None:
    """Write the page of a bill by provider, model and stage; None: nothing was paid yet."""
    tables: dict[str, HtmlTable] = {}
    notes = [sentence(note) for note in bill_notes(bill)] if bill else []
    if bill and bill.lines:
        tables = {"by_provider": _by_provider(bill), "by_model": _by_model(bill)}
    write(building / "cost.html", "cost.html", **about, **more_assets(), bill=bill, notes=notes, **tables)


def _by_provider(bill: CostReport) -> HtmlTable:
    def row(name: str, line: CostLine) -> HtmlRow:
        return HtmlRow([name, f"{line.requests:,}", *_amounts(line)])

    stages = bill.subtotals["stage"]
    parts = [row(f"of these: {_stage(line.group[0])}", line) for line in stages] if len(stages) > 1 else []
    return HtmlTable(
        "Cost by provider",
        [HtmlColumn("Provider", is_head=True), _REQUESTS, *_USD],
        [HtmlBody([row(short_line(line.group[0]), line) for line in bill.subtotals["provider"]])],
        [row("Total", bill.total), *(replace(part, data={"part": ""}) for part in parts)],
    )


def _by_model(bill: CostReport) -> HtmlTable:
    def row(names: tuple[str, str, str], line: CostLine) -> HtmlRow:
        counts = (line.requests, line.input_tokens, line.cached_input_tokens, line.output_tokens, line.reasoning_tokens)
        return HtmlRow([*names, *(f"{count:,}" for count in counts), *_amounts(line)])

    lines = [(short_line(line.group[0]), short_line(line.group[1]), _stage(line.group[2])) for line in bill.lines]
    return HtmlTable(
        "Cost by model and stage",
        [HtmlColumn("Provider", is_text=True, label=""), HtmlColumn("Model", is_head=True),
         HtmlColumn("Stage", is_text=True, label=""), _REQUESTS, *_COUNTS, *_USD],
        [HtmlBody([row(names, line) for names, line in zip(lines, bill.lines, strict=True)])],
        [row(("", "Total", ""), bill.total)],
    )  # fmt: skip


def _stage(name: str) -> str:
    return STAGES.get(name, short_line(name))


def _amounts(line: CostLine) -> list[HtmlCell]:
    share = line.share_of_live
    return [
        *(_amount_cell(amount) for amount in (line.batched, line.unbatched, line.saved)),
        HtmlCell("" if share is None else f"{share:.0%}", sort="" if share is None else f"{share:.6f}"),
    ]


def _amount_cell(amount: TotalCost) -> HtmlCell:
    is_unknown = amount.usd is None
    return HtmlCell(amount.text, sort="" if is_unknown else amount.exact, tone="unknown" if is_unknown else "")
