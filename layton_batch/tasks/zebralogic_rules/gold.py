"""The right grid of a puzzle: ``{"header": ["House", attribute …], "rows": [["1", value …] …]}``, also as JSON text."""

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


@dataclass(frozen=True, slots=True)
class Gold:
    """The right grid, house by house. ``rows`` have the house's number first, as ``header`` has ``House``."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    cells: tuple[Cell, ...]

    @property
    def size(self) -> str:
        """Houses × attributes in the data set's notation, "3*4"."""
        return f"{len(self.rows)}*{len(self.header) - 1}"


def gold_from(solution: JsonValue, where: str) -> Gold:
    """The solution column of a row. Raises DataError that starts with ``where``."""
    table = _table(solution, where)
    header = _texts(table.get("header"), f"{where}: solution.header")
    found = table.get("rows")
    if not isinstance(found, list) or not found:
        raise DataError(f"{where}: solution.rows must be an array with one array of values a house")
    rows = tuple(_texts(row, f"{where}: solution.rows[{number}]") for number, row in enumerate(found))
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
    return Gold(header, rows, cells)


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
    )
