"""A leaderboard as a table, JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields

from layton_batch.cli.terminal import console, plain, print_json
from layton_batch.leaderboard import Row

FORMATS = ("table", "json", "csv", "md")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_board(rows: Sequence[Row], form: str) -> None:
    """The board on stdout in one of FORMATS."""
    if form == "table":
        print_board(rows)
    elif form == "json":
        print_json([asdict(row) for row in rows])
    else:
        sys.stdout.write(board_csv(rows) if form == "csv" else board_markdown(rows))


def print_board(rows: Sequence[Row]) -> None:
    """At most 80 columns wide where names allow."""
    from rich.table import Table

    if not rows:
        console().print("no model is done yet: there is no leaderboard")
        return
    method, metric = rows[0].method, rows[0].metric.replace("_", " ")
    caption = "interval: the published bootstrap's" if method == "paper" else "interval: 95 % on exactly these items"
    table = Table(title=f"Leaderboard · {metric} · {method}", caption=caption, box=None, header_style="bold")
    table.add_column("rank", justify="right")
    table.add_column("", justify="right", style="dim")
    table.add_column("model", overflow="fold")
    for name in _columns(rows):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*_cells(row, _columns(rows)))
    console().print(table)
    for row in rows:
        if row.flags:
            console().print(f"  {plain(row.model)}: {row.flags.replace('_', ' ')}", style="yellow", markup=False)


def _columns(rows: Sequence[Row]) -> list[str]:
    """Columns that say nothing in any row are left out."""
    optional = [name for name in ("unparsed", "missing", "unjudged") if any(_count(row, name) for row in rows)]
    hints = ["hints"] if len({row.n_hints for row in rows}) > 1 else []
    return [*hints, "score", "interval", "items", *optional]


def _count(row: Row, name: str) -> int:
    return int(getattr(row, f"n_{name}"))


def _cells(row: Row, columns: Sequence[str]) -> list[str]:
    from rich.markup import escape

    texts = {
        "hints": str(row.n_hints),
        "score": "–" if row.score is None else f"{row.score:.1f}",
        "interval": _interval(row),
        "items": str(row.n_items),
        **{name: str(_count(row, name)) for name in ("unparsed", "missing", "unjudged")},
    }
    return [_rank(row), _spread(row), escape(plain(row.model)), *(texts[name] for name in columns)]


def _rank(row: Row) -> str:
    return "–" if row.rank is None else str(row.rank)


def _spread(row: Row) -> str:
    return "" if row.rank_best is None else f"{row.rank_best}–{row.rank_worst}"


def _interval(row: Row) -> str:
    if row.score is None or row.lower is None or row.upper is None:
        return "–"
    return f"±{row.half_width:.1f}" if row.method == "paper" else f"{row.lower:.1f} – {row.upper:.1f}"


def board_csv(rows: Sequence[Row]) -> str:
    """A header and a row per model; names that a spreadsheet would run as formulas are quoted with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([field.name for field in fields(Row)])
    writer.writerows([[_csv_cell(value) for value in asdict(row).values()] for row in rows])
    return out.getvalue()


def _csv_cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    shown = plain(value).replace("\n", " ")
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def board_markdown(rows: Sequence[Row]) -> str:
    """A GitHub-style table; names cannot break out of their cell."""
    headers = ("Rank", "Spread", "Model", "Provider", "Score", "Interval", "Items", "Unparsed", "Missing")
    lines = ["| " + " | ".join(headers) + " |", "|---:|:---:|---|---|---:|:---:|---:|---:|---:|"]
    for row in rows:
        score = "–" if row.score is None else f"{row.score:.1f}"
        cells = (_rank(row), _spread(row), _markdown(row.model), _markdown(row.provider), score, _interval(row),
                 str(row.n_items), str(row.n_unparsed), str(row.n_missing))  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", plain(text).replace("\n", " "))
