"""Messages on wrong rows of a file: the first in full, then how many more there are, and where."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from layton_batch.errors import DataError
from layton_batch.text import first_of

Row = TypeVar("Row")
Parsed = TypeVar("Parsed")

_PLACES_SHOWN = 5
_PLACE = re.compile(r"(?:line|row|element) [0-9,]+")


def with_more(first: str, faults: Sequence[str]) -> str:
    """Add to the message on a wrong row how many further ``faults`` there are, and the places of the first of them."""
    if not faults:
        return first
    places = [place[0] for fault in faults[:_PLACES_SHOWN] if (place := _PLACE.search(fault)) is not None]
    listed = f": {', '.join(places)}{', …' if len(faults) > _PLACES_SHOWN else ''}" if places else ""
    return f"{first}; {len(faults):,} more wrong {'row' if len(faults) == 1 else 'rows'}{listed}"


def parse_each(rows: Iterable[Row], parse: Callable[[Row], Parsed]) -> list[Parsed]:
    """Parse every row. Raises DataError for the first wrong one, with the number and the places of the others."""
    parsed, faults = list[Parsed](), list[DataError]()
    for row in rows:
        try:
            parsed.append(parse(row))
        except DataError as error:
            faults.append(error)
    if faults:
        first, *further = map(str, faults)
        raise DataError(with_more(first, further)) from faults[0]
    return parsed


def unknown_item(item_id: str, item_ids: Collection[str]) -> str:
    """Say that no item has this id, and which ids items have."""
    return f"there is no item {item_id[:100]!r}; the items are {first_of(sorted(item_ids, key=_by_number))}"


def _by_number(item_id: str) -> tuple[int, str]:
    return len(item_id), item_id  # 2 before 10
