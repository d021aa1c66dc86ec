"""Text for people: harmless whatever models and manifests wrote, one form for money, counts and ranges.

``printable``, ``plain`` and ``one_line`` are for terminals, tables and logs; ``visible`` is for pages, whose readers
use every script. Escaping for HTML is the templates' business.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Collection, Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import overload

NONE = "–"
"""Stands in a cell that has no value."""

IGNORABLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's ``Default_Ignorable_Code_Point`` (DerivedCoreProperties), as the inside of a character class: characters
that no screen shows. They hide words from people that models read, or make one name look like another.

Listed rather than asked of ``unicodedata``: that module does not know the property, its tables change between Python
versions, and the bytes of a prompt must not.
"""
_IGNORABLE = re.compile(f"[{IGNORABLE}]")
# Control, format and filler characters without a shape of their own. Tab, line feed, and the joiners and selectors that
# scripts and emoji need (U+200C, U+200D, U+FE0E, U+FE0F, the Mongolian ones) are left alone.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CENT, _SMALL = Decimal("0.01"), Decimal("0.0001")


def printable(text: str, stand_in: str = "\N{REPLACEMENT CHARACTER}", keep: str = "") -> str:
    """The text with ``stand_in`` for every character that acts or hides instead of being seen: controls, line breaks,
    direction marks, fillers, variation selectors. ``keep``: characters that stay all the same."""
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(char if char.isprintable() or char in keep else stand_in for char in text)
    return _IGNORABLE.sub(stand_in, shown)


def plain(text: str) -> str:
    """``printable`` text of one or more lines."""
    return printable(text, keep="\n")


def one_line(text: str) -> str:
    """``printable`` text that cannot start a line of its own."""
    return " ".join(plain(text).split("\n"))


def visible(text: str) -> str:
    """The text with every unseen character replaced by its code point in angle quotes."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(lambda match: f"‹U+{ord(match[0]):04X}›", text)


def without_surrogates(text: str) -> str:
    """The text with lone surrogates replaced, so that it can be encoded and stored."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("�", text)
    return text


def shortened(text: str, letters: int) -> str:
    """A text in at most so many letters, its middle left out: what tells names apart is often at the end."""
    if len(text) <= letters:
        return text
    tail = (letters - 1) // 2
    return f"{text[: letters - 1 - tail]}…{text[-tail:]}"


def did_you_mean(word: str, choices: Iterable[str], cutoff: float = 0.5) -> str:
    """Return ``; did you mean 'x'?`` with the nearest choice, or nothing. ``cutoff``: least similarity, 0 to 1."""
    plain_choices = {choice.casefold(): choice for choice in choices}
    near = difflib.get_close_matches(word.casefold(), list(plain_choices), n=1, cutoff=cutoff)
    return f"; did you mean {plain_choices[near[0]]!r}?" if near else ""


# ---- numbers -------------------------------------------------------------------------------------------------------


def money(usd: Decimal) -> str:
    """Dollars for people: to the cent, below one dollar to four decimals; what would round to nothing says so."""
    size, sign = abs(usd), "-" if usd < 0 else ""
    if 0 < size < _SMALL / 2:
        return f"{sign}<$0.0001"
    rounded = size.quantize(_CENT if size >= 1 or size == 0 else _SMALL, ROUND_HALF_UP)
    return f"{sign}${rounded:,f}"


@overload
def decimal_text(number: Decimal) -> str: ...
@overload
def decimal_text(number: Decimal | None) -> str | None: ...
def decimal_text(number: Decimal | None) -> str | None:
    """A number for programs: every digit, no exponent; None stays None."""
    return None if number is None else format(number, "f")


def plural(count: int, noun: str, nouns: str = "") -> str:
    """``1 batch``, ``3,000 batches``; ``nouns`` where the plural is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def first_of(names: Collection[str], count: int = 3) -> str:
    """List the first names, for a message; an ellipsis stands for the others."""
    return ", ".join(itertools.islice(names, count)) + (", …" if len(names) > count else "")


def percent(fraction: float) -> str:
    """``95 %`` of 0.95; as many digits as it takes."""
    return f"{100 * fraction:g} %"


def tokens_text(count: int) -> str:
    """At most five characters up to a thousand million: ``9,999``, ``12.3k``, ``414k``, ``1.5M``."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= (10 * size if unit == "k" else size):
            shown = count / size
            return f"{shown:,.0f}{unit}" if shown >= 100 else f"{shown:.1f}{unit}"
    return f"{count:,}"


def number_text(value: float | None, digits: int = 1) -> str:
    """A number with so many decimals, or the mark for none."""
    return NONE if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def range_text(low: float | None, high: float | None, digits: int = 1) -> str:
    """``83.3–92.9``; the mark for none where an end is not known."""
    return NONE if low is None or high is None else f"{low:.{digits}f}–{high:.{digits}f}"


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3.5 h``, ``2.0 d``: at most six characters up to a hundred days."""
    seconds = max(seconds, 0.0)
    for size, unit, digits in ((86_400.0, "d", 1), (3600.0, "h", 1), (60.0, "min", 0)):
        if seconds >= 2 * size or (unit != "min" and seconds >= size):
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


# ---- cells of a spreadsheet ----------------------------------------------------------------------------------------


_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would run a cell with this text. It does so also after blanks, and also with
    full-width signs."""
    return text.startswith(_FORMULA_STARTS) or text.lstrip().startswith(_FORMULA_STARTS)


def with_guard(text: str) -> str:
    """Return a cell's text, behind an apostrophe if a spreadsheet would run it."""
    return f"'{text}" if is_formula(text) else text


def without_guard(cell: str) -> str:
    """Return a cell without the apostrophe that keeps a spreadsheet from running it."""
    return cell[1:] if cell.startswith("'") and is_formula(cell[1:]) else cell
