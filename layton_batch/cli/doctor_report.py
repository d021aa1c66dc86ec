"""The doctor's findings on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.cli.doctor import Finding, State
from layton_batch.cli.terminal import console, one_line

_STYLES = {State.OK: "green", State.NOTE: "yellow", State.BAD: "red"}


def print_findings(findings: Sequence[Finding]) -> None:
    """One line a check, the outcome first."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=False)
    for style in ("bold", None, None):
        table.add_column(style=style, overflow="fold")
    for one in findings:
        state = f"[{_STYLES[one.state]}]{one.state}[/]"
        table.add_row(state, escape(one_line(one.check)), escape(one_line(one.detail)))
    console().print(table)
