"""Tables without lines that fit 80 columns whatever names are in them."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.cli.terminal import console, one_line, plain

NARROW = 80
_BREAK_AFTER = "-_./:@ "


def print_table(
    title: str, header: Sequence[str], lines: Sequence[Sequence[str]], *, left: int = 1, first: bool = False
) -> None:
    """The first column is folded to what the others leave; a blank line goes before, unless it is the ``first``.

    ``left``: how many columns are aligned left. Line breaks in headings and cells are kept.
    """
    from rich.table import Table
    from rich.text import Text

    shown = [[plain(one) if "\n" not in one else one_line(one) for one in line] for line in lines]
    widths = [
        max(len(part) for text in (name, *(line[i] for line in shown)) for part in text.split("\n"))
        for i, name in enumerate(header)
    ]
    room = max(12, min(console().width, NARROW) - sum(widths[1:]) - len(header) + 1)
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(Text(name), justify="left" if i < left else "right", no_wrap=i > 0, overflow="fold",
                         vertical="top")  # fmt: skip
    for line in shown:
        table.add_row(Text(folded(line[0], room)), *map(Text, line[1:]))
    screen = console()
    screen.print(Text(title if first else f"\n{title}", style="bold"))
    screen.print(table)


def folded(name: str, width: int) -> str:
    """A long name on several lines, broken after a hyphen or the like where it has one."""
    lines = []
    while len(name) > width:
        head = name[:width]
        cut = max(head.rfind(mark) for mark in _BREAK_AFTER) + 1
        cut = cut if cut > width // 3 else width
        lines.append(name[:cut])
        name = name[cut:]
    return "\n".join([*lines, name])
