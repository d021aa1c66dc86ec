"""What is read in a reply by either protocol; and the reply without the thoughts a model writes in ``<think>`` tags,
which are taken out before an answer is looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stage = Literal["primary", "fallback", "none"]


@dataclass(frozen=True, slots=True)
class LetterReading:
    """The letter a reply gives as its answer, None where there is none, and the rule that found it."""

    letter: str | None = None
    rule: str | None = None
    stage: Stage = "none"
    note: str | None = None  # why there is no letter, where the rule can tell


NOTHING = LetterReading()


# ---- thoughts ------------------------------------------------------------------------------------------------------

OPEN, CLOSE = "<think>", "</think>"
_OVERLAP = len(OPEN) - 1


def without_think_blocks(text: str) -> str:
    """The text without its think blocks: again and again, from the first open tag to the first close tag after it.

    A tag without its partner stays, and everything with it. Cutting a block can join the halves of a new open tag;
    that one counts too. One pass, so that a megabyte of tags takes no longer than a megabyte of prose.
    """
    at, start = 0, text.find(OPEN)
    if start < 0:
        return text
    pieces: list[str] = []
    while start >= 0:
        end = text.find(CLOSE, start)
        if end < 0:
            break
        pieces.extend(text[at:start])
        at = end + len(CLOSE)
        at = _join(pieces, text, at)
        start = text.find(OPEN, at)
    return "".join(pieces) + text[at:]


def _join(pieces: list[str], text: str, at: int) -> int:
    """Take out blocks whose open tag only came about by cutting; where reading goes on."""
    while True:
        tail = "".join(pieces[-_OVERLAP:])
        begin = (tail + text[at : at + _OVERLAP]).find(OPEN)
        if begin < 0:
            return at
        end = text.find(CLOSE, at + len(OPEN) - (len(tail) - begin))
        if end < 0:
            return at
        del pieces[len(pieces) - (len(tail) - begin) :]
        at = end + len(CLOSE)
