"""A question about pictures: what is drawn, and the answer, computed from the very data that is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from layton_batch.records import JsonValue
from tools.layton_pictures.canvas import Canvas


@dataclass(frozen=True, slots=True)
class VisualQuestion:
    """``arguments`` are the evaluator's; several pictures are shown in order."""

    question: str
    reference: str
    evaluator: str
    arguments: Mapping[str, JsonValue]
    task: str
    draw: tuple[Callable[[], Canvas], ...]
