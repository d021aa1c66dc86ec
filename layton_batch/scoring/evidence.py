"""What is known of predictions, and how it is counted: votes, labels and verdicts by who said what on which item.

The bridge from rows about named models and items to the arrays of ``stats``. It knows nothing of runs or files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from layton_batch.errors import DataError
from layton_batch.stats.strata import GoldPredictions, Strata, TargetPredictions, build_strata


@dataclass(frozen=True, slots=True, order=True)
class Entrant:
    """Who is ranked: a model at a hint level. Two hint levels of one model are two entrants."""

    model: str
    provider: str
    n_hints: int


@dataclass(frozen=True, slots=True)
class Ballot:
    """A prediction and its votes: ``yes`` of ``total`` verdicts; ``known_zero``: wrong without a jury.

    ``content`` identifies what was said, so that a label can be known to belong to exactly this prediction.
    """

    entrant: Entrant
    item_id: str
    yes: int
    total: int
    content: int = 0
    known_zero: bool = False
    kind: str = "answered"


@dataclass(frozen=True, slots=True)
class Label:
    """A person's word on a prediction (perhaps of an earlier run), with the votes the jury gave it.

    ``propensity``: the chance with which ``label-plan`` picked it, where it did and says so.
    """

    entrant: Entrant
    item_id: str
    yes: int
    total: int
    correct: bool
    content: int = 0
    propensity: float | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A prediction with every judge's verdict on one metric, by judge, and a person's word where there is one.

    ``family``: who made the model that answered, where that is known, else its provider.
    """

    entrant: Entrant
    family: str
    item_id: str
    verdicts: Mapping[str, bool]
    human: bool | None
    content: int = 0


@dataclass(frozen=True, slots=True)
class ItemScores:
    """One entrant's marks by a rule, item by item; in the same order ``kinds``, what became of its replies, and
    ``failures``, the rule's words for what is not right (None: nothing failed; empty: the rule has none).

    ``span``: the least and the greatest mark that the rule can give. ``strata``: in the same order the kinds of items
    of which the benchmark has as many as it is meant to have; empty where it is not put together like that."""

    entrant: Entrant
    item_ids: Sequence[str]
    marks: Sequence[float]
    kinds: Sequence[str]
    failures: Sequence[str | None] = ()
    span: tuple[float, float] = (0.0, 1.0)
    strata: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Ballots and labels as arrays: model i is ``entrants[i]``, target row r is ``ballots[r]``."""

    entrants: tuple[Entrant, ...]
    ballots: Sequence[Ballot]
    target: TargetPredictions
    gold: GoldPredictions
    strata: Strata


def content_key(answer: str | None, justification: str | None) -> int:
    """What makes two predictions the same one; equal within this process only."""
    return hash((answer, justification))


def in_order(ballots: Sequence[Ballot]) -> list[Ballot]:
    """By entrant and item, so that what is drawn does not hang on the order in which sources were given."""
    return sorted(ballots, key=lambda ballot: (ballot.entrant, ballot.item_id))


def count_votes(ballots: Sequence[Ballot], labels: Sequence[Label], *, by_seats: bool = True) -> Counted:
    """Count by entrant, in the order of first appearance, and by vote; not ``by_seats``, one of one judge is the same
    as three of three.

    Raises DataError for a prediction that occurs twice, and for labels of one prediction of which as many say yes as
    no.
    """
    entrants = {entrant: i for i, entrant in enumerate(dict.fromkeys(ballot.entrant for ballot in ballots))}
    _check_once(ballots)
    items: dict[str, int] = {}
    providers: dict[str, int] = {}
    target = TargetPredictions(
        model=_ints([entrants[ballot.entrant] for ballot in ballots]),
        item=_ints([items.setdefault(ballot.item_id, len(items)) for ballot in ballots]),
        yes=_ints([ballot.yes for ballot in ballots]),
        total=_ints([ballot.total for ballot in ballots]),
        known_zero=np.array([ballot.known_zero for ballot in ballots], dtype=np.bool_),
        provider=_ints([providers.setdefault(entrant.provider, len(providers)) for entrant in entrants]),
    )
    gold = _gold(ballots, labels, entrants, providers)
    return Counted(tuple(entrants), ballots, target, gold, build_strata(target, gold, by_seats=by_seats))


def _gold(
    ballots: Sequence[Ballot], labels: Sequence[Label], entrants: Mapping[Entrant, int], providers: dict[str, int]
) -> GoldPredictions:
    rows = {(ballot.entrant, ballot.item_id, ballot.content): i for i, ballot in enumerate(ballots)}
    labels, authors = settled(labels), dict(entrants)
    own = [rows.get((label.entrant, label.item_id, label.content), -1) for label in labels]
    return GoldPredictions(
        model=_ints([entrants.get(label.entrant, -1) for label in labels]),
        provider=_ints([providers.setdefault(label.entrant.provider, len(providers)) for label in labels]),
        yes=_ints([label.yes for label in labels]),
        total=_ints([label.total for label in labels]),
        label=_ints([int(label.correct) for label in labels]),
        own_target_row=_ints(own),
        author=_ints([authors.setdefault(label.entrant, len(authors)) for label in labels]),
    )


def _check_once(ballots: Sequence[Ballot]) -> None:
    seen: set[tuple[Entrant, str]] = set()
    for ballot in ballots:
        key = (ballot.entrant, ballot.item_id)
        if key in seen:
            raise DataError(
                f"item {ballot.item_id!r} of model {ballot.entrant.model!r} (hint level {ballot.entrant.n_hints}) is "
                "there twice; give each model's answers in one source only"
            )
        seen.add(key)


def settled(labels: Sequence[Label]) -> list[Label]:
    """One label for every prediction: what most of its annotators say. Raises DataError for an even split."""
    said: dict[tuple[Entrant, str, int], list[Label]] = {}
    for label in labels:
        said.setdefault((label.entrant, label.item_id, label.content), []).append(label)
    return [_majority(group) for group in said.values()]


def _majority(group: Sequence[Label]) -> Label:
    yes = sum(label.correct for label in group)
    if 2 * yes == len(group):
        raise DataError(
            f"item {group[0].item_id!r} of model {group[0].entrant.model!r} has {len(group)} human labels, "
            "half of them yes and half no; settle it and keep one"
        )
    return next(label for label in group if label.correct == (2 * yes > len(group)))


def mark_matrix(sheets: Sequence[ItemScores]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """[sheets, items] marks, NaN where an entrant has none; items in the order of their ids.

    Raises DataError for an entrant or item that occurs twice, an entrant without marks and a mark that is no number.
    """
    place = {item: i for i, item in enumerate(sorted({item for sheet in sheets for item in sheet.item_ids}))}
    matrix = np.full((len(sheets), len(place)), np.nan)
    seen: set[Entrant] = set()
    for row, sheet in zip(matrix, sheets, strict=True):
        name = f"model {sheet.entrant.model!r} (hint level {sheet.entrant.n_hints})"
        if sheet.entrant in seen or len(set(sheet.item_ids)) < len(sheet.item_ids):
            raise DataError(f"{name} has more than one mark for an item; give each model's answers in one source only")
        if not sheet.item_ids or not np.isfinite(sheet.marks).all():
            raise DataError(f"{name} has no marks or a mark that is no number; score the run again")
        seen.add(sheet.entrant)
        row[[place[item] for item in sheet.item_ids]] = sheet.marks
    return matrix


def strata_of(sheets: Sequence[ItemScores]) -> list[str] | None:
    """The stratum of every item, in the order of their ids; None where one has none."""
    if not all(sheet.strata and all(sheet.strata) for sheet in sheets):
        return None
    found = {item: name for sheet in sheets for item, name in zip(sheet.item_ids, sheet.strata, strict=True)}
    return [found[item] for item in sorted(found)]


def span_of(sheets: Sequence[ItemScores]) -> tuple[float, float]:
    """The least and the greatest mark that the rule of these sheets can give."""
    return min(sheet.span[0] for sheet in sheets), max(sheet.span[1] for sheet in sheets)


def _ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)
