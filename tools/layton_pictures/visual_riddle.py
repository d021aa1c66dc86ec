"""A picture riddle: what is drawn, the facts computed from it, and the text that tells it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.layton_pictures.canvas import Canvas

TEXTS_FILE = Path(__file__).with_name("visual_texts.toml")


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture, the name of its text, and the words that fill the gaps of the text.

    The facts are computed from the very data that is drawn, so that the picture and the answer cannot disagree.
    """

    name: str
    facts: Mapping[str, str | int]
    draw: Callable[[], Canvas]


@dataclass(frozen=True, slots=True)
class VisualRiddle:
    """One picture riddle; ``hints`` holds two to four texts, the fourth being the special hint."""

    category: str
    picarats: int
    description: str
    hints: tuple[str, ...]
    solution: str
    answer: str
    justification: str
    scene: Scene


def read_texts() -> dict[str, dict[str, str | int | list[str]]]:
    """The texts with their gaps, by the name of the scene."""
    return tomllib.loads(TEXTS_FILE.read_text(encoding="utf-8"))


def tell(scene: Scene, text: Mapping[str, str | int | list[str]]) -> VisualRiddle:
    """The riddle of a scene; KeyError if its text is incomplete or has a gap for which there is no fact."""

    def filled(name: str) -> str:
        return str(text[name]).format_map(scene.facts)

    hints = text["hints"]
    if not isinstance(hints, list):
        raise TypeError(f"{TEXTS_FILE.name}: the hints of [{scene.name}] must be a list of texts")
    return VisualRiddle(
        category=filled("category"),
        picarats=int(filled("picarats")),
        description=filled("description"),
        hints=tuple(hint.format_map(scene.facts) for hint in hints),
        solution=filled("solution"),
        answer=filled("answer"),
        justification=filled("justification"),
        scene=scene,
    )
