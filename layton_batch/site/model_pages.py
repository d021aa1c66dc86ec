"""A page a model: its numbers, how it did in each category, and its answer to every item."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from layton_batch.files.run_folder import RunFolder
from layton_batch.site.board import Board
from layton_batch.site.compare_page import write_answers
from layton_batch.site.items_page import ListedItem, Tally
from layton_batch.site.pages import more_assets, write
from layton_batch.site.run_tables import item_ids, portions, replies
from layton_batch.site.sent import SentRequests, settings_text

_SHOWN = ("place", "standing", "answer", "verdict", "vote")
_SIGNS = {"right": "✓", "partly": "~", "wrong": "✗", "void": "✗", "disputed": "!", "open": "–"}


def write_model_pages(
    folder: RunFolder,
    board: Board,
    here: Board | None,
    items: Sequence[ListedItem],
    sent: SentRequests,
    building: Path,
    about: Mapping[str, object],
    *,
    compares: bool,
) -> list[str]:
    """Write one page for each row of the board, and return each row's marks: a letter an item.

    ``here``: the board on this set; ``compares``: write each row's answers for the comparison too, without which there
    are no marks. Raises DamagedTableError.
    """
    (building / "models").mkdir()
    ids = [item_id for part in item_ids(folder) for item_id in part]
    order = pl.DataFrame({"item_id": ids, "place": range(len(ids))}, {"item_id": pl.String, "place": pl.Int64})
    on_this_set = {row.key: row for row in here.rows} if here else {}
    marks = [""] * len(board.rows)
    for models in portions(folder, list(dict.fromkeys(str(row.values["model"]) for row in board.rows))):
        answers = replies(folder, board.metric, "model", models, whole=False).join(order, on="item_id")
        by_model = answers.sort("place", "sample").partition_by("model", "provider", "n_hints", as_dict=True)
        for place, row in enumerate(board.rows):
            if row.values["model"] not in models:
                continue
            mine = by_model.get(row.key, answers.clear())
            categories: dict[str, Counter[str]] = defaultdict(Counter)
            for at, standing in mine.select("place", "standing").iter_rows():
                categories[items[at].category][standing] += 1
            total = Counter[str](mine["standing"].to_list())
            tallies = [(name, Tally(categories[name], bool(about["by_rule"]))) for name in sorted(categories)]
            write(
                building / "models" / row.page, "model.html", **about, **more_assets(), row=row,
                row_here=on_this_set.get(row.key), tally=Tally(total, bool(about["by_rule"])), categories=tallies,
                replies=mine.select(_SHOWN).iter_rows(named=True), items=items, signs=_SIGNS,
                settings=settings_text(sent.settings.get(row.model)),
            )  # fmt: skip
            if compares:
                marks[place] = write_answers(building, place, mine.unique("place", keep="first"), len(items))
    return marks if compares else []
