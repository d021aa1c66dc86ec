"""Chance that is the same in every process and whatever the order of the questions: a digest of what it depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeVar

_Option = TypeVar("_Option")
_STANDARD = NormalDist()
_RESOLUTION = 1 << 53


def draw(*parts: object) -> float:
    """A uniform number in [0, 1) that depends on nothing but the parts."""
    named = "\x1f".join(str(part) for part in parts).encode("utf-8", "backslashreplace")
    return (int.from_bytes(hashlib.sha256(named).digest()[:8], "big") >> 11) / _RESOLUTION


def normal(*parts: object) -> float:
    """A standard normal number."""
    return _STANDARD.inv_cdf(min(max(draw(*parts), 1e-9), 1 - 1e-9))


def pick(options: Sequence[_Option], *parts: object) -> _Option:
    return options[position(len(options), *parts)]


def position(count: int, *parts: object) -> int:
    return int(draw(*parts) * count)
