"""Faults in a file of items."""

from __future__ import annotations

from layton_batch.manifest.item_check import ItemCheck
from layton_batch.reports.table import console, say_line, show
from layton_batch.text import Table, columns, one_line, plural

LISTED = 200
"""Findings on a terminal; ``--json`` has all."""


def print_items(name: str, checked: ItemCheck) -> None:
    """Print how many rows of the file fit, in one line; below it the findings, if any, a line each."""
    wrong = sum(finding.kind == "row" for finding in checked.findings)
    splits = ", ".join(f"{split} {count}" for split, count in checked.fits.items())
    unread = f"; not read: {', '.join(checked.unread)}" if checked.unread else ""
    outcome = f"{wrong:,} wrong" if wrong else "all is well" if not checked.findings else "see below"
    counts = f"{plural(checked.rows, 'row')} for {checked.task} ({splits or 'no split'})"
    say_line(one_line(f"{name}: {counts}{unread}: {outcome}"))
    if not checked.findings:
        return
    console().print()
    rows = tuple(
        (finding.line, finding.item, finding.level, finding.kind, finding.text) for finding in checked.findings[:LISTED]
    )
    names = ("item", "level", "kind", "what")
    show(Table(columns("line", *names, text=names), rows))
    if len(checked.findings) > LISTED:
        say_line(f"… and {len(checked.findings) - LISTED} more; --json has them all")
