"""Extraction as published, quirks and all: the letter evaluate-idk reads in a reply.

Stage 1 looks for A-E in anchored prose, in groups of falling priority; the last match of the first group that matches
wins. Stage 2 looks for the requested forms, A-K, only where stage 1 found nothing. Case counts in stage 1 (but for the
anchor words) and not in stage 2. Possessive quantifiers take the place of the original's greedy ones where runs of
blanks would cost quadratic time; what they match is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LETTER = r"(?P<letter>[A-E]|\([A-E]\))"
_MARKED = rf"(?:\*\*)?{_LETTER}(?:\*\*)?(?:\.|,|\s?:| |$)"
_TAIL_CHARS = 200

# The second: only the first blank of a run may begin `\s++is`; the others would find the same "is" or none.
_STAGE_1: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (needed, re.compile(pattern))
    for needed, pattern in (
        ("i hope", rf"(?i:final answer is):?\s*+{_LETTER}\.?\s?I hope"),
        ("final answer", rf"(?i:final answer.{{0,100}}?)(?<!\s)\s++is:?\s*+{_LETTER}"),
        ("answer", rf"(?i:answer)\s?:.{{0,50}}?(?:^| ){_MARKED}"),
        ("answer", rf"(?i:answer).{{0,50}}?(?:^| ){_MARKED}"),
        ("", rf"^{_MARKED}"),
        ("", rf"\n{_MARKED}"),
    )
)
"""Groups of the first stage, each with folded words without which it finds nothing."""

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


def read_original(text: str) -> str | None:
    """Return the letter in a text without thoughts, None without one; the item may have no option for it."""
    # Under IGNORECASE "ſ" is an s; so it is to casefold, which makes these tests without misses.
    folded = text.casefold()
    for needed, pattern in _STAGE_1:
        if needed not in folded:
            continue
        last = None
        for last in pattern.finditer(text):  # noqa: B007  # the last match is the one that ends furthest right
            pass
        if last is not None:
            return str(last["letter"].strip("()"))
    return next((letter.upper() for letter in _stage_2(text, folded)), None)


def _stage_2(text: str, folded: str) -> Iterator[str]:
    yield from reversed(_HASH.findall(text))
    for pattern in _BOXED if "boxed" in folded else ():
        yield from pattern.findall(text)
    yield from _ANSWER.findall(text)
    yield from _OPTION.findall(text[-_TAIL_CHARS:])


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
