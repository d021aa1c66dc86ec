"""Item ids in files made elsewhere: what to say of a wrong one."""

from __future__ import annotations

from collections.abc import Collection

from layton_batch.text import first_of

_ADD_1 = "add 1 to each id"


def unknown_item(item_id: str, item_ids: Collection[str]) -> str:
    """Say that no item has this id, which ids items have, and what may be wrong."""
    advice = ""
    if item_id == "0" and "1" in item_ids:
        advice = f". If the file counts from 0, its other rows are on the wrong items: {_ADD_1}"
    elif item_id.removesuffix(".0") in item_ids:
        advice = f". Ids must be the same texts, and {item_id!r} is not {item_id.removesuffix('.0')!r}"
    items = first_of(sorted(item_ids, key=lambda name: (len(name), name)))  # 2 before 10
    return f"there is no item {item_id[:100]!r}; the items are {items}{advice}"


def shift_advice(unanswered: Collection[str], answered: int) -> str:
    """Return what to do if a file counts its rows from 0; nothing unless it lacks exactly the last of items 1, 2, 3 …

    ``unanswered``: ids of the items that the file has no row for; ``answered``: how many rows it has.
    """
    may_count_from_0 = list(unanswered) == [str(answered + 1)]
    return f"; items count from 1: if the file counts from 0, {_ADD_1}" if may_count_from_0 else ""
