"""The one number that an answer states, and whether it is the one asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from layton_batch.tasks.rome_rules.mentions import is_ruled_out
from layton_batch.tasks.rome_rules.numerals import Numeral, number_words, numerals
from layton_batch.tasks.rome_rules.statement import AnswerStatement, Source

RELATIVE, ABSOLUTE = 0.1, 1e-3
"""The published tolerances: a tenth of a ``float`` gold value, a thousandth for an ``int`` one."""

MOST_CHARACTERS = 8_000
"""No honest answer sentence is longer; what a reply says before or after is not read for numbers."""

_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。;\n]")
_OPENING = re.compile(
    r"\W{0,12}(?:(?:about|around|approximately|approx\.?|roughly|nearly|almost|exactly|only|just|circa|ca\.?|minus|"
    r"negative|USD?|EUR|约|大约|共|总共|一共|有|负)\W{0,6}){0,3}",
    re.IGNORECASE,
)
_CUE = re.compile(
    r"\b(?:so|therefore|thus|hence|totals?|total(?:l?ing)|equals?|makes?|gives?|giving|is|are|was|were|be|becomes?|get|"
    r"gets|obtain|yields?)\b|等于|总共|一共|共有|共|得到|得|为|是|所以|因此",
    re.IGNORECASE,
)
# "3 rows of 4 make 12", but not "12, which makes 3 rows of 4"
_RESULT = re.compile(
    r"(?<!which )(?<!that )(?<!it )\b(?:makes?|equals?|totals?|yields?)\s{1,3}(?:a total of\s{1,3})?$", re.IGNORECASE
)
_IN_ALL = re.compile(r"(?:\s[A-Za-z]{1,20}){0,2}?,?\s(?:in total|in all|altogether|all told|overall)\b", re.IGNORECASE)
_REASON = re.compile(r"\b(?:because|since|given that|where)\b|因为|由于", re.IGNORECASE)
_EQUALS = re.compile(r"[=≈]")
_OUT_OF = re.compile(r"(?:\bout of|\d\s{1,3}of|±|\+/-)\s{0,3}(?:the\s|a total of\s)?\s?$", re.IGNORECASE)
_BOUND = re.compile(r"(?:[<>≤≥]|\b(?:more|less|fewer|greater|larger|smaller) than)\s{0,3}$", re.IGNORECASE)
_WORDS = re.compile(r"[^\W\d_]|[=≈]")
_SURENESS = re.compile(r"^\s{0,3}(?:sure|certain|confiden)|^\W{0,6}(?:的)?(?:把握|置信)", re.IGNORECASE)
_OF_SURENESS = re.compile(r"(?:confiden(?:ce|t)|certainty|probability|置信度|把握)[^\n.;]{0,20}$", re.IGNORECASE)
_BETWEEN = re.compile(r"\s{0,3}(?:and|和|与)\s{0,3}", re.IGNORECASE)
_ALTERNATIVE = re.compile(
    r"\s{0,3}(?:-|~|,?\s?\bto\b|through|,?\s?\bor\b|至|到|或者?)\s{0,3}(?:[A-Za-z]\s?=)?\s{0,3}", re.IGNORECASE
)
_BETWEEN_WORD = re.compile(r"\bbetween\s{1,3}$", re.IGNORECASE)
_NONE_AT_ALL = re.compile(
    r"\W{0,12}(?:there (?:is|are) )?(?:none|nil|nothing|没有|无)(?: at all)?\W{0,12}", re.IGNORECASE
)


def matches(value: float, gold: int | float) -> bool:
    """Within the published tolerance; a gold value of 0.0, of which a tenth is nothing, takes that of whole numbers."""
    allowed = abs(gold) * RELATIVE if isinstance(gold, float) and gold else ABSOLUTE
    return abs(value - gold) < allowed


def gold_number(value: object) -> int | float | None:
    """The number of an annotation, also where it is written as text; None where it is none."""
    if isinstance(value, str):
        digits = value.strip()
        try:
            value = int(digits) if re.fullmatch(r"[+-]?\d{1,300}", digits) else float(digits)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond any float
        return None


def stated_number(statement: AnswerStatement) -> tuple[str, tuple[float, ...]]:
    """The text of the number and its readings; no readings where there is no number, or more than one is offered."""
    if statement.source is Source.WHOLE:
        text = statement.text.strip()[-MOST_CHARACTERS:]
        return _chosen(text, last=True)
    text = statement.paragraph[:MOST_CHARACTERS]
    stated = _chosen(text, last=False)
    return stated if stated[1] or not _later(statement) else _chosen(statement.text[-MOST_CHARACTERS:], last=True)


def _later(statement: AnswerStatement) -> bool:
    """Return whether an announced answer ("the total number:") comes only after an empty line."""
    return statement.source is Source.LABEL and statement.paragraph.endswith((":", "=", "is", "are"))


def _chosen(text: str, last: bool) -> tuple[str, tuple[float, ...]]:
    offered = [numeral for numeral in numerals(text) if not _is_beside_the_point(text, numeral)] or _in_words(text)
    if not offered:
        return (text, (0.0,)) if _NONE_AT_ALL.fullmatch(text) else (text, ())
    shallowest = min(numeral.depth for numeral in offered)
    offered = [numeral for numeral in offered if numeral.depth == shallowest]
    sentence = _sentence(text, offered, last)
    numeral = _stated(text, sentence, last)
    if numeral is None or _is_one_of_two(text, numeral, sentence) or _is_bare_list(text, offered):
        return text, ()
    return text[numeral.start : numeral.end].strip(), numeral.values


def _in_words(text: str) -> list[Numeral]:
    return sorted(number_words(text), key=lambda numeral: numeral.start)


def _is_beside_the_point(text: str, numeral: Numeral) -> bool:
    """The ten of "3 out of 10", the half of "12 ± 0.5", the 90% of "90% sure", a bound (> 7), and what is ruled out."""
    before, after = text[max(0, numeral.start - 24) : numeral.start], text[numeral.end : numeral.end + 16]
    if _OUT_OF.search(before) or _BOUND.search(before) or is_ruled_out(text, numeral.start, numeral.end):
        return True
    return len(numeral.values) == 2 and bool(
        _SURENESS.search(after) or _OF_SURENESS.search(text[max(0, numeral.start - 40) : numeral.start])
    )


def _sentence(text: str, offered: Sequence[Numeral], last: bool) -> list[Numeral]:
    """The numbers of the first or last sentence that has any."""
    anchor = offered[-1] if last else offered[0]
    start, end = 0, len(text)
    for stop in _SENTENCE_END.finditer(text):
        if stop.end() <= anchor.start:
            start = stop.end()
        elif stop.start() >= anchor.end:
            end = stop.start()
            break
    inside = [numeral for numeral in offered if start <= numeral.start < end] or [anchor]
    reason = _REASON.search(text, start, end)
    before = [numeral for numeral in inside if reason is None or numeral.start < reason.start()]
    return before or inside


def _stated(text: str, sentence: Sequence[Numeral], last: bool) -> Numeral | None:
    """After the last equals sign or what says the same; else the one the sentence opens with; else after the last cue
    ("so", "is")."""
    first, final = sentence[0], sentence[-1]
    if after := _after_last(_EQUALS, text, sentence):
        return after
    if len(sentence) > 1 and _RESULT.search(text[max(0, final.start - 40) : final.start]):
        return final
    if total := next((numeral for numeral in reversed(sentence) if _IN_ALL.match(text, numeral.end)), None):
        return total
    start = max((stop.end() for stop in _SENTENCE_END.finditer(text, 0, first.start)), default=0)
    if _OPENING.fullmatch(text, start, first.start):
        return first
    return _after_last(_CUE, text, sentence) or (final if last else first)


def _after_last(sign: re.Pattern[str], text: str, sentence: Sequence[Numeral]) -> Numeral | None:
    """The first number after the last sign that a number follows."""
    latest = None
    for previous, numeral in zip((None, *sentence), sentence, strict=False):
        gap_start = previous.end if previous else max(0, numeral.start - 200)
        if sign.search(text, gap_start, numeral.start):
            latest = numeral
    return latest


def _is_bare_list(text: str, offered: Sequence[Numeral]) -> bool:
    """Return whether the answer consists of several different numbers only."""
    if len({numeral.values for numeral in offered}) < 2:
        return False
    gaps = zip(
        (0, *(numeral.end for numeral in offered)), (*(numeral.start for numeral in offered), len(text)), strict=True
    )
    return not any(_WORDS.search(text, start, end) for start, end in gaps)


def _is_one_of_two(text: str, numeral: Numeral, sentence: Sequence[Numeral]) -> bool:
    """Return whether the number is an end of a range or one of several: "10-20", "between 3 and 4", "3 or 4"."""
    place = sentence.index(numeral)
    for first, second in pairwise(sentence[max(0, place - 1) : place + 2]):
        gap = text[first.end : second.start]
        if _ALTERNATIVE.fullmatch(gap):
            return True
        if _BETWEEN.fullmatch(gap) and _BETWEEN_WORD.search(text[max(0, first.start - 12) : first.start]):
            return True
    return False
