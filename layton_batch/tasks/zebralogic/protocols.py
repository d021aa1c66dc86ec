"""Right grids, and the three protocols by which a reply's grid is read and compared with one.

``corrected``: the last grid of a reply counts, whatever stands around it. Nothing within a thought counts, and nothing
is repaired. Raw line breaks in strings and braces in prose do no harm.

``original``: agi-evals 0.1.0, quirks included. The first acceptable JSON object wins, and lists of wrong cells end
after 20.

``zeroeval``: the ZebraLogic paper (WildEval/ZeroEval, src/evaluation/zebra_grid_eval.py). Of one reply braces are
counted also inside strings, the last complete group is read, line breaks are deleted first. Where the paper's script
would stop with an exception, the reply is ``malformed_output``: answered, and not solved.

Of several samples of one puzzle those without a readable solution are dropped first; none left is "no answer", and a
single sample counts, whatever the mode. Two faults of the script are not kept: a puzzle with one readable sample
switched the mode off for all puzzles after it, and ``best_of_n`` stopped at a value written as a list.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from layton_batch.tasks.reply_json import objects, without_thoughts


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


class GridProtocol(ABC):
    """The reading of a reply, and the comparison of what was read. Neither raises, whatever the text."""

    name: str

    @abstractmethod
    def read(self, text: str) -> GridReading:
        """Find the grid in a reply's text."""

    @abstractmethod
    def comparison(self, grid: JsonValue) -> Callable[[Cell], bool]:
        """Return the function that tells whether a grid has a cell of the right one."""

    def length(self, reasoning: JsonValue) -> int:
        """Return the characters of the reasoning."""
        return len(reasoning) if isinstance(reasoning, str) else 0

    def compare(self, reading: GridReading, gold: GoldGrid) -> GridGrade:
        """Grade what was read, cell by cell; it passes when all are right. Without a grid all cells are wrong."""
        tag, total = reading.tag, len(gold.cells)
        is_right = self.comparison(reading.grid) if tag is Tag.NONE else lambda _: False
        chars = self.length(reading.reasoning) if tag is Tag.NONE else None
        wrong = tuple(cell.label for cell in gold.cells if not is_right(cell))
        if tag is Tag.NONE and (wrong or not total):
            tag = Tag.WRONG_ANSWER
        return GridGrade(tag, total - len(wrong), total, wrong, chars, reading.note)

    def grade(self, text: str, gold: GoldGrid) -> GridGrade:
        """Grade a reply's text."""
        return self.compare(read_grid(self, text), gold)


@lru_cache(maxsize=1)  # parsing and grading a reply read it in turn
def read_grid(protocol: GridProtocol, text: str) -> GridReading:
    """Find the grid in a reply's text by a protocol."""
    return protocol.read(text)


def _normal_grid(
    grid: JsonValue, house_key: Callable[[str], str], value_key: Callable[[JsonValue], str]
) -> Mapping[str, Mapping[str, str]]:
    """A grid with normal keys and values; houses that are not objects are left out. Of two keys that become one the
    last counts."""
    rows = {house: row for house, row in grid.items() if isinstance(row, Mapping)} if isinstance(grid, Mapping) else {}
    return {
        house_key(house): {attribute.strip().lower(): value_key(value) for attribute, value in row.items()}
        for house, row in rows.items()
    }


# ---- corrected -----------------------------------------------------------------------------------------------------


class _Corrected(GridProtocol):
    """Keys and values in lower case, with blanks collapsed. Houses are counted from 1."""

    name = "corrected"

    def read(self, text: str) -> GridReading:
        """Read the last JSON object with a house 1, in its ``solution`` or in itself."""
        reading = GridReading(tag=Tag.NO_ANSWER, note="no JSON object with houses found")
        for holder, *_ in objects(without_thoughts(text)):
            for grid in (holder, holder.get("solution")):
                if isinstance(grid, Mapping) and any(_plain(key) == "house 1" for key in grid):
                    reading = GridReading(grid, holder.get("reasoning"))
        return reading

    def comparison(self, grid: JsonValue) -> Callable[[Cell], bool]:
        plain = _normal_grid(grid, _plain, lambda value: _plain(value) if isinstance(value, str) else "")
        return lambda cell: plain.get(cell.house.lower(), {}).get(cell.attribute_key) == _plain(cell.value)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


# ---- original: agi-evals -------------------------------------------------------------------------------------------

MAX_WRONG_CELLS = 20
_FENCED = re.compile(r"```(?:json)?(?>\s*\n)(.*?)```", re.DOTALL)
"""A fenced block. The original backtracks over blanks, in quadratic time, and finds the same."""


class _Original(GridProtocol):
    """Keys and values in lower case and stripped. Replies without a grid have no cell counts."""

    name = "original"

    def read(self, text: str) -> GridReading:
        """The first fenced block, else the span from the first to the last brace, that is strict JSON with a house
        key."""
        for candidate in (*_FENCED.findall(text), text[max(0, text.find("{")) : text.rfind("}") + 1]):
            try:
                value = json.loads(candidate)
            except RecursionError:
                return GridReading(tag=Tag.HARNESS_ERROR, note="JSON nested too deep for the original's reader")
            except ValueError:
                continue
            grid = value.get("solution", value) if isinstance(value, Mapping) else None
            if isinstance(grid, Mapping) and any(key.lower().startswith("house") for key in grid):
                return GridReading(grid, value.get("reasoning"))
        return GridReading(tag=Tag.NO_ANSWER, note="no JSON solution grid found")

    def comparison(self, grid: JsonValue) -> Callable[[Cell], bool]:
        # null becomes "none" and a list "['x']", as in the original
        keyed = _normal_grid(
            grid, lambda key: re.sub(r"\s+", " ", key.strip().lower()), lambda value: str(value).strip().lower()
        )
        return lambda cell: keyed.get(cell.house_key, {}).get(cell.attribute_key) == cell.value_key

    def compare(self, reading: GridReading, gold: GoldGrid) -> GridGrade:
        if reading.tag is not Tag.NONE:
            return GridGrade(reading.tag, note=reading.note)
        try:
            grade = super().compare(reading, gold)
        except RecursionError:
            return GridGrade(Tag.HARNESS_ERROR, note="a value nested too deep to compare")
        return replace(grade, wrong_cells=grade.wrong_cells[:MAX_WRONG_CELLS])


# ---- zeroeval: the paper's script ----------------------------------------------------------------------------------

_BRACE = re.compile(r"[{}]")
_STOPS = (TypeError, AttributeError, LookupError)
"""Errors of a value that the paper's script cannot compare: it stops there."""


class _ZeroEval(GridProtocol):
    """Keys as they are, values in lower case and stripped; houses are counted from 1, whatever the gold calls them."""

    name = "zeroeval"

    def read(self, text: str) -> GridReading:
        """The last complete top-level ``{…}`` group, if it is JSON with a ``solution`` that is not null."""
        group = _last_group(text)
        if group is None:
            return GridReading(tag=Tag.NO_ANSWER, note="no complete {...} group")
        try:
            value = json.loads(group.replace("\n", ""))
        except RecursionError:
            return GridReading(tag=Tag.MALFORMED_OUTPUT, note="JSON nested too deep for the paper's script")
        except ValueError:
            return GridReading(tag=Tag.NO_ANSWER, note="the last {...} group is not JSON")
        if not isinstance(value, Mapping) or value.get("solution") is None:
            return GridReading(tag=Tag.NO_ANSWER, note="no solution in the last {...} group")
        return GridReading(value["solution"], value.get("reasoning", ""))

    def length(self, reasoning: Any) -> int:
        return len(reasoning)

    def comparison(self, grid: JsonValue) -> Callable[[Cell], bool]:
        def is_right(cell: Cell) -> bool:
            value = _value(grid, cell)
            return value is not None and len(value) > 0 and _text(value) == cell.value_key

        return is_right

    def compare(self, reading: GridReading, gold: GoldGrid) -> GridGrade:
        try:
            return super().compare(reading, gold)
        except _STOPS as error:
            return super().compare(_stopped(error), gold)


def _stopped(error: Exception) -> GridReading:
    return GridReading(tag=Tag.MALFORMED_OUTPUT, note=f"{type(error).__name__}: {error}")


def _last_group(text: str) -> str | None:
    depth = start = 0
    span: tuple[int, int] | None = None
    for match in _BRACE.finditer(text):
        if match.group() == "{":
            start = start if depth else match.start()
            depth += 1
        elif depth:
            depth -= 1
            span = span if depth else (start, match.end())
    return text[slice(*span)] if span else None


def _value(grid: Any, cell: Cell) -> Any:
    """Return the grid's value of a cell as the script finds it; None without one."""
    if cell.house not in grid or cell.attribute not in grid[cell.house]:
        return None
    return grid[cell.house][cell.attribute]


def _text(value: Any) -> str:
    """Return a value in lower case; a list stands for its first value."""
    return str.lower((value[0] if isinstance(value, list) else value).strip())


CORRECTED, ORIGINAL, ZEROEVAL = _Corrected(), _Original(), _ZeroEval()
PROTOCOLS: Mapping[str, GridProtocol] = {protocol.name: protocol for protocol in (CORRECTED, ORIGINAL, ZEROEVAL)}
"""The protocols by name; the first is the default."""


# ---- several samples of one puzzle, made one answer ----------------------------------------------------------------


BEST_OF_N, MAJORITY_OF_N = "best_of_n", "majority_of_n"
MODES = (BEST_OF_N, MAJORITY_OF_N)
"""The script's modes that are known here; the first is its default."""


def grade_samples(texts: Sequence[str], gold: GoldGrid, mode: str = BEST_OF_N) -> GridGrade:
    """Return the grade of one or more replies to a puzzle."""
    readings = [ZEROEVAL.read(text) for text in texts]
    readable = [reading for reading in readings if reading.tag is not Tag.NO_ANSWER] or readings[:1]
    if mode == BEST_OF_N:  # most right cells; of equal samples the first
        return max(
            (ZEROEVAL.compare(reading, gold) for reading in readable), key=lambda grade: grade.cells_correct or 0
        )
    unfit = [reading for reading in readable if reading.tag is not Tag.NONE]
    try:
        return ZEROEVAL.compare((unfit or readable)[0] if unfit or len(readable) == 1 else _voted(readable, gold), gold)
    except _STOPS as error:
        return ZEROEVAL.compare(_stopped(error), gold)


def _voted(samples: Sequence[GridReading], gold: GoldGrid) -> GridReading:
    """A grid of each cell's most frequent value, the first named of equals; its reasoning is the first sample's."""
    rows: dict[str, dict[str, JsonValue]] = {}
    for cell in gold.cells:
        values = (_value(reading.grid, cell) for reading in samples)
        counts = Counter(_text(value) for value in values if value is not None)
        rows.setdefault(cell.house, {})[cell.attribute] = counts.most_common(1)[0][0] if counts else None
    return GridReading({**rows}, samples[0].reasoning)
