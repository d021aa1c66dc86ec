"""Single changed bits of stored files, and whether `verify` names each of them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bit:
    """Bit number ``number`` of a file, counted from its begin. ``about``: the kind of place."""

    path: Path
    number: int
    about: str

    def __str__(self) -> str:
        return f"{self.about}: {self.path} bit {self.number}"


@dataclass(slots=True)
class FlipCount:
    """Results of flipped bits, by kind of place. ``missed``: bits that nothing named."""

    named: Counter[str] = field(default_factory=Counter)
    missed: list[Bit] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.named.total()} named, {len(self.missed)} missed"


@contextmanager
def flipped(bit: Bit) -> Iterator[None]:
    """The bit is the other one until the block ends; then the file is as before, with its date."""
    when, changed = bit.path.stat(), bytearray(content := bit.path.read_bytes())
    changed[bit.number // 8] ^= 1 << bit.number % 8
    bit.path.write_bytes(changed)
    try:
        yield
    finally:
        bit.path.write_bytes(content)
        os.utime(bit.path, ns=(when.st_atime_ns, when.st_mtime_ns))


# ---- files -----------------------------------------------------------------------------------------------------------


def draw_bits(paths: Sequence[Path], number: int, chance: random.Random) -> Iterator[Bit]:
    """Draw bits of files: every second one from any file alike, the others by the files' sizes."""
    files = [path for path in sorted(paths) if path.is_file() and path.stat().st_size]
    sizes = [path.stat().st_size for path in files]
    for count in range(number):
        path = chance.choice(files) if count % 2 else chance.choices(files, sizes)[0]
        yield Bit(path, chance.randrange(8 * path.stat().st_size), path.suffix)


def count_file_flips(bits: Iterator[Bit], names: Callable[[Path], bool]) -> FlipCount:
    """Flip each bit for itself, and ask whether its file is named. No bit of these files is without a meaning."""
    count = FlipCount()
    for bit in bits:
        with flipped(bit):
            if names(bit.path):
                count.named[bit.about] += 1
            else:
                count.missed.append(bit)
    return count
