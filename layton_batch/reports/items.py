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
    is_of_all = len(found.fits) > 1 and set(found.fits.values()) == {found.rows}
    splits = "every split takes them" if is_of_all else f"by split: {one_line(fits)}"
    say_line(f"{plural(found.rows, 'row')} for {found.task}; {splits}")
    for column, count in found.nulls.items():
        say_line(f"{column} is null in {count} of them")
    if not found.findings:
        say_line("nothing is wrong with them")
        return
    console().print()
    rows = tuple((one.line, one.item, one.level, one.kind, one.text) for one in found.findings[:LISTED])
    names = ("item", "level", "kind", "what")
    show(Table(columns("line", *names, text=names), rows))
    if len(found.findings) > LISTED:
        say_line(f"… and {len(found.findings) - LISTED} more; --json has them all")
