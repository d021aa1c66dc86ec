"""The words that puzzles are made of: attributes, their values, and how a person is named by a value."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("themes.toml")


@dataclass(frozen=True, slots=True)
class Theme:
    """``phrase`` names the person who has a value; "{}" in it is the value."""

    attribute: str
    phrase: str
    values: tuple[str, ...]

    def person(self, value: str) -> str:
        return self.phrase.format(value)


def bundled_themes() -> tuple[Theme, ...]:
    """All themes in the order of their file."""
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))["themes"]
    return tuple(Theme(entry["attribute"], entry["phrase"], tuple(entry["values"])) for entry in entries)
