"""What is wrong with a file of items."""

from __future__ import annotations

from layton_batch.manifest.item_check import Checked
from layton_batch.reports.table import console, say_line, show
from layton_batch.text import Table, columns, one_line, plural

LISTED = 200
"""Findings on a terminal; ``--json`` has all."""


def print_items(found: Checked) -> None:
    """How many rows fit which split, then the findings, a line each."""
    fits = ", ".join(f"{split} {count}" for split, count in found.fits.items()) or "none"
    say_line(f"{plural(found.rows, 'row')} for {found.task}; by split: {one_line(fits)}")
    for column, count in found.nulls.items():
        say_line(f"{column} is null in {count} of them")
    if not found.findings:
        say_line("nothing is wrong with them")
        return
    console().print()
    rows = tuple((one.line, one.item, one.kind, one.text) for one in found.findings[:LISTED])
    show(Table(columns("line", "item", "kind", "what", text=("item", "kind", "what")), rows))
    if len(found.findings) > LISTED:
        say_line(f"… and {len(found.findings) - LISTED} more; --json has them all")
