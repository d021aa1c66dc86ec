"""Right grids, what a reader finds in a reply, what comes of comparing the two, and how a reply can fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec

from layton_batch.errors import DataError
from layton_batch.records import JsonValue


class Tag(StrEnum):
    """The one kind of failure of a prediction; ``NONE`` is a pass."""

    NONE = "none"
    WRONG_ANSWER = "wrong_answer"
    NO_ANSWER = "no_answer"
    MALFORMED_OUTPUT = "malformed_output"  # there is an answer, but not one the protocol can compare
    REFUSED = "refused"
    TRUNCATED = "truncated"  # the output limit cut the reply off; not in agi-evals, which counts it as no_answer
    ADAPTER_ERROR = "adapter_error"  # no reply came
    HARNESS_ERROR = "harness_error"  # the grader failed, or the original's would have


INFRASTRUCTURE = frozenset({Tag.ADAPTER_ERROR, Tag.HARNESS_ERROR})
"""Failures that are not the model's; agi-evals keeps them out of the score."""

_ADAPTER_WORDS = ("timeout", "connection", "http", "api", "rate", "auth", "openai")


def infrastructure_tag(error: str) -> Tag:
    """Attribute an exception as agi-evals does: by words in the name of its class.

    ``error`` is that name, or ``Name: message``. The rule has quirks that are kept: ``CapitalizationError`` has "api"
    in it and counts as the adapter's, ``BrokenPipeError`` as the harness's.
    """
    name = error.partition(":")[0].strip().lower()
    return Tag.ADAPTER_ERROR if any(word in name for word in _ADAPTER_WORDS) else Tag.HARNESS_ERROR


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of the right grid. ``house`` is "House 1" by its place, ``house_key`` "house 1" by its number there."""

    house: str
    house_key: str
    attribute: str
    value: str

    @property
    def label(self) -> str:
        """Name of the cell in a list of wrong cells, "house 1:Name"."""
        return f"{self.house_key}:{self.attribute}"

    @property
    def attribute_key(self) -> str:
        return self.attribute.strip().lower()

    @property
    def value_key(self) -> str:
        return self.value.strip().lower()


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


PRIVATE_SOURCE = "hf://datasets/allenai/ZebraLogicBench-private/grid_mode/test-00000-of-00001.parquet"
"""Address of the gated data set with the solutions, as in a manifest."""
_FORM = '{"header": ["House", attribute, …], "rows": [["1", value, …], …]}'


class _Solution(msgspec.Struct):
    header: Annotated[list[str], msgspec.Meta(min_length=2)]
    rows: Annotated[list[list[str | int | float]], msgspec.Meta(min_length=1)]


def gold_from(solution: JsonValue, where: str) -> GoldGrid:
    """Read the solution of a puzzle, which may be JSON text. Raises DataError that starts with ``where``."""
    try:
        document = msgspec.json.decode(solution) if isinstance(solution, str) else solution
        table = msgspec.convert(document, _Solution)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DataError(f"{where}: column 'solution' must be {_FORM}, also as JSON text ({error})") from error
    header, rows = tuple(table.header), tuple(tuple(map(str, row)) for row in table.rows)
    if header[0].strip().lower() != "house" or {len(row) for row in rows} != {len(header)}:
        raise DataError(f"{where}: column 'solution' must be {_FORM}, with a value for each attribute in each row")
    if not all(value.replace("_", "").strip() for row in rows for value in row[1:]):
        raise DataError(
            f"{where}: the solution is blanked out, as in the public copies of ZebraLogicBench. The solutions are in "
            f"the gated data set {PRIVATE_SOURCE}: ask for access on its page and set HF_TOKEN"
        )
    cells = (
        Cell(f"House {number}", f"house {row[0].strip().lower()}", attribute, value)
        for number, row in enumerate(rows, 1)
        for attribute, value in zip(header[1:], row[1:], strict=True)
    )
    return GoldGrid(header, rows, tuple(cells))


@dataclass(frozen=True, slots=True)
class GridReading:
    """The grid in a reply. ``tag`` is NONE where there is one, else what kind of failure it is that there is none."""

    grid: JsonValue = None
    reasoning: JsonValue = None
    tag: Tag = Tag.NONE
    note: str | None = None


@dataclass(frozen=True, slots=True)
class GridGrade:
    """One reply's grade. Cells are None where the protocol does not count them; ``reasoning_chars`` where it was not
    read."""

    tag: Tag
    cells_correct: int | None = None
    cells_total: int | None = None
    wrong_cells: tuple[str, ...] = ()
    reasoning_chars: int | None = None
    note: str | None = None

    @property
    def score(self) -> float:
        return 1.0 if self.tag is Tag.NONE else 0.0

    @property
    def cell_accuracy(self) -> float | None:
        if self.cells_correct is None or self.cells_total is None:
            return None
        return self.cells_correct / self.cells_total if self.cells_total else 0.0


@dataclass(frozen=True, slots=True)
class GridRules:
    """A protocol: how a reply is read, and how what was read is compared. Neither raises, whatever the text."""

    name: str
    read: Callable[[str], GridReading]
    compare: Callable[[GridReading, GoldGrid], GridGrade]

    def grade(self, text: str, gold: GoldGrid) -> GridGrade:
        """The grade of a reply's text."""
        return self.compare(self.read(text), gold)


def compared(gold: GoldGrid, is_right: Callable[[Cell], bool], reasoning_chars: int) -> GridGrade:
    """The grade of a grid, cell by cell; it passes when all are right."""
    wrong = tuple(cell.label for cell in gold.cells if not is_right(cell))
    total = len(gold.cells)
    tag = Tag.WRONG_ANSWER if wrong or not total else Tag.NONE
    return GridGrade(tag, total - len(wrong), total, wrong, reasoning_chars)


def normal_grid(
    grid: JsonValue, house_key: Callable[[str], str], value_key: Callable[[JsonValue], str]
) -> Mapping[str, Mapping[str, str]]:
    """A grid with normal keys and values; houses that are not objects are left out. Of two keys that become one the
    last counts."""
    if not isinstance(grid, Mapping):
        return {}
    return {
        house_key(house): {attribute.strip().lower(): value_key(value) for attribute, value in row.items()}
        for house, row in grid.items()
        if isinstance(row, Mapping)
    }
