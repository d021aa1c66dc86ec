"""Characters that no screen shows. They hide words from people that models read, or make one name look like another."""

from __future__ import annotations

import re

IGNORABLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's ``Default_Ignorable_Code_Point`` (DerivedCoreProperties), as the inside of a character class.

Listed rather than asked of ``unicodedata``: that module does not know the property, its tables change between Python
versions, and the bytes of a prompt must not.
"""
_IGNORABLE = re.compile(f"[{IGNORABLE}]")


def printable(text: str, stand_in: str = "\N{REPLACEMENT CHARACTER}", keep: str = "") -> str:
    """The text with ``stand_in`` for every character that acts or hides instead of being seen: controls, line breaks,
    direction marks, fillers, variation selectors. ``keep``: characters that stay all the same."""
    if text.isascii() and text.isprintable():
        return text
    shown = "".join(char if char.isprintable() or char in keep else stand_in for char in text)
    return _IGNORABLE.sub(stand_in, shown)
