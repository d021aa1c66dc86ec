"""One spelling for what is written in several ways: widths, dashes, quotes, blanks, accents, superscripts.

Everything here takes linear time; Unicode's own normalisation alone does not, where marks are piled up by the thousand.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Literal

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b\u2032\u02b9\u02bc\u00b4\uff07"
_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\u300c\u300d\u300e\u300f"
_NOTHING = "\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufeff"
_VULGAR = {
    chr(number): " " + unicodedata.normalize("NFKC", chr(number)).replace("\u2044", "/")
    for number in (0xBC, 0xBD, 0xBE, *range(0x2150, 0x215F), 0x2189)
}
_SPELLING = str.maketrans(
    dict.fromkeys(_DASHES, "-")
    | dict.fromkeys(_SINGLE_QUOTES, "'")
    | dict.fromkeys(_DOUBLE_QUOTES, '"')
    | dict.fromkeys(_NOTHING, "")
    | {"\u22c5": "\u00b7", "\u30fb": "\u00b7", "\u066b": ".", "\u066c": ",", "\u2044": "/"}
    | _VULGAR
    # Circled numbers count the lines of a list; without the circle they would run into what follows.
    | {chr(0x2460 + place): f"({place + 1})" for place in range(20)}
)
# Letters that Unicode does not take apart into a plain one and an accent.
_LETTERS = str.maketrans(
    {"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L",
     "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ı": "i"}
)  # fmt: skip
_ACCENTS = re.compile("[\u0300-\u036f]+")
_SUPERSCRIPTS = re.compile("[\u207b\u207a]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")
_PLAIN_DIGITS = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u207a", "0123456789-+"
)
_OTHER_DIGIT = re.compile(r"[^\W\D_0-9]")
_LINE_ENDS = re.compile("\r\n?|[\u0085\u2028\u2029]")
_BLANKS = re.compile(r"\s+")
# Thai and Lao, Myanmar, Hangul, Khmer, Chinese and Japanese.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_WHOLE, _PIECE = 4096, 512
Form = Literal["NFC", "NFD", "NFKC"]


def spelled(text: str) -> str:
    """The text in one spelling, its lines, letters' case and accents kept; a superscript 2 becomes ``^2``."""
    text = _LINE_ENDS.sub("\n", text)
    if text.isascii():
        return text
    text = _SUPERSCRIPTS.sub(lambda match: "^" + match.group().translate(_PLAIN_DIGITS), text)
    text = _normalised(text.translate(_SPELLING), "NFKC").translate(_SPELLING)
    return text.translate(_digits()) if _OTHER_DIGIT.search(text) else text


def folded(text: str) -> str:
    """The text as names are compared: one spelling, no accents, one blank for many. The case is kept."""
    text = _BLANKS.sub(" ", spelled(text)).strip()
    if text.isascii():
        return text
    return _normalised(_ACCENTS.sub("", _normalised(text, "NFD")), "NFC").translate(_LETTERS)


def lowered(text: str) -> str:
    """The text in lower case, character by character, so that every place stays where it was."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(lower if len(lower := c.lower()) == 1 else c for c in text)


def is_unspaced(character: str) -> bool:
    """Return whether a character's script writes words without blanks, or attaches particles to them."""
    return _UNSPACED.match(character) is not None


@cache
def _digits() -> dict[int, str]:
    """Every decimal digit of every script, as one of ours."""
    values = ((number, unicodedata.decimal(chr(number), None)) for number in range(0x80, 0x20000))
    return {number: str(value) for number, value in values if value is not None}


def _normalised(text: str, form: Form) -> str:
    return "".join(_pieces(text, form)) if len(text) > _WHOLE else unicodedata.normalize(form, text)


def _pieces(text: str, form: Form) -> Iterator[str]:
    """The text normalised a piece at a time, cut at a blank or, in a run without any, somewhere."""
    start = 0
    while start < len(text):
        blank = text.find(" ", start + _PIECE, start + 2 * _PIECE)
        end = blank if blank >= 0 else start + 2 * _PIECE
        yield unicodedata.normalize(form, text[start:end])
        start = end
