"""The right grid of a puzzle: ``{"header": ["House", attribute …], "rows": [["1", value …] …]}``, also as JSON
text; and the groups of sizes that ZebraLogic's tables count by (WildEval/ZeroEval).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from layton_batch.errors import DataError
from layton_batch.records import JsonValue

HOUSE = "House"
PRIVATE_SOURCE = "hf://datasets/allenai/ZebraLogicBench-private/grid_mode/test-00000-of-00001.parquet"
"""The gated data set with the solutions, as a manifest names it."""

_BLANK = re.compile(r"[_\s]*")
_NUMBERED_HOUSE = re.compile(r"house[\s_-]{0,3}0{0,3}(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of the right grid. ``house`` is "House 1" by its place, ``label`` "house 1:Name" by its number in the
    gold."""

    house: str
    attribute: str
    value: str
    label: str
    house_key: str  # these three lower-case and stripped
    attribute_key: str
    value_key: str
    tolerant_house: str  # as ``tolerant_house_key`` has it
    tolerant_value: str  # lower-case, blanks collapsed


@dataclass(frozen=True, slots=True)
class GoldGrid:
    """The right grid, house by house. ``rows`` have the house's number first, as ``header`` has ``House``."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    cells: tuple[Cell, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of all cells, as in a list of wrong cells."""
        return tuple(cell.label for cell in self.cells)

    @property
    def size(self) -> str:
        """Houses × attributes in the data set's notation, "3*4"."""
        return f"{len(self.rows)}*{len(self.header) - 1}"


def gold_from(solution: JsonValue, where: str) -> GoldGrid:
    """The solution column of a row. Raises DataError that starts with ``where``."""
    table = _table(solution, where)
    header = _texts(table.get("header"), f"{where}: solution.header")
    listed = table.get("rows")
    if not isinstance(listed, list) or not listed:
        raise DataError(f"{where}: solution.rows must be an array with one array of values a house")
    rows = tuple(_texts(row, f"{where}: solution.rows[{number}]") for number, row in enumerate(listed))
    if len(header) < 2 or header[0].strip().lower() != HOUSE.lower():
        raise DataError(f"{where}: solution.header must be {HOUSE!r} and at least one attribute, not {list(header)}")
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise DataError(f"{where}: solution.rows[{number}] has {len(row)} values for {len(header)} columns")
    if any(_BLANK.fullmatch(value) for row in rows for value in row[1:]):
        raise DataError(
            f"{where}: the solution is blanked out, as in the public copies of ZebraLogicBench. The solutions are in "
            f"the gated data set {PRIVATE_SOURCE}: ask for access on its page and set HF_TOKEN"
        )
    cells = tuple(_cell(header, row, house, place) for house, row in enumerate(rows, 1) for place in range(1, len(row)))
    return GoldGrid(header, rows, cells)


def house_number(key: str) -> int | None:
    """The number in a key such as "House 1", "house1", "House_01"; None in any other key."""
    numbered = _NUMBERED_HOUSE.fullmatch(" ".join(key.lower().split()))
    return int(numbered.group(1)) if numbered else None


def tolerant_house_key(key: str) -> str:
    """ "house 1" however it is written; other keys in lower case with blanks collapsed."""
    number = house_number(key)
    return " ".join(key.lower().split()) if number is None else f"house {number}"


def _table(solution: JsonValue, where: str) -> Mapping[str, JsonValue]:
    if isinstance(solution, str):
        try:
            solution = json.loads(solution)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: column 'solution' is text but not JSON ({error})") from error
    if not isinstance(solution, Mapping):
        raise DataError(f"{where}: column 'solution' must be an object with header and rows, or that as JSON text")
    return solution


def _texts(values: JsonValue, where: str) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise DataError(f"{where} must be an array of texts")
    if any(isinstance(value, bool) or not isinstance(value, str | int | float) for value in values):
        raise DataError(f"{where} must hold texts only")
    return tuple(str(value) for value in values)


def _cell(header: tuple[str, ...], row: tuple[str, ...], house: int, place: int) -> Cell:
    attribute, value = header[place], row[place]
    key = f"house {row[0].strip().lower()}"
    return Cell(
        house=f"{HOUSE} {house}",
        attribute=attribute,
        value=value,
        label=f"{key}:{attribute}",
        house_key=key,
        attribute_key=attribute.strip().lower(),
        value_key=value.strip().lower(),
        tolerant_house=tolerant_house_key(key),
        tolerant_value=" ".join(value.lower().split()),
    )


# ---- groups of sizes -----------------------------------------------------------------------------------------------


_SMALL = "2*2 2*3 2*4 2*5 2*6 3*2 3*3 4*2"
_MEDIUM = "3*4 3*5 3*6 4*3 4*4 5*2 6*2"
_LARGE = "4*5 5*3 4*6 5*4 6*3"
_XL = "5*5 5*6 6*4 6*5 6*6"

SMALL, MEDIUM, LARGE, XL = (frozenset(sizes.split()) for sizes in (_SMALL, _MEDIUM, _LARGE, _XL))
EASY = SMALL - {"4*2"}
HARD = (SMALL | MEDIUM | LARGE | XL) - EASY

GROUPS: Mapping[str, frozenset[str]] = {
    "Easy": EASY,
    "Hard": HARD,
    "Small": SMALL,
    "Medium": MEDIUM,
    "Large": LARGE,
    "XL": XL,
}
"""By the names the tables have for them. A size outside 2…6 × 2…6 is in none."""
