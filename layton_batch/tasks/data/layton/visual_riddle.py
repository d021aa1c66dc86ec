"""The record every picture riddle is declared as."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from layton_batch.tasks.data.layton.canvas import Canvas


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
    draw: Callable[[], Canvas]
