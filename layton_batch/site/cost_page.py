"""The page of the bill: what `cost` says of the run. What has no known price is *unknown*, never 0; a sum that lacks
it says *at least*. `cost --format html` is the same table on a page of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layton_batch.columns import Column, OutputForm
from layton_batch.costs.report import COLUMNS, UNKNOWN, CostLine, CostReport, bill_notes, cost_table, share_text
from layton_batch.site.board import RunSite
from layton_batch.site.pages import (
    HtmlBody,
    HtmlCell,
    HtmlColumn,
    HtmlRow,
    HtmlTable,
    html_column,
    more_assets,
    render,
    sentence,
    short_line,
)

STAGES = {"predict": "answers", "judge": "jury", "rejudge": "jury on labelled answers"}
_TOKENS = frozenset({"input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"})
_SHOWN = [column for column in COLUMNS if OutputForm.PAGE in column.surfaces]
_SHORT = [column for column in _SHOWN if column.name not in _TOKENS]


def write_cost_page(site: RunSite, bill: CostReport | None) -> None:
    """Write the page of a bill by provider, model and stage; None: nothing was paid yet."""
    notes = [sentence(note) for note in bill_notes(bill)] if bill else []
    paid = bill if bill and bill.lines else None
    site.write(
        "cost.html", bill=bill, notes=notes, by_provider=paid and _by_provider(paid),
        by_model=paid and bill_table("Cost by model and stage", paid),
    )  # fmt: skip


def bill_page(bill: CostReport, runs: Sequence[str], days: str, notes: Sequence[str], caution: str | None) -> str:
    """Return the bill as a page that needs no other file. ``days``: of which days it is, in words; ``caution``: what a
    reader has to know before the sums."""
    title = " ".join(filter(None, ("Cost", f"of {', '.join(runs)}" if runs else "", days)))
    about = {"run": None, "title": short_line(title, 500), "share": share_text(bill.total)}
    shown = [sentence(note) for note in notes]
    table = bill_table(str(about["title"]), bill) if bill.lines else None
    return render("bill.html", **about, **more_assets(), bill=bill, notes=shown, table=table, caution=caution).decode()


def _by_provider(bill: CostReport) -> HtmlTable:
    def row(name: str, line: CostLine) -> HtmlRow:
        return HtmlRow([name, *_cells(_SHORT, line)])

    stages = bill.subtotals["stage"]
    parts = [row(f"of these: {_stage(line.group[0])}", line) for line in stages] if len(stages) > 1 else []
    return HtmlTable(
        "Cost by provider",
        [HtmlColumn("Provider", is_head=True), *_heads(_SHORT)],
        [HtmlBody([row(short_line(line.group[0]), line) for line in bill.subtotals["provider"]])],
        [row("Total", bill.total), *(replace(part, data={"part": ""}) for part in parts)],
    )


def bill_table(caption: str, bill: CostReport) -> HtmlTable:
    """Return every line of the bill, and the total; the model is the head of a row, else the first group."""
    head = "model" if "model" in bill.by else bill.by[0]

    def row(line: CostLine) -> HtmlRow:
        totals = ("Total" if name == head else "" for name in bill.by)
        names = (
            _stage(text) if name == "stage" else short_line(text)
            for name, text in zip(bill.by, line.group, strict=False)
        )
        return HtmlRow([*(names if line.group else totals), *_cells(_SHOWN, line)])

    groups = cost_table(bill).columns[: len(bill.by)]
    heads = [replace(html_column(column, is_head=column.name == head), label="") for column in groups]
    return HtmlTable(caption, [*heads, *_heads(_SHOWN)], [HtmlBody([*map(row, bill.lines)])], [row(bill.total)])


def _stage(name: str) -> str:
    return STAGES.get(name, short_line(name))


def _heads(columns: Sequence[Column[CostLine]]) -> list[HtmlColumn]:
    return [replace(html_column(column, is_head=False), label=column.heading.replace("\n", " ")) for column in columns]


def _cells(columns: Sequence[Column[CostLine]], line: CostLine) -> list[HtmlCell]:
    """Return cells that are sorted by their exact values; unknown ones come last."""
    values = [(column.cell(line), column.read(line)) for column in columns]
    return [
        HtmlCell(text, sort="", tone="unknown") if value in (None, UNKNOWN) else HtmlCell(text, sort=str(value))
        for text, value in values
    ]
