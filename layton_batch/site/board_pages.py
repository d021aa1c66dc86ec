"""The pages of a board: the leaderboard itself, its charts, two models beside each other, and files to take away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import file_error
from layton_batch.files.run_folder import RunFolder
from layton_batch.makers import maker_colour
from layton_batch.scoring.history import snapshots
from layton_batch.scoring.leaderboard import ASSUMES
from layton_batch.site.board_table import Board
from layton_batch.site.comparison import comparison_data, write_answers
from layton_batch.site.downloads import write_downloads
from layton_batch.site.history_page import show_history
from layton_batch.site.item_rates import item_rates
from layton_batch.site.model_facts import ModelFacts, label_need
from layton_batch.site.origin import citation, licence, sentence
from layton_batch.site.pages import more_assets, write
from layton_batch.site.run_tables import BoardSettings

if TYPE_CHECKING:
    from layton_batch.site.board_charts import Chart

Row = Mapping[str, object]
About = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RankedRun:
    """A run's leaderboard: its rows, as they are shown, what they measure, the items' pages and ids in their
    order, and what is known of each row's model; ``here_rows``, ``here_facts`` are the rows on this set, none where the
    board has one target only."""

    run: str
    ask: BoardSettings
    board: Board
    here: Board | None
    rows: Sequence[Row]
    here_rows: Sequence[Row]
    metric: str
    items: Sequence[tuple[str, str]]
    facts: Sequence[ModelFacts]
    here_facts: Sequence[ModelFacts]


def write_board_pages(folder: RunFolder, ranked: RankedRun, building: Path, about: About, index: About) -> None:
    """Write the board pages. ``about``: variables of all pages; ``index``: more variables of the leaderboard."""
    assets: dict[str, object] = {**about, **more_assets("board.css", "board.js")}
    facts = ranked.facts
    comparison = comparison_data(folder, ranked.rows, ranked.items, ranked.metric)
    drawn = _write_charts(folder, ranked, facts, building, assets)
    if comparison:
        write_answers(folder, ranked.rows, ranked.items, building)
        loading = more_assets("board.css", "board.js", loads=True)
        write(building / "compare.html", "compare.html", **{**assets, **loading}, data=comparison)
    ask, board = ranked.ask, ranked.board
    models = len({row.model for row in board.rows})
    origin = sentence(ask, len(ranked.items), models, by_rule=board.by_rule, has_labels=board.has_labels)
    own = {
        "sentence": origin, "licence": licence(ask), "citation": citation(str(about["title"]), str(about["date"])),
        "colours": _colours(facts, ask), "here_colours": _colours(ranked.here_facts, ask),
        "facts": facts, "here_facts": ranked.here_facts, "assumes": ASSUMES,
        "downloads": write_downloads(ranked.rows, building),
        "first_charts": _first_charts(drawn),
        "label_need": label_need(folder, ranked.run), "refreshes": show_history(snapshots(folder.history)),
    }  # fmt: skip
    write(building / "index.html", "index.html", **assets, **index, **own)


def _first_charts(drawn: Sequence[Chart]) -> list[Chart]:
    """Return the charts that stand under the table, one for each target: of cost, for the table draws the scores."""
    costs = [chart for chart in drawn if chart.name.startswith("cost")]
    return costs or [chart for chart in drawn if chart.name.startswith("scores")]


def _colours(facts: Sequence[ModelFacts], ask: BoardSettings) -> list[str]:
    return [maker_colour(fact.maker, ask.colours) for fact in facts]


def _write_charts(
    folder: RunFolder, ranked: RankedRun, facts: Sequence[ModelFacts], building: Path, assets: About
) -> Sequence[Chart]:
    from layton_batch.site.board_charts import charts, standings  # a board without scores does without Altair

    board, here = (
        standings(rows, about, ranked.ask.colours)
        for rows, about in ((ranked.rows, facts), (ranked.here_rows, ranked.here_facts))
    )
    drawn = charts(board, here, item_rates(folder, ranked.metric), snapshots(folder.history)) if board else []
    if not drawn:
        return ()
    try:
        (building / "charts").mkdir()
        for chart in drawn:
            (building / "charts" / f"{chart.name}.svg").write_text(chart.svg, encoding="utf-8")
            (building / "charts" / f"{chart.name}.png").write_bytes(chart.png)
    except OSError as error:
        raise file_error(f"cannot write {building / 'charts'}: {error.strerror or error}", error) from error
    write(building / "charts.html", "charts.html", **assets, charts=drawn)
    return drawn
