"""A bill as a picture: a bar for each group, what was paid and what batches saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from layton_batch.costs.report import CostLine
from layton_batch.drawing import BLUE, Row, rendered, table, titled
from layton_batch.errors import FileError
from layton_batch.files import atomic
from layton_batch.text import one_line, shortened

_SAVED = "#9ecae1"
_LONGEST, _WIDTH, _BAR = 40, 480, 22
ENDINGS = (".svg", ".png")


def draw(path: Path, by: str, groups: Sequence[tuple[str, CostLine]]) -> None:
    """Write the chart. Raises FileError for another ending than .svg or .png, and where charts are not installed."""
    import altair as alt

    if path.suffix.lower() not in ENDINGS:
        raise FileError(f"--chart {path}: the name must end in {' or '.join(ENDINGS)}")
    names = [shortened(one_line(name), _LONGEST) for name, _ in groups]
    rows: list[Row] = [
        {"group": name, "what": kind, "usd": float(amount.usd or 0)}
        for name, (_, line) in zip(names, groups, strict=True)
        for kind, amount in (("paid", line.batched), ("saved", line.saved))
    ]
    colours = alt.Scale(domain=["paid", "saved"], range=[BLUE, _SAVED])
    bars = (
        alt.Chart(table(rows))
        .mark_bar()
        .encode(
            y=alt.Y("group:N", sort=list(dict.fromkeys(names)), title=by, axis=alt.Axis(labelLimit=300)),
            x=alt.X("sum(usd):Q", title="US dollars"),
            color=alt.Color("what:N", scale=colours, title=None),
        )
    )
    sized = alt.LayerChart(layer=[bars]).properties(width=_WIDTH, height=max(len(set(names)), 1) * _BAR)
    picture = rendered(titled(sized, f"Cost by {by}: paid, and saved against the same tokens unbatched"), path.suffix)
    atomic.write_bytes(path, picture)
