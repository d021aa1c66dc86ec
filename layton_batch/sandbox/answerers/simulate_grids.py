"""Made-up models at logic grids: solved, partly wrong, in the wrong form, or cut off, which long grids are more often.

A wrong grid is a right one with the values of some attributes exchanged between two houses: it uses every value once,
as a solver's slip does, and most of its cells are right. The harder the puzzle for the model, the more is exchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from layton_batch.sandbox.answerers.exercises import Attempt, UnfitRow
from layton_batch.sandbox.answerers.reply_forms import ReplyForm, ReplyText
from layton_batch.sandbox.answerers.riddle_lookup import Row, text_of
from layton_batch.sandbox.answerers.stock_reasoning import Truth

Grid = dict[str, dict[str, str]]

_USUAL_CELLS, _CELLS_A_LOGIT = 12, 9
_DIFFICULTY_SPREAD = 0.5
_LOST_HOUSE = 0.08
"""Of the wrong grids so many lack their last house."""
_CUT_A_CELL = 0.004
"""How much every cell adds to the chance that a weak model's reply runs into the output limit."""
_REASONED = '"reasoning"'


def is_grid(row: Row) -> bool:
    return "puzzle" in row and "solution" in row


def puzzle_from(row: Row) -> Puzzle:
    """The puzzle of a row in ZebraLogicBench's columns. Raises UnfitRow where the solution is no table."""
    table = row["solution"]
    if isinstance(table, str):
        table = json.loads(table)
    header, rows = (table.get(name) for name in ("header", "rows")) if isinstance(table, Mapping) else (None, None)
    if not (isinstance(header, list) and isinstance(rows, list) and rows):
        raise UnfitRow("column 'solution' has no header and rows")
    if not all(isinstance(values, list) and len(values) == len(header) > 1 for values in rows):
        raise UnfitRow("the rows of 'solution' are not as long as its header")
    name = ":".join(part for part in (text_of(row, "set"), text_of(row, "id")) if part)
    houses = tuple(tuple(map(str, values)) for values in rows)
    return Puzzle(name or text_of(row, "puzzle"), text_of(row, "puzzle"), tuple(map(str, header[1:])), houses)


@dataclass(frozen=True, slots=True)
class Puzzle:
    """`houses`: of every house its number and then its values, in the order of `attributes`."""

    kind: ClassVar[str] = "grid"
    id: str
    text: str
    attributes: tuple[str, ...]
    houses: tuple[tuple[str, ...], ...]
    image: str = ""

    @property
    def cells(self) -> int:
        return len(self.attributes) * len(self.houses)

    def say(self, prompt: str, attempt: Attempt) -> ReplyText:
        weakness = min(1.0, max(0.0, 1 - attempt.strength(0.0) / 2.5))
        form = attempt.form(
            {ReplyForm.TRUNCATED: _CUT_A_CELL * self.cells * weakness, ReplyForm.PROSE: 0.05 * weakness}
        )
        if form is ReplyForm.REFUSED:
            return attempt.refusal()
        difficulty = attempt.difficulty((self.cells - _USUAL_CELLS) / _CELLS_A_LOGIT, _DIFFICULTY_SPREAD)
        solved = attempt.solves(difficulty)
        grid = self.grid() if solved else self.wrong_grid(attempt, difficulty)
        truth = Truth.RIGHT if solved else Truth.WRONG
        return _said(grid, form, truth, attempt, self, reasoned=_REASONED in prompt)

    def grid(self) -> Grid:
        return {f"House {number}": dict(zip(self.attributes, values, strict=True)) for number, *values in self.houses}

    def wrong_grid(self, attempt: Attempt, difficulty: float) -> Grid:
        """Never the right one: every exchange is in another attribute, so that none undoes another."""
        grid = self.grid()
        names = list(grid)
        most = 1 + max(0.0, -attempt.strength(difficulty)) * len(self.attributes) / 3
        count = min(len(self.attributes), 1 + int(most * attempt.draw("exchanges")))
        order = sorted(self.attributes, key=lambda attribute: attempt.draw("order", attribute))
        for attribute in order[:count]:
            first = attempt.pick(names, "first", attribute)
            other = attempt.pick([name for name in names if name != first] or names, "second", attribute)
            grid[first][attribute], grid[other][attribute] = grid[other][attribute], grid[first][attribute]
        if grid == self.grid():  # one house only, or equal values
            grid[names[0]][self.attributes[0]] = "unknown"
        elif len(names) > 2 and attempt.draw("lost") < _LOST_HOUSE:
            del grid[names[-1]]
        return grid


def _said(grid: Grid, form: ReplyForm, truth: Truth, attempt: Attempt, puzzle: Puzzle, *, reasoned: bool) -> ReplyText:
    opening, closing = attempt.thoughts(truth)
    steps = _steps(puzzle, attempt)
    thoughts = f"{opening} {steps} {closing}"
    envelope: Mapping[str, object] = {"solution": grid}
    if reasoned:
        envelope = {"reasoning": thoughts, **envelope}
    body = json.dumps(envelope, ensure_ascii=False, indent=2)
    before = "" if reasoned else f"{thoughts}\n\n"
    if form is ReplyForm.TRUNCATED:
        return attempt.cut(f"{before}```json\n{body}\n```", 0.35, 0.92)
    if form is ReplyForm.UNSTRUCTURED:
        return ReplyText(f"{thoughts}\n\n{_table(grid, puzzle.attributes)}")
    if form is ReplyForm.SLIP:
        return ReplyText(f"{before}```json\n{_with_slip(body, attempt)}\n```")
    if form is ReplyForm.PROSE:
        return ReplyText(f"{before}{_in_prose(grid, body, attempt)}")
    # A prompt that wants the reasoning inside asks for bare JSON, another for a code block; FENCED is the other way.
    fenced = reasoned if form is ReplyForm.FENCED else not reasoned
    return ReplyText(f"{before}```json\n{body}\n```" if fenced else f"{before}{body}")


def _in_prose(grid: Grid, body: str, attempt: Attempt) -> str:
    """The grid where a strict reader may not look for it: between sentences, without its envelope, after a draft."""
    bare = json.dumps(grid, ensure_ascii=False)
    return attempt.pick(
        [
            f"The grid is this:\n\n{body}\n\nLet me know if you would like the steps in more detail.",
            f"```json\n{bare}\n```\n\nEvery clue was checked once more.",
            f'My draft was {{"solution": {{"House 1": {{}}}}}}, which I take back. The grid:\n\n```json\n{body}\n```',
        ],
        "prose",
    )


def _with_slip(body: str, attempt: Attempt) -> str:
    """JSON with one error in it that no reader has to mend."""
    return attempt.pick([body.replace('"', "'"), body.replace("}", ",}"), body.replace('": "', '" "')], "slip")


def _steps(puzzle: Puzzle, attempt: Attempt) -> str:
    """Write some words for every house, so that a longer grid makes a longer reply."""
    words = ("is fixed by what its neighbours leave over", "follows from the clues about it", "is what is left then")
    return " ".join(f"House {number} {attempt.pick(words, 'step', number)}." for number, *_ in puzzle.houses)


def _table(grid: Grid, attributes: Sequence[str]) -> str:
    lines = [" | ".join(("House", *attributes)), " | ".join("-" for _ in ("", *attributes))]
    lines += [" | ".join((name, *map(row.__getitem__, attributes))) for name, row in grid.items()]
    return "\n".join(f"| {line} |" for line in lines)
