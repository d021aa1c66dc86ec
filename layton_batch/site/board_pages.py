"""The pages of a board: the leaderboard itself, its charts, two models beside each other, and files to take away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring.history import snapshots
from layton_batch.scoring.leaderboard import ASSUMES
from layton_batch.site.board_table import Board, board_html
from layton_batch.site.comparison import comparison_data
from layton_batch.site.history_page import show_history
from layton_batch.site.item_rates import item_rates
from layton_batch.site.origin import citation, licence
from layton_batch.site.pages import more_assets, write
from layton_batch.site.run_tables import BoardSettings

if TYPE_CHECKING:
    from layton_batch.site.pictures import DrawnChart

Row = Mapping[str, object]
About = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RankedRun:
    """A run's leaderboard: its rows, as they are shown, what they measure, and the items' pages and ids in their order.

    ``here``, ``here_rows``: the board on this set, none where there is one target only; ``marks``: of each row, a
    letter an item.
    """

    ask: BoardSettings
    board: Board
    here: Board | None
    rows: Sequence[Row]
    here_rows: Sequence[Row]
    metric: str
    items: Sequence[tuple[str, str]]
    marks: Sequence[str]


def write_board_pages(
    folder: RunFolder, ranked: RankedRun, building: Path, about: About, index: About, earlier: Path
) -> None:
    """Write the board pages. ``about``: variables of all pages; ``index``: more variables of the leaderboard;
    ``earlier``: the site before, whose pictures are taken where their data are the same."""
    drawn = _write_charts(folder, ranked, building, about, earlier)
    comparison = comparison_data(folder, ranked.rows, ranked.items, ranked.marks)
    if comparison:
        assets: dict[str, object] = {**about, **more_assets(loads=True)}
        write(building / "compare.html", "compare.html", **assets, data=comparison)
    title, date = str(about["title"]), str(about["date"])
    own = {
        "licence": licence(ranked.ask), "citation": citation(ranked.ask, title, date), "assumes": ASSUMES,
        "table": board_html(f"Leaderboard of {title}", ranked.board, ranked.here),
        "makers": sorted({row.facts.maker for row in ranked.board.rows} - {""}),
        "first_charts": [picture for picture in drawn if picture.chart.name.startswith("cost")],
        "refreshes": show_history(snapshots(folder.history)),
    }  # fmt: skip
    write(building / "index.html", "index.html", **about, **more_assets(), **index, **own)


def _write_charts(
    folder: RunFolder, ranked: RankedRun, building: Path, about: About, earlier: Path
) -> Sequence[DrawnChart]:
    from layton_batch.site.board_charts import chart_models, charts, share_card  # without scores, without Altair
    from layton_batch.site.pictures import draw_charts

    board = chart_models(ranked.rows, [row.facts for row in ranked.board.rows])
    if not board:
        return ()
    here = chart_models(ranked.here_rows, [row.facts for row in ranked.here.rows]) if ranked.here else []
    described = charts(board, here, item_rates(folder, ranked.metric), snapshots(folder.history))
    drawn = draw_charts(described, share_card(board, str(about["title"])), building, earlier)
    write(building / "charts.html", "charts.html", **about, **more_assets(), charts=drawn)
    return drawn
