"""Parts of an item as people see them: on pages, in the labelling app and in label sheets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from layton_batch.records import Image, Item
from layton_batch.text import printable

_HINTS = ("First hint", "Second hint", "Third hint", "Special hint")
_TYPES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})
"""Types of pictures that a page embeds. SVG is left out: it is a document that can carry scripts."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
LARGEST_PICTURE = 12_000_000


def picture(image: Image) -> tuple[str, str]:
    """Return a data URL, or the reason why the picture is not shown."""
    if image.media_type not in _TYPES:
        return "", f"An image of the type {printable(image.media_type)[:60] or 'unknown'} is not shown."
    if len(data := image.base64) > LARGEST_PICTURE:
        return "", f"An image of {len(data) * 3 / 4e6:.0f} MB is too large to be shown here."
    if not _BASE64.fullmatch(data):
        return "", "The image is not valid base64 and is not shown."
    return f"data:{image.media_type};base64,{data}", ""


def pictures(item: Item) -> list[tuple[str, str]]:
    """Return each of the item's pictures as ``picture`` does."""
    return [picture(image) for image in item.images]


def hints(item: Item) -> list[tuple[str, str]]:
    """Return name and text of each hint."""
    return [(name, text) for name, text in zip(_HINTS, item.hints, strict=False) if text and text.strip()]


def references(item: Item) -> Iterator[tuple[str, str]]:
    """Return name and text of each reference text, without repeats: an item may use its solution as its answer."""
    names_by_text: dict[str, str] = {}
    for name, text in (("Answer", item.answer), ("Justification", item.justification), ("Solution", item.solution)):
        if text and text.strip():
            names_by_text.setdefault(text, name)
    return ((name, text) for text, name in names_by_text.items())
