"""What is wrong with a file of items."""

from __future__ import annotations

from layton_batch.manifest.item_check import ItemCheck
from layton_batch.reports.table import console, say_line, show
from layton_batch.text import Table, columns, one_line, plural

LISTED = 200
"""Findings on a terminal; ``--json`` has all."""


def print_items(checked: ItemCheck, unread_note: str = "") -> None:
    """Print the number of rows that fit each split, then the findings, a line each. ``unread_note``: what columns that
    the task does not read may be meant for."""
    say_line(f"{plural(checked.rows, 'row')} for {checked.task}{_splits(checked)}")
    for column, count in checked.nulls.items():
        say_line(f"{column} is null in {plural(count, 'row')}")
    if checked.unread:
        say_line(one_line(f"{checked.task} does not read: {', '.join(checked.unread)}{unread_note}"))
    if not checked.findings:
        say_line("nothing is wrong with them")
        return
    console().print()
    rows = tuple(
        (finding.line, finding.item, finding.level, finding.kind, finding.text) for finding in checked.findings[:LISTED]
    )
    names = ("item", "level", "kind", "what")
    show(Table(columns("line", *names, text=names), rows))
    if len(checked.findings) > LISTED:
        say_line(f"… and {len(checked.findings) - LISTED} more; --json has them all")


def _splits(checked: ItemCheck) -> str:
    """Say how many rows are wrong, and which splits take the others."""
    wrong = sum(finding.kind == "row" for finding in checked.findings)
    if wrong == checked.rows:
        return ", all of them wrong"
    clause, others = (f", {wrong:,} of them wrong; ", "the others") if wrong else ("; ", "them")
    if len(checked.fits) > 1 and set(checked.fits.values()) == {checked.rows - wrong}:
        return f"{clause}every split takes {others}"
    counts = ", ".join(f"{split} {count}" for split, count in checked.fits.items())
    return one_line(f"{clause}{f'{others} ' if wrong else ''}by split: {counts}")
