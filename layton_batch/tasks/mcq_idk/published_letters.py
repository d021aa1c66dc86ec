"""Extraction as published, quirks and all: the letter evaluate-idk reads in a reply.

Stage 1 looks for A-E in anchored prose, in groups of falling priority; the last match of the first group that matches
wins. Stage 2 looks for the requested forms, A-K, only where stage 1 found nothing. Case counts in stage 1 (but for the
anchor words) and not in stage 2. Possessive quantifiers take the place of the original's greedy ones where runs of
blanks would cost quadratic time; what they match is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_LETTER = r"(?P<letter>[A-E]|\([A-E]\))"
_MARKED = rf"(?:\*\*)?{_LETTER}(?:\*\*)?(?:\.|,|\s?:| |$)"
_TAIL_CHARS = 200

# p50: only the first blank of a run may begin `\s++is`; the others would find the same "is" or none.
_STAGE_1: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("p0", rf"(?i:final answer is):?\s*+{_LETTER}\.?\s?I hope"),
        ("p50", rf"(?i:final answer.{{0,100}}?)(?<!\s)\s++is:?\s*+{_LETTER}"),
        ("p100", rf"(?i:answer)\s?:.{{0,50}}?(?:^| ){_MARKED}"),
        ("p150", rf"(?i:answer).{{0,50}}?(?:^| ){_MARKED}"),
        ("p200", rf"^{_MARKED}"),
        ("p210", rf"\n{_MARKED}"),
    )
)
_NEEDS = {"p0": "i hope", "p50": "final answer", "p100": "answer", "p150": "answer"}

_HASH = re.compile(r"###([A-K])###", re.IGNORECASE)
_BOXED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\\boxed\s*+\{\s*+([A-K])\s*+\}",
        r"\\boxed\s*+\{\s*+\\text\s*+\{\s*+([A-K])\s*+\}\s*+\}",
        r"\\boxed\s*+\{\s*+\\mathrm\s*+\{\s*+([A-K])\s*+\}\s*+\}",
        r"\\boxed\s*+\{\s*+\\mathbf\s*+\{\s*+([A-K])\s*+\}\s*+\}",
        r"\bboxed\s*+\(\s*+([A-K])\s*+\)",
        r"\bboxed\s*+\{\s*+([A-K])\s*+\}",
    )
)
# The original also looks for "final answer: X" in the last 200 characters: never reached, as this one matches it first.
_ANSWER = re.compile(r"\banswer\s*+[:\-]?\s*+([A-K])\b", re.IGNORECASE)
_OPTION = re.compile(r"\b(?:option|choice)\s*+([A-K])\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LetterReading:
    """Letter of a reply, and the rule that found it; None without one."""

    letter: str | None = None
    rule: str | None = None

    @property
    def stage(self) -> Literal["primary", "fallback", "none"]:
        """Return the stage of the rule."""
        if self.rule is None:
            return "none"
        return "primary" if any(self.rule == name for name, _ in _STAGE_1) else "fallback"


def read_original(text: str) -> LetterReading:
    """The letter in a text whose thoughts are out already. It may be one that the item has no option for."""
    # Under IGNORECASE "ſ" is an s; so it is to casefold, which makes these tests without misses.
    folded = text.casefold()
    for rule, pattern in _STAGE_1:
        if _NEEDS.get(rule, "") not in folded:
            continue
        last = None
        for last in pattern.finditer(text):  # noqa: B007  # the last match is the one that ends furthest right
            pass
        if last is not None:
            return LetterReading(last["letter"].strip("()"), rule)
    for rule, letter in _stage_2(text, folded):
        if letter is not None:
            return LetterReading(letter.upper(), rule)
    return LetterReading()


def _stage_2(text: str, folded: str) -> Iterator[tuple[str, str | None]]:
    yield "hash", next(reversed(_HASH.findall(text)), None)
    for pattern in _BOXED if "boxed" in folded else ():
        yield "boxed", _first(pattern, text)
    yield "answer", _first(_ANSWER, text)
    yield "option", _first(_OPTION, text[-_TAIL_CHARS:])


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else match[1]


# ---- thoughts ------------------------------------------------------------------------------------------------------


_OPEN, _CLOSE = "<think>", "</think>"


def without_think_blocks(text: str) -> str:
    """The text without its think blocks: again and again, from the first open tag to the first close tag after it.

    A tag without its partner stays, and everything with it. Cutting a block can join the halves of a new open tag;
    that one counts too.
    """
    position = 0
    while (start := text.find(_OPEN, position)) >= 0 and (end := text.find(_CLOSE, start)) >= 0:
        text = text[:start] + text[end + len(_CLOSE) :]
        position = max(0, start - len(_OPEN))
    return text
