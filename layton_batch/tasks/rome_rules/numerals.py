"""Numbers wherever they stand in a text, in digits and in words, and what each may mean. Linear time.

Read in digits: signs, thousands separators (1,234 · 1 234 · 1'234 · 1_234 · 1.234.567 · 12,34,567), decimal points and
commas, exponents (1e6 · 10^6 · 6.02 × 10^23), fractions (1/2 · \\frac{1}{2} · 1 1/2), π and roots, percent, and words
of scale (1.2 million · 3k · 1.5 万). Passed over: digits inside names (x_1, H2O, 12 m^2), dates, times, ratios and
versions. In words, English and Chinese: "minus twenty-one", "two thirds", "a dozen", "一百二十".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

# ---- in digits -----------------------------------------------------------------------------------------------------


_GROUPED = r"[1-9]\d{0,2}(?P<by>[,' _])\d{3}(?:(?P=by)\d{3}){0,99}(?!\d)(?:\.\d+)?"
_INDIAN = r"\d{1,2}(?:,\d{2}){1,99},\d{3}(?!\d)(?:\.\d+)?"
_EUROPEAN = r"[1-9]\d{0,2}(?:\.\d{3}){2,99}(?!\d|\.\d)(?:,\d+)?|[1-9]\d{0,2}(?:\.\d{3}){1,99},\d+(?![\d,])"
_COMMA = r"(?<!\d,)\d+,\d+(?![\d,]|\.\d)"
_PLAIN = r"(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,4}(?![A-Za-z\d]))?"
_NUMBER = re.compile(
    # What looks like a number and is none comes first: 2024-05-01, 05/06/2024, 12:30, 1:2; then 1.2.12
    r"(?P<none>\d{1,4}(?P<cut>[-/.])\d{1,2}(?P=cut)\d{1,4}(?!\d)|\d+(?::| : )\d+(?::\d+)?)"
    rf"|(?P<european>{_EUROPEAN})|(?P<version>\d+(?:\.\d+){{2,99}})"
    rf"|(?P<grouped>{_GROUPED})|(?P<indian>{_INDIAN})|(?P<comma>{_COMMA})|(?P<plain>{_PLAIN})"
    r"|\\frac ?(?:\{ ?(?P<over>-? ?(?:[\d.]{1,30} ?π?|π)) ?\} ?\{ ?(?P<under>[\d.]{1,30}) ?\}"
    r"|(?P<over1>\d) ?(?P<under1>\d))"
    r"|(?P<pi>π|(?<![A-Za-z])[Pp]i(?![A-Za-z]))|√ ?[{(]? ?(?P<root>[\d.]{1,30}) ?[})]?"
)
_SCIENTIFIC = re.compile(r" ?[×x·] ?10 ?\^ ?[{(]? ?([+-]? ?\d{1,4}) ?[})]?")
_POWER = re.compile(r" ?\^ ?[{(]? ?([+-]? ?\d{1,4}) ?[})]?")
_MIXED = re.compile(r" (?:and )?(\d{1,9}) ?/ ?(\d{1,9})(?![\d/])| ?\\frac ?\{ ?(\d{1,9}) ?\} ?\{ ?(\d{1,9}) ?\}")
_OVER = re.compile(r" ?/ ?((?:\d{1,3}(?:,\d{3}){1,9}|\d{1,30})(?:\.\d{1,30})?|π)(?![\d/])")
_PI = re.compile(r" ?×? ?(?:π|[Pp]i(?![A-Za-z]))")
_ROOT = re.compile(r" ?×? ?√ ?[{(]? ?([\d.]{1,30}) ?[})]?")
_PERCENT = re.compile(r" ?(?:%|percent\b|per cent\b|个百分点)")
_SCALE = re.compile(
    r" ?-?(thousand|million|billion|trillion|hundred|dozen|lakh|crore|mn|bn|百万|千万|万亿|[百千万亿])(?![a-z])"
    r"|(k|K|M|B)(?![A-Za-z])"
)
_SCALES = {
    "hundred": 1e2, "dozen": 12.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "lakh": 1e5,
    "crore": 1e7, "mn": 1e6, "bn": 1e9, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9,
    "百": 1e2, "千": 1e3, "万": 1e4, "百万": 1e6, "千万": 1e7, "亿": 1e8, "万亿": 1e12,
}  # fmt: skip
_LATIN = re.compile(r"[A-Za-zÀ-ɏΑ-ω]$")
_CURRENCY = re.compile(r"(?:\b(?:USD?|EUR|RMB|CNY|GBP|JPY|INR|AUD|CAD|CHF|HKD?|Rs))$")
_INDEX = re.compile(r"(?:_\{?|\^ ?[{(]? ?-? ?)$")
_MINUS_WORD = re.compile(r"(?:\b(?:minus|negative)|负|零下) ?$", re.IGNORECASE)
_MINUS_SIGN = re.compile(r"(?:(?:^|[=:,(\[{≈~<>×/;\n]) ?- ?|\s-)$")
_BOUND = re.compile(r"(?:[\w)\]}.%]-|[\d)\]}%] -)$")
_BEHIND = 24


@dataclass(frozen=True, slots=True)
class Numeral:
    """``values``: what it may mean, the likeliest first (50% is 50 or 0.5). ``depth``: brackets around it."""

    values: tuple[float, ...]
    start: int
    end: int
    depth: int = 0


def numerals(text: str) -> Iterator[Numeral]:
    """Every number of the text in order."""
    place = depth = counted = 0
    while (match := _NUMBER.search(text, place)) is not None:
        before = text[max(0, match.start() - _BEHIND) : match.start()]
        numeral = None if _is_name(before, match) else _read(text, match)
        place = numeral.end if numeral is not None else match.end()
        if numeral is not None:
            depth += text.count("(", counted, numeral.start) - text.count(")", counted, numeral.start)
            counted = numeral.start
            yield replace(_signed(numeral, before), depth=max(0, depth))


def _is_name(before: str, match: re.Match[str]) -> bool:
    """Return whether the digits belong to a name, or are its index or exponent."""
    if match.group("none") or match.group("version"):
        return True
    if _INDEX.search(before):
        return True
    if match.group("pi") or match.group("over") or match.group("over1") or match.group("root"):
        return False
    stem = before.removesuffix("-")
    return _LATIN.search(stem) is not None and _CURRENCY.search(stem) is None


def _read(text: str, match: re.Match[str]) -> Numeral | None:
    value = _value(match)
    if value is None or not math.isfinite(value):
        return None
    value, end = _extended(text, value, match.end(), whole="." not in match.group())
    if not math.isfinite(value):
        return None
    values: tuple[float, ...] = (value,)
    if percent := _PERCENT.match(text, end):
        values, end = (value, value / 100), percent.end()
    elif scale := _SCALE.match(text, end):
        word, letter = scale.groups()
        # A letter may also be a unit: 5M is five metres, 300K a temperature.
        values = (value * _SCALES[word],) if word else (value, value * _SCALES[letter])
        end = scale.end()
    return Numeral(values, match.start(), end)


def _value(match: re.Match[str]) -> float | None:
    got = match.groupdict()
    if got["pi"]:
        return math.pi
    if got["root"]:
        root = _float(got["root"])
        return None if root is None else math.sqrt(root)
    if over := got["over"] or got["over1"]:
        return _divided(_over(over.replace(" ", "")), _float(got["under"] or got["under1"]))
    if got["european"]:
        return _float(got["european"].replace(".", "").replace(",", "."))
    if got["comma"]:
        return _float(got["comma"].replace(",", "."))
    if got["grouped"]:
        return _float(got["grouped"].replace(got["by"], ""))
    return _float((got["indian"] or got["plain"] or "").replace(",", ""))


def _extended(text: str, value: float, end: int, whole: bool) -> tuple[float, int]:
    """The value and end once powers of ten, fractions, π and roots that follow are taken in."""
    if match := _SCIENTIFIC.match(text, end):
        return _power(10.0, match.group(1), value), match.end()
    if match := _POWER.match(text, end):
        return _power(value, match.group(1)), match.end()
    if whole and (match := _MIXED.match(text, end)):
        over, under = (float(part) for part in match.groups() if part)
        if 0 < over < under:
            return value + over / under, match.end()
    if match := _PI.match(text, end) or _ROOT.match(text, end):
        factor = math.pi if match.re is _PI else math.sqrt(_float(match.group(1)) or math.nan)
        value, end = value * factor, match.end()
    if match := _OVER.match(text, end):
        under = math.pi if match.group(1) == "π" else float(match.group(1).replace(",", ""))
        if under:
            return value / under, match.end()
    return value, end


def _signed(numeral: Numeral, before: str) -> Numeral:
    word = _MINUS_WORD.search(before)
    if word is None and (_MINUS_SIGN.search(before) is None or _BOUND.search(before)):
        return numeral
    sign = len(before) - (before.rfind("-") if word is None else word.start())
    return replace(numeral, values=tuple(-value for value in numeral.values), start=numeral.start - sign)


def _power(base: float, exponent: str, factor: float = 1.0) -> float:
    try:
        return factor * base ** int(exponent.replace(" ", ""))
    except (OverflowError, ZeroDivisionError):
        return math.nan


def _over(digits: str) -> float | None:
    if not digits.endswith("π"):
        return _float(digits)
    times = _float(digits[:-1] + "1" if digits in {"π", "-π"} else digits[:-1])
    return None if times is None else times * math.pi


def _divided(over: float | None, under: float | None) -> float | None:
    return over / under if over is not None and under else None


def _float(digits: str) -> float | None:
    try:
        return float(digits)
    except ValueError:  # two points, as in 1.2.3
        return None


# ---- in words ------------------------------------------------------------------------------------------------------


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
    for match in _ENGLISH.finditer(text):
        words = re.split(r"[ -]", match.group("words").lower())
        if words == ["one"] and _NOT_A_NUMBER.search(text[max(0, match.start() - 12) : match.start()]):
            continue
        value = _english(words)
        if value is not None:
            yield Numeral((-value if match.group("sign") else value,), match.start(), match.end())
    for match in _CHINESE.finditer(text):
        number = _chinese(match.group("words")) + _decimals(match.group("after") or "")
        yield Numeral((-number if match.group("sign") else number,), match.start(), match.end())


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
