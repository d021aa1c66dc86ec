"""A judge's reply that says two things. A submission may hold a verdict, and a judge that quotes it replies with two:
which of them is its own cannot be told, so neither is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from layton_batch.records import JsonValue
from layton_batch.tasks.reply_json import as_bool

_THOUGHT, _THOUGHT_END = "<think>", "</think>"
_MOST_BROKEN = 64
"""How many opening braces of what is no object are tried; behind them fields are looked for in the bare text."""
_AROUND = r"[\s\\\"'*`]{0,8}"


def contradiction(text: str, fields: Iterable[Sequence[str]]) -> str | None:
    """Why the reply cannot be believed; None where nothing in it contradicts itself. ``fields``: for each mark, the
    names it goes by.

    Every object in the text counts, at any depth, and every ``name: value`` between them. What the text of a JSON
    string says does not: whose string it is in is plain.
    """
    pairs, rest = _objects(without_thought(text))
    for names in fields:
        marks = {as_bool(value) for name, value in pairs if name in names}
        marks |= {as_bool(found) for found in _bare(rest, names)}
        if {True, False} <= marks:
            return f"contradicts itself: {names[0]} is said to be true and to be false"
    return None


def without_thought(text: str) -> str:
    """What follows the thought that a reply begins with. It ends where it first may: an end that is quoted later hides
    nothing."""
    return text.partition(_THOUGHT_END)[2] if text.lstrip().startswith(_THOUGHT) and _THOUGHT_END in text else text


def _objects(text: str) -> tuple[list[tuple[str, JsonValue]], str]:
    """The fields of every JSON object in the text, repeated ones too, and the text without the objects."""
    pairs: list[tuple[str, JsonValue]] = []

    def keep(found: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        pairs.extend(found)
        return dict(found)

    decoder = json.JSONDecoder(object_pairs_hook=keep, parse_int=str, parse_float=str, parse_constant=str)
    rest: list[str] = []
    place = broken = 0
    while (start := text.find("{", place)) >= 0 and broken < _MOST_BROKEN:
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            broken, end = broken + 1, start + 1
        rest.append(text[place:start])
        place = end
    return pairs, " ".join([*rest, text[place:]])


def _bare(text: str, names: Sequence[str]) -> Iterator[str]:
    any_name = "|".join(map(re.escape, names))
    field = rf"(?<![a-z_])(?:{any_name}){_AROUND}[:=]{_AROUND}(true|false|[01])(?![a-z0-9_.]*[a-z0-9_])"
    return (match.group(1) for match in re.finditer(field, text, re.IGNORECASE))
