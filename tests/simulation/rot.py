"""Bits of stored files that change while nobody writes: each is mended from what is whole, or named, and never used."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from layton_batch.files.run_folder import RunFolder

RESTS_SECONDS = 1.0
"""Files rest where so much time has passed since the last point: what is written is recorded by then."""


@dataclass(frozen=True, slots=True)
class Flip:
    """At point ``at`` of the history, or when files rest next, one bit of a stored file changes; ``draw``: which."""

    at: int
    draw: int


@dataclass(frozen=True, slots=True)
class Damage:
    """A file with a changed bit. ``before`` and ``after`` are its contents."""

    path: Path
    before: bytes
    after: bytes

    @property
    def in_batches(self) -> str:
        """The path as `verify` names raw results that contradict a row: below the folder of runs."""
        return "/".join(self.path.parts[-4:])

    @property
    def lasts(self) -> bool:
        return self.path.is_file() and self.path.read_bytes() == self.after

    def lasts_in(self, later: Damage) -> bool:
        """Return whether a later damage struck the file as this one left it."""
        return self.path == later.path and self.after == later.before

    def put_back(self) -> None:
        """Put the file back from a copy, as messages advise."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(self.before)


@dataclass(slots=True)
class Rot:
    """Every flip of a history, and what it damaged. ``returned``: files that a person put back."""

    flips: Sequence[Flip]
    damages: list[Damage] = field(default_factory=list)
    returned: set[Path] = field(default_factory=set)
    done: int = 0

    def strike(self, folder: RunFolder, passed: int) -> bool:
        """Change the bits that are due. Return whether any was changed."""
        struck = False
        while self.done < len(self.flips) and self.flips[self.done].at <= passed:
            damage = _flip(folder, random.Random(f"flip {self.flips[self.done].draw}"))
            self.done += 1
            if damage is not None:
                earlier = next((other for other in self.damages if other.lasts_in(damage)), None)
                if earlier is not None:
                    self.damages.remove(earlier)
                    damage = replace(damage, before=earlier.before)
                self.damages.append(damage)
                struck = True
        return struck

    def named_in(self, message: str) -> list[Damage]:
        """Return the damages whose files a message names, though they may be gone by now: aside, as it says."""
        contradicted = "".join(line for line in message.splitlines() if "the row" in line)
        return [damage for damage in self.damages if str(damage.path) in message or damage.in_batches in contradicted]

    def put_back(self, message: str) -> bool:
        """Have a person put back each damaged file that a message names. Return whether there is any."""
        named = self.named_in(message)
        for damage in named:
            damage.put_back()
            self.damages.remove(damage)
            self.returned.add(damage.path)
        return bool(named)

    def move(self, old: Path, new: Path) -> None:
        """The folder of runs is another one now."""
        self.damages = [replace(damage, path=new / damage.path.relative_to(old)) for damage in self.damages]

    def lasting(self) -> list[Damage]:
        """Return the damages that nobody has mended."""
        return [damage for damage in self.damages if damage.lasts]


def _flip(folder: RunFolder, draw: random.Random) -> Damage | None:
    """Change one bit of one file: first the kind of file is drawn, then the file, so that each kind has its share."""
    kinds: dict[str, list[Path]] = {}
    for path in _files(folder):
        kinds.setdefault(_kind(folder, path), []).append(path)
    if not kinds:
        return None
    path = draw.choice(kinds[draw.choice(sorted(kinds))])
    before = path.read_bytes()
    position, bit = draw.randrange(len(before)), 1 << draw.randrange(8)
    after = before[:position] + bytes([before[position] ^ bit]) + before[position + 1 :]
    path.write_bytes(after)
    return Damage(path, before, after)


def _files(folder: RunFolder) -> Iterator[Path]:
    for root in (folder.root, folder.batches):
        for path in sorted(root.rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
            if not hidden and path.is_file() and path.stat().st_size:
                yield path


def _kind(folder: RunFolder, path: Path) -> str:
    """Return ``tables``, ``intents``, ``run.json`` …, or of a batch ``answers``, ``request.jsonl`` …"""
    if path.is_relative_to(folder.batches):
        return f"batch {path.parent.name if path.suffix == '.parquet' else path.name}"
    return path.relative_to(folder.root).parts[0]
