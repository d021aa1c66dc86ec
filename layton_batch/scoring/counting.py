"""How votes and labels are counted: from named models and items to the arrays of ``stats``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from layton_batch.errors import DataError
from layton_batch.scoring.ballots import Ballots
from layton_batch.scoring.evidence import Ballot, Entrant, Label
from layton_batch.stats.strata import GoldPredictions, Strata, TargetPredictions, build_strata


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Ballots and labels as arrays: model i is ``entrants[i]``, target row r is ``ballots[r]``."""

    entrants: tuple[Entrant, ...]
    ballots: Ballots
    target: TargetPredictions
    gold: GoldPredictions
    strata: Strata


def in_order(ballots: Iterable[Ballot]) -> Ballots:
    """By entrant and item, so that what is drawn does not hang on the order in which sources were given."""
    return Ballots.of(ballots).in_order()


def count_votes(ballots: Iterable[Ballot], labels: Sequence[Label], *, by_seats: bool = True) -> Counted:
    """Count by entrant, in the order of first appearance, and by vote; not ``by_seats``, one of one judge is the same
    as three of three.

    Raises DataError for a prediction that occurs twice, and for labels of one prediction of which as many say yes as
    no.
    """
    cast = Ballots.of(ballots).numbered()
    if (again := cast.twice()) is not None:
        raise DataError(
            f"item {again.item_id!r} of model {again.entrant.model!r} (hint level {again.entrant.n_hints}) is there "
            "twice; give each model's answers in one source only"
        )
    providers: dict[str, int] = {}
    target = TargetPredictions(
        model=cast.who,
        item=cast.item,
        yes=cast.yes,
        total=cast.total,
        known_zero=cast.known_zero,
        provider=_ints([providers.setdefault(entrant.provider, len(providers)) for entrant in cast.entrants]),
    )
    gold = _gold(cast, settled(labels), providers)
    return Counted(tuple(cast.entrants), cast, target, gold, build_strata(target, gold, by_seats=by_seats))


def _gold(cast: Ballots, labels: Sequence[Label], providers: dict[str, int]) -> GoldPredictions:
    entrants: dict[Entrant, int] = {entrant: number for number, entrant in enumerate(cast.entrants)}
    authors = dict(entrants)
    return GoldPredictions(
        model=_ints([entrants.get(label.entrant, -1) for label in labels]),
        provider=_ints([providers.setdefault(label.entrant.provider, len(providers)) for label in labels]),
        yes=_ints([label.yes for label in labels]),
        total=_ints([label.total for label in labels]),
        label=_ints([int(label.correct) for label in labels]),
        own_target_row=_ints(cast.find([(label.entrant, label.item_id, label.content) for label in labels])),
        author=_ints([authors.setdefault(label.entrant, len(authors)) for label in labels]),
    )


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


def _ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)
