"""Who answers in the sandbox: made-up models by default, recorded ones where recordings are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.sandbox.answerers.exercises import RuleQuestion
from layton_batch.sandbox.answerers.questions import Answerer
from layton_batch.sandbox.answerers.replay import ReplayAnswerer
from layton_batch.sandbox.answerers.riddle_lookup import (
    Riddle,
    Row,
    UnreadableRows,
    is_question,
    is_riddle,
    question_from,
    read_rows,
    riddle_from,
)
from layton_batch.sandbox.answerers.simulate import SimulateAnswerer
from layton_batch.sandbox.answerers.simulate_grids import is_grid, puzzle_from
from layton_batch.sandbox.answerers.simulate_mcq import choice_from, is_choice
from layton_batch.sandbox.answerers.simulate_rules import is_rule, rule_from

_KINDS: tuple[tuple[Callable[[Row], bool], Callable[[Row], RuleQuestion]], ...] = (
    (is_rule, rule_from),
    (is_grid, puzzle_from),
    (is_choice, choice_from),
)
_KNOWN = (
    "columns id and description are needed for a riddle; question, options and answer for multiple choice; puzzle and "
    "solution for a logic grid; question, evaluator and evaluator_kwargs for an evaluator's item; question otherwise"
)


@dataclass(frozen=True, slots=True)
class Items:
    """Contents of the item files, in their order."""

    riddles: tuple[Riddle, ...]
    exercises: tuple[RuleQuestion, ...]


def load_items(paths: Iterable[Path]) -> Items:
    """Every item of the JSONL files. Raises UnreadableRows at the first line that is none."""
    riddles: list[Riddle] = []
    exercises: list[RuleQuestion] = []
    for path in paths:
        for number, row in read_rows(path):
            if is_riddle(row):
                riddles.append(riddle_from(row))
            elif (read := next((read for is_kind, read in _KINDS if is_kind(row)), None)) is not None:
                exercises.append(_exercise(read, row, f"{path}, line {number}"))
            elif is_question(row):
                riddles.append(question_from(row))
            else:
                raise UnreadableRows(f"{path}, line {number}: not an item of a known form; {_KNOWN}")
    return Items(tuple(riddles), tuple(exercises))


def _exercise(read: Callable[[Row], RuleQuestion], row: Row, where: str) -> RuleQuestion:
    try:
        return read(row)
    except (ValueError, RecursionError) as error:
        raise UnreadableRows(f"{where}: {error}") from error


def default_answerer(seed: int = 0) -> Answerer:
    """Simulated models that know no riddle: plausible replies to whatever is asked."""
    return SimulateAnswerer((), seed)


def answerer_from_files(
    replay: Sequence[Path] = (), items: Sequence[Path] = (), seed: int = 0, riddles: Sequence[Riddle] = ()
) -> Answerer:
    """A replay of the recordings if any are given, else simulated models that know the items and the ``riddles``.

    With recordings nothing is ever made up: a question they do not answer raises NotRecorded. Raises UnreadableRows
    for a file that is not in a form either of them reads.
    """
    if replay:
        return ReplayAnswerer(replay)
    contents = load_items(items)
    return SimulateAnswerer((*riddles, *contents.riddles), seed, exercises=contents.exercises)
