"""What the list of items is searched by: the different words of each item and of its answers, in a file that a browser
loads when somebody searches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

NAME = "words.js"
MOST_CHARACTERS = 20_000
"""Of one item: what comes later is not found."""
_WORD = re.compile(r"\w[\w'’.-]*")


def search_words(own: Iterable[object], answers: Iterable[object]) -> str:
    """Return every different word once, the item's words first."""
    words: dict[str, None] = {}
    for text in dict.fromkeys(_texts((*own, *answers))):
        words.update(dict.fromkeys(_WORD.findall(text[:MOST_CHARACTERS].lower())))
    return " ".join(words)[:MOST_CHARACTERS]


def _texts(values: Iterable[object]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))


def write_words(folder: Path, words: Iterable[str]) -> None:
    """Beside the list, in its order."""
    data = orjson.dumps(list(words))
    (folder / NAME).write_bytes(b"window.itemWords=" + data + b";\n")
