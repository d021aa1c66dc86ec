"""Option letters: which there are, which abstains, which is right, in what order an item shows its options, and what a
reply gives as its answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Literal

from layton_batch.errors import DataError
from layton_batch.records import Item, JsonValue

MIN_OPTIONS, MAX_OPTIONS = 2, 25
"""Real options an item may have; "I don't know" comes on top, so that Z is the last letter there can be."""


def idk_letter(n_options: int) -> str:
    """The letter of "I don't know": the one after the last real option."""
    return ascii_uppercase[n_options]


def option_letters(n_options: int) -> str:
    """The letters of the real options, in order."""
    return ascii_uppercase[:n_options]


def shuffled_order(item_id: str, n_options: int, seed: int) -> tuple[int, ...]:
    """The order in which an item's options are shown: index of the option behind A, behind B, …

    Sorted by digest instead of drawn: the order depends on nothing but (seed, item, number of options), not on which
    other items there are, nor on a generator whose stream another Python version may change.
    """
    keys = [hashlib.sha256(f"{seed}\0{item_id}\0{index}".encode()).digest() for index in range(n_options)]
    return tuple(sorted(range(n_options), key=keys.__getitem__))


@dataclass(frozen=True, slots=True)
class Key:
    """What a reply to an item is held against: the right letters (several only for options of one text) and how many
    real options there are."""

    gold: str
    n_options: int


def item_key(item: Item, *, first_alone: bool) -> Key:
    """The key of an item of this task. Raises DataError where its payload is not what the task made it.

    ``first_alone``: as published, the right option is looked for by its text, so that of two equal options the first is
    right and the other wrong; otherwise both are.
    """
    options, gold = item.payload.get("options"), item.payload.get("gold")
    if not isinstance(options, list) or not MIN_OPTIONS <= len(options) <= MAX_OPTIONS:
        raise DataError(f"item {item.id!r}: its payload has no list of options")
    if not isinstance(gold, str) or len(gold) != 1 or gold not in option_letters(len(options)):
        raise DataError(f"item {item.id!r}: its payload has no gold letter")
    same = _of_one_text(options, gold)
    return Key(same[0] if first_alone else same, len(options))


def _of_one_text(options: Sequence[JsonValue], gold: str) -> str:
    letters = option_letters(len(options))
    right = options[letters.index(gold)]
    return "".join(letter for letter, option in zip(letters, options, strict=True) if option == right)


Stage = Literal["primary", "fallback", "none"]


@dataclass(frozen=True, slots=True)
class Reading:
    """The letters a reply gives as its answer (none or one in either protocol), and the rule that found them."""

    letters: tuple[str, ...] = ()
    rule: str | None = None
    stage: Stage = "none"
    note: str | None = None  # why there is no letter, where the rule can tell

    @property
    def letter(self) -> str | None:
        """The letters as one text; None where there is none."""
        return ",".join(self.letters) or None


NOTHING = Reading()
