"""Two models beside each other: the data behind the page that compares them.

Names, marks and probabilities stand in the page; a model's answers in a file of their own, which the page loads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
import polars as pl

from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring.pairs import MOST
from layton_batch.site.pages import short_line
from layton_batch.site.run_tables import table
from layton_batch.states import PredictionKind

MOST_CELLS = 400_000
"""Models times items: beyond it the page leaves out on which items two models differ."""
ANSWERS = "compare"
"""The folder of the models' answers."""
LONGEST_ANSWER = 300
"""Characters of an answer that the page shows; the item's page has all."""
_Key = tuple[str, object]
_RIGHT, _PARTLY, _WRONG, _NEVER = "1", "2", "0", "-"


def comparison_data(
    folder: RunFolder, rows: Sequence[Mapping[str, object]], items: Sequence[tuple[str, str]], metric: str
) -> str:
    """Return JSON of ``models``, ``items`` (page, name), ``marks`` (a letter an item, by model) and ``better`` (by pair
    ``i,j``: percent on these items, percent on new ones). Empty where there is nothing to compare.

    ``items``: pages and ids, in the items' order.
    """
    if not has_comparison(folder, len(rows)):
        return ""
    pairs = table(folder, "pairs", ("model", "n_hints", "other", "other_hints", "better", "better_new"))
    keys = [(str(row["model"]), row["n_hints"]) for row in rows]
    place = {key: index for index, key in enumerate(keys)}
    better = {}
    for model, hints, other, other_hints, here, new in pairs.iter_rows():
        pair = place.get((model, hints)), place.get((other, other_hints))
        if None not in pair:
            better[f"{pair[0]},{pair[1]}"] = (_percent(here), _percent(new))
    one_level = len({hints for _, hints in keys}) == 1
    listed = _listed(rows, items)
    return json.dumps(
        {
            "models": [short_line(model) + ("" if one_level else f"@{hints}") for model, hints in keys],
            "items": [[page, short_line(item_id, 60)] for page, item_id in listed],
            "marks": _marks(folder, keys, [item_id for _, item_id in listed], metric),
            "better": better,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def write_answers(
    folder: RunFolder, rows: Sequence[Mapping[str, object]], items: Sequence[tuple[str, str]], building: Path
) -> None:
    """Write the answers of each row, in the items' order, as ``compare/<place>.js``.

    An answer is a text, the kind of a reply without an answer in a list, or null.
    """
    listed = _listed(rows, items)
    if not listed:
        return
    (building / ANSWERS).mkdir()
    answers = table(folder, "predictions", ("item_id", "model", "n_hints", "sample", "kind", "answer"))
    first = answers.with_columns(pl.col("answer").str.slice(0, 2 * LONGEST_ANSWER)).sort("sample", maintain_order=True)
    first = first.unique(["item_id", "model", "n_hints"], keep="first")
    for place, row in enumerate(rows):
        is_asked = pl.col("n_hints").eq_missing(row["n_hints"]) | pl.col("n_hints").is_null()
        mine = first.filter(pl.col("model") == row["model"], is_asked).select("item_id", "kind", "answer")
        texts = {item_id: _answer(kind, text) for item_id, kind, text in mine.iter_rows()}
        content = orjson.dumps([texts.get(item_id) for _, item_id in listed])
        script = b"(window.modelAnswers ??= {})[%d] = %s;\n" % (place, content)
        (building / ANSWERS / f"{place}.js").write_bytes(script)


def _answer(kind: str, text: str | None) -> str | list[str]:
    return short_line(text, LONGEST_ANSWER) if kind == PredictionKind.ANSWERED and text else [short_line(kind)]


def _listed(rows: Sequence[object], items: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    return items if len(rows) * len(items) <= MOST_CELLS else ()


def has_comparison(folder: RunFolder, rows: int) -> bool:
    """Tell whether the board has at least two models and not too many to compare."""
    return 1 < rows <= MOST and not table(folder, "pairs", ("model",)).is_empty()


def _percent(chance: float | None) -> float | None:
    return None if chance is None else round(100 * chance, 1)


def _marks(folder: RunFolder, keys: Sequence[_Key], items: Sequence[str], metric: str) -> list[str]:
    """Return a string for each model and hint level: a letter an item, right, partly right, wrong or never judged."""
    if not items:
        return []
    row_of: dict[_Key, int] = {(model, None): at for at, (model, _) in enumerate(keys)}  # before tables told hints
    row_of |= {key: at for at, key in enumerate(keys)}
    column_of = {name: at for at, name in enumerate(items)}
    marks = [[_NEVER] * len(items) for _ in keys]
    columns = ("item_id", "model", "n_hints", "metric", "yes", "total", "vote", "flag")
    for item_id, model, hints, named, yes, total, vote, flag in table(folder, "scores", columns).iter_rows():
        row, column = row_of.get((model, hints)), column_of.get(item_id)
        if named == metric and row is not None and column is not None:
            marks[row][column] = _mark(yes, total, vote, flag)
    return ["".join(letters) for letters in marks]


def _mark(yes: int | None, total: int | None, vote: float | None, flag: str | None) -> str:
    by_jury = yes / total if total and yes is not None else None
    share = vote if total is None else by_jury  # a rule has no total
    if share is None:
        return _WRONG if flag else _NEVER
    return _RIGHT if share >= 1 else _PARTLY if share > 0 else _WRONG
