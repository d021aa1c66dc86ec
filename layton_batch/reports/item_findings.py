"""Faults in a file of items."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.columns import Column, Table
from layton_batch.manifest.item_check import ItemCheck, ItemFinding
from layton_batch.reports.table import console, say_line, show
from layton_batch.text import one_line, plural

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
    show(findings_table(checked.findings[:LISTED]))
    if len(checked.findings) > LISTED:
        say_line(f"… and {len(checked.findings) - LISTED} more; --json has them all")


FINDINGS: tuple[Column[ItemFinding], ...] = (
    Column("line"),
    Column("item", is_text=True),
    Column("level", is_text=True),
    Column("kind", is_text=True),
    Column("text", "what", is_text=True),
)


def findings_table(findings: Sequence[ItemFinding]) -> Table[ItemFinding]:
    """Return findings as a table."""
    return Table(FINDINGS, findings)
