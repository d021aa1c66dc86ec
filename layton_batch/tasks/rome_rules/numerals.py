"""Numbers written in digits, wherever they stand in a text, and what each may mean. Linear time.

Read: signs, thousands separators (1,234 · 1 234 · 1'234 · 1_234 · 1.234.567 · 12,34,567), decimal points and commas,
exponents (1e6 · 10^6 · 6.02 × 10^23), fractions (1/2 · \\frac{1}{2} · 1 1/2), π and roots, percent, and words of scale
(1.2 million · 3k · 1.5 万). Passed over: digits inside names (x_1, H2O, 12 m^2), dates, times, ratios and versions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

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
    while (found := _NUMBER.search(text, place)) is not None:
        before = text[max(0, found.start() - _BEHIND) : found.start()]
        one = None if _is_name(before, found) else _read(text, found)
        place = one.end if one is not None else found.end()
        if one is not None:
            depth += text.count("(", counted, one.start) - text.count(")", counted, one.start)
            counted = one.start
            yield replace(_signed(one, before), depth=max(0, depth))


def _is_name(before: str, found: re.Match[str]) -> bool:
    """Whether the digits belong to a name or are an index or exponent of one."""
    if found.group("none") or found.group("version"):
        return True
    if _INDEX.search(before):
        return True
    if found.group("pi") or found.group("over") or found.group("over1") or found.group("root"):
        return False
    stem = before.removesuffix("-")
    return _LATIN.search(stem) is not None and _CURRENCY.search(stem) is None


def _read(text: str, found: re.Match[str]) -> Numeral | None:
    value = _value(found)
    if value is None or not math.isfinite(value):
        return None
    value, end = _extended(text, value, found.end(), whole="." not in found.group())
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
    return Numeral(values, found.start(), end)


def _value(found: re.Match[str]) -> float | None:
    got = found.groupdict()
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
    if found := _SCIENTIFIC.match(text, end):
        return _power(10.0, found.group(1), value), found.end()
    if found := _POWER.match(text, end):
        return _power(value, found.group(1)), found.end()
    if whole and (found := _MIXED.match(text, end)):
        over, under = (float(part) for part in found.groups() if part)
        if 0 < over < under:
            return value + over / under, found.end()
    if found := _PI.match(text, end) or _ROOT.match(text, end):
        factor = math.pi if found.re is _PI else math.sqrt(_float(found.group(1)) or math.nan)
        value, end = value * factor, found.end()
    if found := _OVER.match(text, end):
        under = math.pi if found.group(1) == "π" else float(found.group(1).replace(",", ""))
        if under:
            return value / under, found.end()
    return value, end


def _signed(one: Numeral, before: str) -> Numeral:
    word = _MINUS_WORD.search(before)
    if word is None and (_MINUS_SIGN.search(before) is None or _BOUND.search(before)):
        return one
    sign = len(before) - (before.rfind("-") if word is None else word.start())
    return replace(one, values=tuple(-value for value in one.values), start=one.start - sign)


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
