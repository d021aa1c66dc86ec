"""Two models beside each other: the data behind the page that compares them.

Names, marks and probabilities stand in the page; a model's answers in a file of their own, which the page loads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import orjson

from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring.pairs import MOST
from layton_batch.site.explorer import ItemPage, ShownReply
from layton_batch.site.pages import short_line
from layton_batch.site.run_tables import table

MOST_CELLS = 400_000
"""Models times items: beyond it the page leaves out on which items two models differ."""
ANSWERS = "compare"
"""The folder of the models' answers."""
LONGEST_TEXT = 600
"""Characters of a text that the page shows; the item's page has all."""


def comparison_data(
    folder: RunFolder, rows: Sequence[Mapping[str, object]], items: Sequence[tuple[str, str]], marks: Sequence[str]
) -> str:
    """Return JSON of ``models``, ``items`` (page, name), ``marks`` (a letter an item, by model), ``scores`` (on these
    items, on new ones) and ``better`` (by pair ``i,j``: percent on these items, percent on new ones, and the ends of
    the intervals of both differences, in points). Empty where there is nothing to compare.

    ``items``: pages and ids, in the items' order; ``marks``: of each row, none where items are not compared.
    """
    if not has_comparison(folder, len(rows)):
        return ""
    columns = ("model", "n_hints", "other", "other_hints", "better", "lower", "upper",
               "better_new", "lower_new", "upper_new")  # fmt: skip
    keys = [(str(row["model"]), row["n_hints"]) for row in rows]
    place = {key: index for index, key in enumerate(keys)}
    better = {}
    for model, hints, other, other_hints, *numbers in table(folder, "pairs", columns).iter_rows():
        pair = place.get((model, hints)), place.get((other, other_hints))
        if pair[0] is not None and pair[1] is not None:
            here, new = numbers[:3], numbers[3:]
            better[f"{pair[0]},{pair[1]}"] = (_percent(here[0]), _percent(new[0]), here[1:], new[1:])
    one_level = len({hints for _, hints in keys}) == 1
    listed = items if marks else ()
    return json.dumps(
        {
            "models": [short_line(model) + ("" if one_level else f"@{hints}") for model, hints in keys],
            "items": [[page, short_line(item_id, 60)] for page, item_id in listed],
            "marks": marks,
            "better": better,
            "scores": [[row.get("set_score"), row.get("new_score") or row["score"]] for row in rows],
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def compared_item(page: ItemPage) -> bytes:
    """Return the entry of an item: its question and its reference, a line of JSON."""
    reference = page.reference[0][1].text if page.reference else ""
    return orjson.dumps([short_line(page.question.text if page.question else "", LONGEST_TEXT),
                         short_line(reference, LONGEST_TEXT)]) + b",\n"  # fmt: skip


def compared_answer(reply: ShownReply | None) -> bytes:
    """Return the entry of a model's reply to an item, a line of JSON: answer, justification, verdict, and each judge
    with its signs; null without a reply."""
    if reply is None:
        return b"null,\n"
    texts = [short_line(text.text, LONGEST_TEXT) if text else "" for text in (reply.answer, reply.justification)]
    verdict = " · ".join(filter(None, (reply.verdict, reply.vote)))
    judges = [f"{judge.judge} {judge.signs}" for judge in reply.judges if judge.sits]
    return orjson.dumps([*texts, verdict, judges]) + b",\n"


def has_comparison(folder: RunFolder, rows: int) -> bool:
    """Tell whether the board has at least two models and not too many to compare."""
    return 1 < rows <= MOST and not table(folder, "pairs", ("model",)).is_empty()


def compares_items(folder: RunFolder, rows: int, items: int) -> bool:
    """Tell whether the comparison says on which items two models differ."""
    return has_comparison(folder, rows) and 0 < rows * items <= MOST_CELLS


def _percent(chance: float | None) -> float | None:
    return None if chance is None else round(100 * chance, 1)
