"""A page a model: its numbers, how it did in each category, and its answer to every item; and two models beside each
other: the page that compares them, and the data behind it.

Of the comparison, names, marks and probabilities stand in the page; a model's answers in a file of their own, which the
page loads.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
import polars as pl

from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring.compare import MOST_COMPARED
from layton_batch.site.board import RunSite
from layton_batch.site.items import LONGEST_TEXT, ListedItem, Tally
from layton_batch.site.pages import short_line
from layton_batch.site.run_tables import portions, replies, table

_SHOWN = ("place", "standing", "answer", "verdict", "vote")
_RESULTS = {"right": "✓", "partly": "~", "wrong": "✗", "void": "✗", "disputed": "!", "open": "–"}


def write_model_pages(site: RunSite, items: Sequence[ListedItem]) -> list[str]:
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
                replies=mine.select(_SHOWN).iter_rows(named=True), items=items, signs=_RESULTS,
            )  # fmt: skip
            if compares:
                marks[place] = write_answers(site.building, place, mine.unique("place", keep="first"), len(items))
    return marks if compares else []


# ---- the comparison ------------------------------------------------------------------------------------------------

MOST_CELLS = 400_000
"""Models times items: beyond it the page leaves out on which items two models differ."""
ANSWERS = "compare"
"""The folder of the models' answers."""
_SIGNS = {True: "✓", False: "✗", None: "?"}


def has_comparison(folder: RunFolder, rows: int) -> bool:
    """Tell whether the board has at least two models and not too many to compare."""
    return 1 < rows <= MOST_COMPARED and not table(folder, "pairs", ("model",)).is_empty()


def compares_items(folder: RunFolder, rows: int, items: int) -> bool:
    """Tell whether the comparison says on which items two models differ."""
    return has_comparison(folder, rows) and 0 < rows * items <= MOST_CELLS


def write_answers(building: Path, place: int, answers: pl.DataFrame, count: int) -> str:
    """Write a model's replies to ``count`` items, the first to each: answer, justification, verdict, and each judge
    with its signs. Return a letter an item."""
    entries: list[object] = [None] * count
    marks = ["-"] * count
    for reply in answers.iter_rows(named=True):
        judges = [f"{short_line(judge['judge'])} {_judge_signs(judge)} {short_line(judge['reason'])}".rstrip()
                  for judge in reply["judges"] or () if judge["judge_provider"] is not None]  # fmt: skip
        verdict = " · ".join(filter(None, (short_line(reply["verdict"]), reply["vote"])))
        texts = [short_line(reply[name], LONGEST_TEXT) for name in ("answer", "justification")]
        entries[reply["place"]] = [*texts, verdict, judges]
        marks[reply["place"]] = reply["mark"]
    _write_script(building, f"{place}.js", f"(window.modelAnswers ??= {{}})[{place}]", entries)
    return "".join(marks)


def _judge_signs(judge: Mapping[str, object]) -> str:
    answer, reason, note = judge["is_answer_correct"], judge["is_justification_correct"], judge["note"]
    return _SIGNS[answer] + (_SIGNS[reason] if reason is not None or note is not None else "")  # type: ignore[index]


def _write_script(building: Path, name: str, variable: str, entries: Sequence[object]) -> None:
    """Write a line an entry, so that a change of one shows as one."""
    (building / ANSWERS).mkdir(exist_ok=True)
    lines = b"".join(orjson.dumps(entry) + b",\n" for entry in entries)
    (building / ANSWERS / name).write_bytes(b"%s = [\n%s];\n" % (variable.encode(), lines))


def write_compare_page(site: RunSite, items: Sequence[ListedItem], marks: Sequence[str]) -> None:
    """Write the page with its data: ``models``, ``items`` (page, name), ``marks`` (a letter an item, by model),
    ``scores`` (on these items, on new ones) and ``better`` (by pair ``i,j``: percent on these items, percent on new
    ones, and the ends of the intervals of both differences, in points).

    ``marks``: of each row, none where items are not compared.
    """
    folder, board = site.folder, site.board
    columns = ("model", "n_hints", "other", "other_hints", "better", "lower", "upper",
               "better_new", "lower_new", "upper_new")  # fmt: skip
    places = {(row.values["model"], row.hints): place for place, row in enumerate(board.rows)}
    better = {}
    for model, hints, other, other_hints, here, low, high, new, new_low, new_high in table(
        folder, "pairs", columns
    ).iter_rows():
        pair = places.get((model, hints)), places.get((other, other_hints))
        if None not in pair:
            better[f"{pair[0]},{pair[1]}"] = (_percent(here), _percent(new), (low, high), (new_low, new_high))
    if marks:
        texts = [[item.question, item.reference] for item in items]
        _write_script(site.building, "items.js", "window.comparedItems", texts)
    data = {
        "models": [board.name(row) for row in board.rows],
        "items": [[item.name, short_line(item.item_id, 60)] for item in items] if marks else [],
        "marks": marks,
        "better": better,
        "scores": [[row.values.get("set_score"), row.values.get("new_score") or row.values["score"]]
                   for row in board.rows],
    }  # fmt: skip
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    site.write("compare.html", loads=True, data=text)


def _percent(chance: float | None) -> float | None:
    return None if chance is None else round(100 * chance, 1)
