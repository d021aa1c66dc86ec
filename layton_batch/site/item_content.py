"""Parts of an item besides its question: options to choose from, a grid to fill in, a rule, what it is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

import orjson

from layton_batch.site.pages import short_line

_MOST_OPTIONS = len(ascii_uppercase)
_MOST_CELLS = 400


@dataclass(frozen=True, slots=True)
class Grid:
    """The reference of a puzzle whose answer is a table."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class ItemContent:
    """``options``: letter, text, and whether it is the right one; ``rule``: its name, and what it accepts, by what that
    is; ``picarats``: what a riddle is worth; ``definition``: of the item's category."""

    options: tuple[tuple[str, str, bool], ...] = ()
    grid: Grid | None = None
    rule: tuple[str, tuple[tuple[str, str], ...]] | None = None
    picarats: int | None = None
    definition: str = ""


NO_CONTENT = ItemContent()


def item_content(payload: object) -> ItemContent:
    """Read what an item's payload says by its shape, whichever task wrote the payload."""
    if not isinstance(payload, str) or payload in ("", "{}"):
        return NO_CONTENT
    content = _json_object(payload)
    worth, definition = content.get("_picarats"), content.get("category_definition")
    return ItemContent(
        _options(content),
        _grid(content.get("solution")),
        _rule(content),
        worth if isinstance(worth, int) else None,
        short_line(definition, 500) if isinstance(definition, str) else "",
    )


def _json_object(text: str) -> dict[str, object]:
    """Return a JSON object; an empty one for any other text."""
    try:
        content = orjson.loads(text)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


Cells = tuple[tuple[tuple[str, bool], ...], ...]
"""Rows of cells, each with whether it is the solution's."""


def answer_cells(text: str, grid: Grid) -> Cells:
    """Return an answer laid out as the grid is; nothing where it is not of that form: an object of objects, a row each,
    whose name ends with the row's first cell."""
    rows = _named_rows(text)
    if rows.keys() != {row[0] for row in grid.rows}:
        return ()
    return tuple(_row_cells(rows[row[0]], row, grid.heads) for row in grid.rows)


def _row_cells(values: Mapping[str, str], row: Sequence[str], heads: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    cells = [(row[0], True)]
    for head, right in zip(heads[1:], row[1:], strict=True):
        value = values.get(head.lower(), "")
        cells.append((value, value.lower() == right.lower()))
    return tuple(cells)


def _named_rows(text: str) -> dict[str, dict[str, str]]:
    return {
        name.rpartition(" ")[2]: {head.lower(): short_line(value, 100) for head, value in row.items()}
        for name, row in _json_object(text).items()
        if isinstance(row, dict)
    }


def _options(payload: Mapping[str, object]) -> tuple[tuple[str, str, bool], ...]:
    options = payload.get("options")
    if not isinstance(options, list) or len(options) > _MOST_OPTIONS:
        return ()
    gold = payload.get("gold")
    shown = [(letter, short_line(text, 2_000), letter == gold) for letter, text in zip(ascii_uppercase, options)]  # noqa: B905
    idk = payload.get("idk_letter")
    if isinstance(idk, str) and idk not in {letter for letter, _, _ in shown}:
        shown.append((short_line(idk, 3), "I don’t know", False))
    return tuple(shown)


def _grid(solution: object) -> Grid | None:
    if not isinstance(solution, dict):
        return None
    heads, rows = solution.get("header"), solution.get("rows")
    if not isinstance(heads, list) or not isinstance(rows, list) or len(heads) * len(rows) > _MOST_CELLS:
        return None
    if not all(isinstance(row, list) and len(row) == len(heads) for row in rows):
        return None
    return Grid(
        tuple(short_line(head, 100) for head in heads),
        tuple(tuple(short_line(cell, 100) for cell in row) for row in rows),
    )


_REGIONS = {
    "location_fine_grained": "the place itself",
    "location_coarse_grained": "the region around it, which is worth less",
    "fine_grained_score": "worth of the place",
    "coarse_grained_score": "worth of the region",
}


def _rule(payload: Mapping[str, object]) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    name, accepts = payload.get("evaluator"), payload.get("evaluator_kwargs")
    if not isinstance(name, str) or not isinstance(accepts, dict):
        return None
    accepted = (
        (_REGIONS.get(key, key.replace("_", " ")), short_line(_words(value), 1_000)) for key, value in accepts.items()
    )
    return short_line(name.replace("_", " "), 60), tuple((short_line(key, 60), text) for key, text in accepted)


def _words(value: object) -> str:
    """Write a value in words. Alternatives are lists within lists."""
    if isinstance(value, list):
        return " · ".join(" or ".join(map(str, part)) if isinstance(part, list) else str(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
