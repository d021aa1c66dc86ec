"""zebralogic: who lives in which house, the whole grid at once, graded cell by cell by rule.

Rows have the published columns of ZebraLogicBench's grid mode: ``id, size, puzzle, solution``, where ``solution`` is
``{"header": ["House", attribute …], "rows": [["1", value …] …]}`` or its JSON text; where ids repeat, also ``set``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from layton_batch.errors import DataError
from layton_batch.records import Grade, Item, JsonValue, Prediction, Prompt, Response
from layton_batch.states import FinishReason, PredictionKind
from layton_batch.tasks.benchmark_rows import ItemRow, bundled_file
from layton_batch.tasks.protocol import TaskOptions, TaskSettings
from layton_batch.tasks.reply_json import ENDINGS, is_whole_object, joined, unread
from layton_batch.tasks.templates import Templates, TemplateVariables, block
from layton_batch.tasks.zebralogic.protocols import (
    PROTOCOLS,
    GoldGrid,
    GridGrade,
    GridReading,
    Tag,
    gold_from,
    read_grid,
)
from layton_batch.text import without_surrogates

_SIZES: Mapping[str, frozenset[str]] = {
    "Small": frozenset({"2*2", "2*3", "2*4", "2*5", "2*6", "3*2", "3*3", "4*2"}),
    "Medium": frozenset({"3*4", "3*5", "3*6", "4*3", "4*4", "5*2", "6*2"}),
    "Large": frozenset({"4*5", "5*3", "4*6", "5*4", "6*3"}),
    "XL": frozenset({"5*5", "5*6", "6*4", "6*5", "6*6"}),
}
_EASY = _SIZES["Small"] - {"4*2"}
GROUPS: Mapping[str, frozenset[str]] = {"Easy": _EASY, "Hard": frozenset().union(*_SIZES.values()) - _EASY, **_SIZES}
"""Groups of sizes that ZebraLogic's tables count by (WildEval/ZeroEval). A size outside 2…6 × 2…6 is in none."""
ALL = ("llm", "all")
"""Splits that mean every row; the first is what a manifest without a split says."""
SPLITS = (*ALL, *(name.lower() for name in GROUPS))

_SLOTS = {"question": TemplateVariables("puzzle", "houses grid reasoned_grid")}
_BLANK = "___"
_ORIGINAL_TOKENS = 4096
_BASE_TOKENS, _TOKENS_A_CELL, _TOKEN_STEP = 4096, 768, 1024


@dataclass(frozen=True, slots=True)
class CellGrade(Grade):
    """A grade with the comparison cell by cell."""

    grid: GridGrade = field(kw_only=True)


class ZebraLogicSettings(TaskSettings):
    """``original``: agi-evals; ``zeroeval``: the paper's script."""

    protocol: Literal["corrected", "original", "zeroeval"] = "corrected"


class ZebraLogicTask:
    """The task under one protocol. Splits: ``llm`` or ``all``, or a group of sizes (``easy`` … ``xl``)."""

    name: str = "zebralogic"
    metrics: Sequence[str] = ("puzzle_accuracy", "cell_accuracy")
    uses_jury: Literal[False] = False

    def __init__(self, options: TaskOptions, settings: ZebraLogicSettings = ZebraLogicSettings()) -> None:  # noqa: B008
        options.check(self.name, SPLITS)
        self.protocol: str = settings.protocol
        self.rules = PROTOCOLS[self.protocol]
        self._options = options
        self._templates = Templates(f"zebralogic/{self.protocol}", _SLOTS, options.prompts)

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows of this task's split as items. Where an id is there twice, its set is put before it."""
        split = self._options.split
        items = [(row.get("set"), _item(row, number, split)) for number, row in enumerate(rows, 1)]
        times = Counter(item.id for _, item in items)
        sizes = dict(zip(SPLITS[len(ALL) :], GROUPS.values(), strict=True)).get(split)
        return [
            item if times[item.id] == 1 else _with_set(item, name)
            for name, item in items
            if sizes is None or item.category in sizes
        ]

    def bundled(self, split: str) -> Path:
        return bundled_file("zebralogic/puzzles.jsonl", split, SPLITS)

    def stratum(self, item: Item) -> str:
        """The grid's size: the benchmark has as many puzzles of each."""
        return item.category or ""

    def prompt(self, item: Item) -> Prompt:
        """One user text; the puzzle is fenced in the corrected protocol, and stands as it is in the published ones."""
        gold = gold_of(item)
        puzzle = without_surrogates(item.question).strip()
        form = {"solution": {house: dict.fromkeys(row, _BLANK) for house, row in _right_grid(gold).items()}}
        question = self._templates.render(
            "question",
            puzzle=block(puzzle) if self.protocol == "corrected" else puzzle,
            houses=len(gold.rows),
            grid=_pretty(form),
            reasoned_grid=_pretty({"reasoning": _BLANK, **form}),
        )
        return Prompt(system="", parts=(question,))

    def output_tokens(self, item: Item) -> int:
        """An output limit with room for reasoning that is written out: it grows with the grid.

        2*2 gets 7,168 tokens and 6*6 31,744. The original protocol gives every puzzle 4,096.
        """
        if self.protocol == "original":
            return _ORIGINAL_TOKENS
        wanted = _BASE_TOKENS + _TOKENS_A_CELL * len(gold_of(item).cells)
        return -(-wanted // _TOKEN_STEP) * _TOKEN_STEP

    def parse(self, item: Item, model: str, response: Response) -> Prediction:
        """``answered`` with the grid as JSON text; ``unparsed`` with the reason in the note; ``missing`` without a
        reply. A reply that the output limit cut off says so in the note."""
        prediction = unread(item, model, response)
        if prediction.kind is PredictionKind.MISSING:
            return prediction
        reading = read_grid(self.rules, self._counted_text(prediction.raw_text, prediction.ending))
        note = joined(prediction.note, reading.note)
        if reading.tag is not Tag.NONE:
            return replace(prediction, note=note)
        reasoning = without_surrogates(reading.reasoning) if isinstance(reading.reasoning, str) else None
        answered = replace(prediction, kind=PredictionKind.ANSWERED, note=note)
        return replace(answered, answer=_shown(reading), justification=reasoning or None)

    def grade(self, item: Item, prediction: Prediction) -> CellGrade:
        """The marks are the share of solved puzzles and of right cells; the tag is one of ``Tag`` but "none"."""
        try:
            gold = gold_of(item)
        except DataError as error:
            return self.cell_grade(prediction, GridGrade(Tag.HARNESS_ERROR, note=str(error)))
        if prediction.kind is PredictionKind.MISSING:
            return self.cell_grade(prediction, GridGrade(Tag.ADAPTER_ERROR, note=prediction.note))
        text = self._counted_text(prediction.raw_text, prediction.ending)
        return self.cell_grade(prediction, self.rules.grade(text, gold))

    def _counted_text(self, text: str | None, ended: FinishReason | None) -> str:
        """Return the text that is read. In the corrected protocol a cut reply counts only if it is one whole object."""
        if text is None or (
            ended is FinishReason.LENGTH and self.protocol == "corrected" and not is_whole_object(text)
        ):
            return ""
        return text

    def cell_grade(self, prediction: Prediction, grid: GridGrade) -> CellGrade:
        """Return the grade of a prediction from its grid's grade and from how its reply ended.

        A pass stays one, for its grid is whole. The published protocols have no tags for a reply that was cut or
        refused.
        """
        ended, has_tags = prediction.ending, self.protocol == "corrected"
        if ended is FinishReason.LENGTH and grid.tag is not Tag.NONE:
            tag, note = (Tag.TRUNCATED if has_tags else grid.tag), joined(ENDINGS[ended], grid.note)
            grid = replace(grid, tag=tag, note=note)
        elif ended is FinishReason.REFUSAL and grid.tag is Tag.NO_ANSWER:
            grid = replace(grid, tag=Tag.REFUSED if has_tags else grid.tag, note=prediction.note)
        marks = dict(zip(self.metrics, (grid.score, grid.cell_accuracy or 0.0), strict=True))
        failure = None if grid.tag is Tag.NONE else grid.tag.value
        wrong = f"wrong: {', '.join(grid.wrong_cells)}" if grid.wrong_cells else None
        return CellGrade(prediction.item_id, prediction.model, marks, failure, grid.note or wrong, grid=grid)


def gold_of(item: Item) -> GoldGrid:
    """Return the right grid of an item. Raises DataError where its payload has none."""
    return gold_from(item.payload.get("solution"), f"item {item.id!r}")


# ---- rows to items -------------------------------------------------------------------------------------------------


def _item(columns: Mapping[str, JsonValue], number: int, split: str) -> Item:
    row = ItemRow.numbered(columns, number)
    item_id, puzzle = row.id("id"), row.needed("puzzle")
    gold = gold_from(columns.get("solution"), row.place)
    solution: JsonValue = {"header": list(gold.header), "rows": [list(values) for values in gold.rows]}
    return Item(
        id=item_id,
        split=split,
        category=gold.size,
        question=puzzle,
        answer=json.dumps(_right_grid(gold), ensure_ascii=False),
        payload={"size": gold.size, "solution": solution},
    )


def _with_set(item: Item, name: JsonValue) -> Item:
    if not isinstance(name, str) or not name.isprintable():
        return item  # the check of ids says that it is there twice
    return replace(item, id=f"{name}:{item.id}")


def _right_grid(gold: GoldGrid) -> dict[str, dict[str, str]]:
    grid: dict[str, dict[str, str]] = {}
    for cell in gold.cells:
        grid.setdefault(cell.house, {})[cell.attribute] = cell.value
    return grid


# ---- texts ---------------------------------------------------------------------------------------------------------


def _pretty(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=4, ensure_ascii=False)


def _shown(reading: GridReading) -> str:
    """The grid as one line of JSON, for people; grading reads the raw text. What nests deeper is left out."""
    grid = reading.grid
    if not isinstance(grid, Mapping):
        return f"not a grid but {type(grid).__name__}"
    flat = {
        house: {name: value if _is_flat(value) else "…" for name, value in row.items()}
        for house, row in grid.items()
        if isinstance(row, Mapping)
    }
    return without_surrogates(json.dumps(flat, ensure_ascii=False))


def _is_flat(value: JsonValue) -> bool:
    return value is None or isinstance(value, str | int | float)
