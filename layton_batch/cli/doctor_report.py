"""The doctor's findings on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.cli.terminal import console, plain
from layton_batch.doctor import Finding, State

_STYLES = {State.OK: "green", State.NOTE: "yellow", State.BAD: "red"}


def print_findings(findings: Sequence[Finding]) -> None:
    """One line a check."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for style in ("bold", None, None):
        table.add_column(style=style, overflow="fold")
    for one in findings:
        table.add_row(f"[{_STYLES[one.state]}]{one.state}[/]", escape(plain(one.check)), escape(plain(one.detail)))
    console().print(table)
