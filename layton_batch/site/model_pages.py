"""A page a model: its numbers, how it did in each category, and its answer to every item."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import polars as pl

from layton_batch.site.compare_page import compares_items, write_answers
from layton_batch.site.items_page import ListedItem, Tally
from layton_batch.site.run_site import RunSite
from layton_batch.site.run_tables import portions, replies
from layton_batch.site.sent import SentRequests, settings_text

_SHOWN = ("place", "standing", "answer", "verdict", "vote")
_SIGNS = {"right": "✓", "partly": "~", "wrong": "✗", "void": "✗", "disputed": "!", "open": "–"}


def write_model_pages(site: RunSite, items: Sequence[ListedItem], sent: SentRequests) -> list[str]:
    """Write one page for each row of the board, and its answers for the comparison of two models.

    Return each row's marks, a letter an item; none where items are not compared. Raises DamagedTableError.
    """
    folder, board, here, ids, by_rule = site.folder, site.board, site.here, site.item_ids, site.is_by_rule
    compares = compares_items(folder, len(board.rows), len(ids))
    (site.building / "models").mkdir()
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
            tallies = [(name, Tally(categories[name], by_rule)) for name in sorted(categories)]
            site.write(
                f"models/{row.page}", "model.html", row=row,
                row_here=on_this_set.get(row.key), tally=Tally(total, by_rule), categories=tallies,
                replies=mine.select(_SHOWN).iter_rows(named=True), items=items, signs=_SIGNS,
                settings=settings_text(sent.settings.get(row.model)),
            )  # fmt: skip
            if compares:
                marks[place] = write_answers(site.building, place, mine.unique("place", keep="first"), len(items))
    return marks if compares else []
