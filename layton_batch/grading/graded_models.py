"""Graded models, as boards rank them: the results of a model by item, wherever its marks are from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from layton_batch.records import JsonValue


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """Result of an item on a board: its mark (None: outside the score), a kind of ``PredictionKind``, and the failure.

    ``failure``: None for a right answer. ``stratum``: the item's kind, for benchmarks composed of kinds.
    """

    mark: float | None
    kind: str
    failure: str | None
    stratum: str = ""


@dataclass(slots=True)
class GradedModel:
    """A model's marks. ``frame``: its graded predictions, None for totals without replies and the mean of several
    rounds. ``document``: its report, if a benchmark makes one.

    ``outcomes``, by item: only where there will be a board. ``asked``: by item, a value that differs if the questions
    do; empty where all models are graded by one file. ``twice``: an item with several predictions.
    ``unanswered``: ids in the file of items that have no prediction. ``notes``: how predictions were read.
    """

    name: str
    where: str
    provider: str
    frame: pl.DataFrame | None = None
    document: Mapping[str, JsonValue] | None = None
    outcomes: dict[str, ItemOutcome] = field(default_factory=dict)
    asked: dict[str, object] = field(default_factory=dict)
    twice: str | None = None
    n_rows: int = 0
    n_hints: int = 0
    is_published: bool = False
    unanswered: Sequence[str] = ()
    notes: Sequence[str] = ()
