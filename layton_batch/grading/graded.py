"""What comes of grading one submission: its document as ``grade`` publishes it, and what became of every item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from layton_batch.errors import DataError
from layton_batch.records import JsonValue

if TYPE_CHECKING:
    from layton_batch.tasks.mcq_idk_rules.metrics import Estimate
    from layton_batch.tasks.mcq_idk_rules.offline import GradeReport


@dataclass(frozen=True, slots=True)
class GradeConfig:
    """How predictions are graded. ``protocol``: None for a third party's task as it comes. ``samples``: how zeroeval
    makes one answer of several, None for its default.

    ``rows``: every graded row is wanted. ``board``: models will be ranked item by item. Without either, memory does not
    grow with the predictions.
    """

    task: str
    protocol: str | None
    metric: str
    samples: str | None = None
    rows: bool = True
    board: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an item: its mark (None: outside the score), a kind of ``PredictionKind``, and for what is not
    right the failure."""

    mark: float | None
    kind: str
    failure: str | None


@dataclass(frozen=True, slots=True)
class Note:
    """What a board needs of a prediction beside its grade. ``ending``: truncated or refused."""

    item_id: str
    asked: object
    ending: str | None
    is_missing: bool
    tokens: float | None


@dataclass(slots=True)
class Graded:
    """A model's predictions, graded. ``document``: in the published form, None for the mean of several rounds.

    ``outcomes``, by item: only where there will be a board. ``asked``: by item, something that differs where the
    questions do; empty where all models are graded by one file. ``tokens``: of the predictions that say what they took.
    ``mcq``: what its tables and charts are made of.
    """

    name: str
    where: str
    provider: str
    document: Mapping[str, JsonValue] | None
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    asked: dict[str, object] = field(default_factory=dict)
    twice: str | None = None
    tokens: list[float] = field(default_factory=list)
    n_rows: int = 0
    mcq: GradeReport | None = None
    totals: Mapping[str, Estimate] | None = None

    def count(self, note: Note) -> None:
        """One prediction more."""
        self.n_rows += 1
        if note.tokens is not None:
            self.tokens.append(note.tokens)

    def add(self, note: Note, outcome: Outcome) -> None:
        """What became of it; an item that was there before is remembered as such."""
        if note.item_id in self.outcomes:
            self.twice = self.twice or note.item_id
        self.outcomes[note.item_id] = outcome
        if note.asked is not None:
            self.asked[note.item_id] = note.asked


# ---- rounds --------------------------------------------------------------------------------------------------------


def by_model(found: Sequence[Graded]) -> dict[str, list[Graded]]:
    """The rounds of each model, in the order of their first."""
    models: dict[str, list[Graded]] = {}
    for one in found:
        models.setdefault(one.name, []).append(one)
    return models


def averaged(rounds: Sequence[Graded]) -> Graded:
    """A model over its rounds: the mean mark of every item that all of them have; it failed as in the first round that
    it did not get right. Raises DataError for rounds without a common item, and for an item twice in one of them."""
    if len(rounds) == 1:
        return rounds[0]
    for one in rounds:
        check_once(one)
    first = rounds[0]
    shared = [item for item in first.outcomes if all(item in one.outcomes for one in rounds[1:])]
    if not shared:
        raise DataError(f"model {first.name!r}: its rounds have no item in common")
    merged = Graded(first.name, ", ".join(one.where for one in rounds), first.provider, None, asked=first.asked)
    for item in shared:
        merged.outcomes[item] = _mean([one.outcomes[item] for one in rounds])
    merged.n_rows = sum(one.n_rows for one in rounds)
    return merged


def _mean(outcomes: Sequence[Outcome]) -> Outcome:
    worst = next((one for one in outcomes if one.failure is not None), outcomes[0])
    marks = [one.mark for one in outcomes if one.mark is not None]
    return Outcome(sum(marks) / len(marks) if marks else None, worst.kind, worst.failure)


def check_once(one: Graded) -> None:
    """Raises DataError for a model with several predictions of one item: which of them to rank by?"""
    if one.twice is not None:
        raise DataError(f"{one.where}: item {one.twice!r} is there twice; a board needs one prediction an item")
