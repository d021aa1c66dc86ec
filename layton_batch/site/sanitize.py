"""Text as a page may show it. Models, items and manifests wrote it, so it is taken for hostile.

Escaping for HTML is the templates' business; here are the dangers that survive escaping: characters that cannot be
seen or that turn the line around, and length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

LONGEST = 20_000
"""Characters of one text that a page holds; the rest stays in the tables."""
LONG = 1_500
_LONG_LINES = 30
_TEASER = 160
_NAME = 200

# Control, format and filler characters without a shape of their own. Tab, line feed, and the joiners and selectors that
# scripts and emoji need (U+200C, U+200D, U+FE0E, U+FE0F, the Mongolian ones) are left alone.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_BLANKS = re.compile(r"\s+")
_CENT, _SMALL = Decimal("0.01"), Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class Passage:
    """A text for a page. ``teaser``: what stands for a long one while it is folded, else empty; ``size``: the
    characters of the whole text where ``text`` is cut, else 0."""

    text: str
    teaser: str = ""
    size: int = 0


def visible(text: str) -> str:
    """The text with every unseen character replaced by its code point in angle quotes."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(lambda match: f"‹U+{ord(match[0]):04X}›", text)


def one_line(value: object, longest: int = 200) -> str:
    """Any value as a single short line, for names, titles and cells; None is empty."""
    if value is None:
        return ""
    text = str(value)
    return _name(text, longest) if len(text) <= _NAME else _line(text, longest)


def _line(text: str, longest: int) -> str:
    shown = visible(_BLANKS.sub(" ", text[: longest * 4]).strip())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


_name = lru_cache(4096)(_line)  # the same few hundred names stand in a hundred thousand places


def passage(value: str | None) -> Passage | None:
    """A text of several lines; None where there is nothing to read."""
    if value is None or not value.strip():
        return None
    text = visible(value[:LONGEST].replace("\r\n", "\n").strip())
    size = len(value) if len(value) > LONGEST else 0
    is_long = len(text) > LONG or text.count("\n") > _LONG_LINES
    return Passage(text, one_line(text, _TEASER) if is_long else "", size)


def money(usd: Decimal) -> str:
    """Dollars to the cent, below one dollar to four decimals; what would round to nothing says so."""
    size = abs(usd)
    if 0 < size < _SMALL / 2:
        return "<$0.0001"
    rounded = size.quantize(_CENT if size >= 1 or size == 0 else _SMALL, ROUND_HALF_UP)
    return f"{'-' if usd < 0 else ''}${rounded:,f}"
