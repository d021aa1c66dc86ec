"""Replies that almost follow a provider's documents: sound replies, bent at random places by a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

DEEP = "@deep@"
"""Stands for an array that is nested 5,000 deep, which no writer of JSON writes."""
LONG_NUMBER = "@digits@"
"""Stands for a number of 5,000 digits."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, 10**400, -(10**400), 1e308, -0.5, float("nan"),
    float("inf"), float("-inf"), LONG_NUMBER, DEEP, "", " ", "\0", "\ud800", "a\udc00b", "x" * 70_000, "9" * 400,
    "9" * 5000, "-1", "1e400", "NaN", "²", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59",
    "2026-02-30T00:00:00Z", [], {}, [[]], [None], [{}], {"": None}, {"error": {"code": 10**400}},
    {"code": "x", "message": {"message": []}}, ["2"] * 50,
)  # fmt: skip


def bent_reply(sound: bytes, random: Random) -> bytes:
    """Return the sound reply with one to three changes of its values, and now and then of its bytes."""
    document = json.loads(sound)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        document = _bent(document, random)
    text = json.dumps(document).replace(f'"{DEEP}"', "[" * 5000 + "]" * 5000)
    raw = text.replace(f'"{LONG_NUMBER}"', "7" * 5000).encode()
    return _damaged(raw, random) if random.random() < 0.1 else raw


def _bent(document: Any, random: Random) -> Any:
    places = list(_places(document))
    if not places or random.random() < 0.02:
        return deepcopy(random.choice(VALUES))
    holder, key = random.choice(places)
    change = random.randrange(6)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, list):
        holder.insert(key, holder[random.randrange(len(holder))])
    elif change == 2 and isinstance(holder, dict):
        holder[str(random.choice(VALUES))[:80]] = holder.pop(key)
    elif change == 3:
        other, place = random.choice(places)  # the value of another place
        holder[key] = json.loads(json.dumps(other[place]))
    else:
        holder[key] = deepcopy(random.choice(VALUES))
    return document


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in list(entries):
        yield value, key
        yield from _places(entry)


def _damaged(raw: bytes, random: Random) -> bytes:
    place = random.randrange(len(raw) + 1)
    cases = (
        raw[:place],
        raw[:place] + bytes([random.randrange(256)]) + raw[place + 1 :],
        b"\xef\xbb\xbf" + raw,
        raw + raw,
        b"<html>" + raw,
    )
    return random.choice(cases)
