"""How a simulated judge judges words that none of the simulated participants said: by comparing with the reference."""

from __future__ import annotations

import json
import re

from layton_batch.sandbox.question_kinds import ANSWER, JUSTIFICATION
from layton_batch.sandbox.riddle_lookup import Passage, Riddle
from layton_batch.sandbox.stock_reasoning import Truth
from layton_batch.sandbox.wrong_answers import core, plain_words, right_answer

_DECODER = json.JSONDecoder()
_MOST_OBJECTS = 20
_ARGUED_WORDS = 8
"""Fewer words than these are no justification."""


def compared(text: str, passage: Passage, riddle: Riddle) -> Truth:
    """Right if the reference answer is given and argued for, flawed if it is only given."""
    given = submission(text)
    if given is not None:
        return _truth(_says(given[0], riddle), len(plain_words(given[1])))
    left = _beside_the_riddle(passage, riddle)
    wanted = " ".join(plain_words(right_answer(riddle)))
    # Once as the reference; a second time only if the participant says it.
    said = bool(wanted) and len(re.findall(rf"(?<!\S){re.escape(wanted)}(?!\S)", left)) > 1
    return _truth(said, len(left.split()))


def submission(text: str) -> tuple[str, str] | None:
    """(answer, justification) of the last JSON object in the text that has both as strings; None without one."""
    starts = [match.start() for match in re.finditer(r"\{", text)][-_MOST_OBJECTS:]
    for start in reversed(starts):
        try:
            value, _ = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            answer, justification = value.get(ANSWER), value.get(JUSTIFICATION)
            if isinstance(answer, str) and isinstance(justification, str):
                return answer, justification
    return None


def _says(answer: str, riddle: Riddle) -> bool:
    """Whether the answer is the reference in other typography, with or without the reference's remarks."""
    reference = right_answer(riddle)
    return bool(plain_words(answer)) and plain_words(answer) in {plain_words(reference), plain_words(core(reference))}


def _beside_the_riddle(passage: Passage, riddle: Riddle) -> str:
    """The words of the text without one copy of each column of the riddle but the answer."""
    left = " ".join(plain_words(passage.plain))
    columns = (riddle.description, *riddle.hints, riddle.solution, riddle.justification)
    for words in sorted((" ".join(plain_words(column)) for column in columns), key=len, reverse=True):
        left = left.replace(words, " ", 1) if words else left
    return left


def _truth(right: bool, argued_words: int) -> Truth:
    if not right:
        return Truth.WRONG
    return Truth.RIGHT if argued_words > _ARGUED_WORDS else Truth.FLAWED
