"""The page of the bill: what `cost` says of the run. What has no known price is *unknown*, never 0; a sum that lacks
it says *at least*. `cost --format html` is the same table on a page of its own."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.costs.report import CostReport, bill_notes, cost_table, share_text
from layton_batch.site.board import RunSite
from layton_batch.site.pages import more_assets, plain_table, render, sentence, short_line


def write_cost_page(site: RunSite, bill: CostReport | None) -> None:
    """Write the page of a bill by provider, model and stage; None: nothing was paid yet."""
    notes = [sentence(note) for note in bill_notes(bill)] if bill else []
    table = plain_table(cost_table(bill), "Cost by provider, model and stage") if bill else None
    site.write("cost.html", bill=bill, notes=notes, table=table)


def bill_page(bill: CostReport, runs: Sequence[str], days: str, notes: Sequence[str], caution: str | None) -> str:
    """Return the bill as a page that needs no other file. ``days``: of which days it is, in words; ``caution``: what a
    reader has to know before the sums."""
    title = short_line(" ".join(filter(None, ("Cost", f"of {', '.join(runs)}" if runs else "", days))), 500)
    return render(
        "bill.html", **more_assets(), run=None, title=title, share=share_text(bill.total), bill=bill,
        notes=[sentence(note) for note in notes], table=plain_table(cost_table(bill), title), caution=caution,
    ).decode()  # fmt: skip
