"""Text as a page may show it. Models, items and manifests wrote it, so it is taken for hostile.

Escaping for HTML is the templates' business; here are the dangers that survive escaping: characters that cannot be
seen or that turn the line around, and length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from layton_batch.text import visible

LONGEST = 20_000
"""Characters of one text that a page holds; the rest stays in the tables."""
LONG = 1_500
_LONG_LINES = 30
_TEASER = 160
_NAME = 200

_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Passage:
    """A text for a page. ``teaser``: what stands for a long one while it is folded, else empty; ``size``: the
    characters of the whole text where ``text`` is cut, else 0."""

    text: str
    teaser: str = ""
    size: int = 0


def short_line(value: object, longest: int = 200) -> str:
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
    return Passage(text, short_line(text, _TEASER) if is_long else "", size)
