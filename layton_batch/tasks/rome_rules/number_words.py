"""Numbers in words, English and Chinese: "minus twenty-one", "two thirds", "a dozen", "一百二十"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from layton_batch.tasks.rome_rules.numerals import Numeral

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SMALL = {word: float(place) for place, word in enumerate(_ONES)} | {
    word: 20.0 + 10 * place for place, word in enumerate(_TENS)
}
_LARGE = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "dozen": 12.0}
_PARTS = {
    "half": 2.0, "halves": 2.0, "third": 3.0, "thirds": 3.0, "quarter": 4.0, "quarters": 4.0, "fifth": 5.0,
    "fifths": 5.0, "sixth": 6.0, "sixths": 6.0, "eighth": 8.0, "eighths": 8.0, "tenth": 10.0, "tenths": 10.0,
}  # fmt: skip
_NAMES = "|".join(sorted({*_SMALL, *_LARGE, *_PARTS}, key=len, reverse=True))
_ENGLISH = re.compile(
    rf"(?<![a-z])(?:(?P<sign>minus|negative)[ -])?(?P<words>(?:an?[ ])?(?:{_NAMES})(?![a-z])"
    rf"(?:[ -](?:and[ ](?:a[ ])?|of[ ]a[ ]|a[ ]|point[ ])?(?:{_NAMES})(?![a-z])){{0,20}})",
    re.IGNORECASE,
)
_NOT_A_NUMBER = re.compile(
    r"\b(?:this|that|the|which|no|any|every|each|another|only|some|other|correct|right|wrong) $", re.IGNORECASE
)
_FIGURES = {figure: value for value, figure in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_CHINESE = re.compile(
    "(?P<sign>负|零下)?(?P<words>[零〇一二两三四五六七八九十百千万亿]{1,40})(?:点(?P<after>[零〇一二三四五六七八九]{1,40}))?"
)


def number_words(text: str) -> Iterator[Numeral]:
    """Every number of the text that is written in words, English ones first."""
    for found in _ENGLISH.finditer(text):
        words = re.split(r"[ -]", found.group("words").lower())
        if words == ["one"] and _NOT_A_NUMBER.search(text[max(0, found.start() - 12) : found.start()]):
            continue
        value = _english(words)
        if value is not None:
            yield Numeral((-value if found.group("sign") else value,), found.start(), found.end())
    for found in _CHINESE.finditer(text):
        number = _chinese(found.group("words")) + _decimals(found.group("after") or "")
        yield Numeral((-number if found.group("sign") else number,), found.start(), found.end())


def _english(words: Sequence[str]) -> float | None:
    total = group = 0.0
    seen = False
    for place, word in enumerate(words):
        if word in _SMALL:
            group, seen = group + _SMALL[word], True
        elif word in _LARGE:
            scaled = (group if seen else 1.0) * _LARGE[word]
            total, group = (total, scaled) if word == "hundred" else (total + scaled, 0.0)
            seen = True
        elif word in _PARTS:
            share = _with_part(words[:place], total + group, seen, _PARTS[word])
            times = [_LARGE[later] for later in words[place + 1 :] if later in _LARGE]
            return share if share is None or not times else share * math.prod(times)
        elif word == "point":
            return total + group + _decimals("".join(str(int(_SMALL.get(digit, 0))) for digit in words[place + 1 :]))
    return total + group if seen else None


def _with_part(before: Sequence[str], value: float, seen: bool, part: float) -> float | None:
    """ "half", "a third", "two thirds", "one and a half"; a bare "third" is a place, not a number."""
    if "and" in before:
        return value + 1 / part
    if seen:
        return value / part
    return 1 / part if before or part == _PARTS["half"] else None


def _chinese(words: str) -> float:
    if len(words) > 1 and not set(words) & {*_UNITS, "万", "亿"}:
        return float("".join(str(_FIGURES[figure]) for figure in words))  # 二〇二四
    total = part = 0
    figure = 0
    for sign in words:
        if sign in _FIGURES:
            figure = _FIGURES[sign]
        elif sign in _UNITS:
            part, figure = part + (figure or 1) * _UNITS[sign], 0
        else:
            scale = 10_000 if sign == "万" else 100_000_000
            total, part, figure = (total + (part + figure or 1)) * scale, 0, 0
    return float(total + part + figure)


def _decimals(figures: str) -> float:
    digits = "".join(str(_FIGURES.get(figure, figure)) for figure in figures)
    return float(f"0.{digits}") if digits else 0.0
