"""Option letters: which there are, which one abstains, and in what order an item shows its options."""

from __future__ import annotations

import hashlib
from string import ascii_uppercase

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
