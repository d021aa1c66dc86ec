"""Ballots of a large board: columns, of which a ballot is made when it is looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, overload

import numpy as np

from layton_batch.scoring.evidence import Ballot, Entrant
from layton_batch.stats.strata import BoolArray, IntArray, Ints

_AT_ONCE = 10_000
_Prediction = tuple[Entrant, str, int]


class Contents(Protocol):
    """Numbers that are looked at like those of an array."""

    @overload
    def __getitem__(self, at: int | np.integer[Any]) -> int | np.integer[Any]: ...
    @overload
    def __getitem__(self, at: slice | Ints | BoolArray) -> Contents: ...
    def tolist(self) -> list[int]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Ballots(Sequence[Ballot]):
    """Row r is of ``entrants[who[r]]`` on ``items[item[r]]``, and ``kinds[kind[r]]`` became of the reply; the other
    columns are those of :class:`Ballot`. Entrants, items and kinds are there once each, some perhaps without a row."""

    entrants: Sequence[Entrant]
    items: Sequence[str]
    kinds: Sequence[str]
    who: Ints
    item: Ints
    yes: Ints
    total: Ints
    content: Contents
    known_zero: BoolArray
    kind: Ints

    @classmethod
    def of(cls, ballots: Iterable[Ballot]) -> Ballots:
        """The same ballots in columns."""
        if isinstance(ballots, Ballots):
            return ballots
        cast = list(ballots)
        who: dict[Entrant, int] = {}
        item: dict[str, int] = {}
        kind: dict[str, int] = {}
        return cls(
            who=_ints([who.setdefault(one.entrant, len(who)) for one in cast]),
            item=_ints([item.setdefault(one.item_id, len(item)) for one in cast]),
            kind=_ints([kind.setdefault(one.kind, len(kind)) for one in cast]),
            yes=_ints([one.yes for one in cast]),
            total=_ints([one.total for one in cast]),
            content=_ints([one.content for one in cast]),
            known_zero=np.array([one.known_zero for one in cast], dtype=np.bool_),
            entrants=tuple(who),
            items=tuple(item),
            kinds=tuple(kind),
        )

    def __len__(self) -> int:
        return len(self.who)

    @overload
    def __getitem__(self, index: int) -> Ballot: ...
    @overload
    def __getitem__(self, index: slice) -> Ballots: ...
    def __getitem__(self, index: int | slice) -> Ballot | Ballots:
        if isinstance(index, slice):
            return self.rows(np.arange(len(self))[index])
        at = range(len(self))[index]
        return next(iter(self.rows(np.array([at]))))

    def __iter__(self) -> Iterator[Ballot]:
        for start in range(0, len(self), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            columns = (self.who, self.item, self.yes, self.total, self.content, self.known_zero, self.kind)
            for who, item, yes, total, content, zero, kind in zip(
                *(one[rows].tolist() for one in columns), strict=True
            ):
                yield Ballot(self.entrants[who], self.items[item], yes, total, content, zero, self.kinds[kind])

    def rows(self, rows: Ints | BoolArray) -> Ballots:
        """Some of them: by number, or by a mask."""
        return replace(
            self,
            who=self.who[rows],
            item=self.item[rows],
            yes=self.yes[rows],
            total=self.total[rows],
            content=self.content[rows],
            known_zero=self.known_zero[rows],
            kind=self.kind[rows],
        )

    def in_order(self) -> Ballots:
        """By entrant and item."""
        return self.rows(np.lexsort((_places(self.items)[self.item], _places(self.entrants)[self.who])))

    def numbered(self) -> Ballots:
        """Entrants and items numbered in the order of their first row, those without one left out."""
        who, entrants = _by_appearance(self.who, len(self.entrants))
        item, items = _by_appearance(self.item, len(self.items))
        return replace(
            self,
            who=who,
            item=item,
            entrants=tuple(self.entrants[at] for at in entrants),
            items=tuple(self.items[at] for at in items),
        )

    def twice(self) -> Ballot | None:
        """The first of them whose entrant and item have one before it."""
        order, key = self._by_prediction()
        again = order[1:][key[1:] == key[:-1]]
        return self[int(again.min())] if len(again) else None

    def find(self, predictions: Sequence[_Prediction]) -> list[int]:
        """The row of each entrant, item and content, -1 where there is none; no prediction is there twice."""
        who = {one: number for number, one in enumerate(self.entrants)}
        item = {one: number for number, one in enumerate(self.items)}
        (order, key), found = self._by_prediction(), list[int]()
        for entrant, item_id, content in predictions:
            row = -1
            if entrant in who and item_id in item:
                wanted = who[entrant] * len(self.items) + item[item_id]
                place = int(np.searchsorted(key, wanted))
                if place < len(key) and key[place] == wanted and int(self.content[order[place]]) == content:
                    row = int(order[place])
            found.append(row)
        return found

    def votes_on(
        self, predictions: Sequence[tuple[Entrant, str, int]]
    ) -> dict[tuple[Entrant, str, int], tuple[int, int]]:
        """Yes votes and verdicts on those of these predictions that the jury judged; see :meth:`find`."""
        rows = zip(predictions, self.find(predictions), strict=True)
        return {one: (int(self.yes[row]), int(self.total[row])) for one, row in rows if row >= 0 and self.total[row]}

    def kinds_of(self) -> Counter[tuple[Entrant, str]]:
        """How often what became of each entrant's replies."""
        pairs, counts = np.unique(self.who.astype(np.int64) * len(self.kinds) + self.kind, return_counts=True)
        whose = (
            (self.entrants[pair // len(self.kinds)], self.kinds[pair % len(self.kinds)]) for pair in pairs.tolist()
        )
        return Counter(dict(zip(whose, counts.tolist(), strict=True)))

    def jury_sizes(self) -> dict[Entrant, set[int]]:
        """Of each entrant with votes, how many verdicts its answers have."""
        judged = self.total > 0
        width = int(self.total.max(initial=0)) + 1
        found: dict[Entrant, set[int]] = {}
        for pair in np.unique(self.who[judged].astype(np.int64) * width + self.total[judged]).tolist():
            found.setdefault(self.entrants[pair // width], set()).add(pair % width)
        return found

    def _by_prediction(self) -> tuple[IntArray, IntArray]:
        """The rows ordered by a number for each entrant and item, and these numbers."""
        key = self.who.astype(np.int64) * len(self.items) + self.item
        if (key[1:] >= key[:-1]).all():
            return np.arange(len(key)), key
        order = np.argsort(key, kind="stable")
        return order, key[order]


def _places(names: Sequence[Entrant] | Sequence[str]) -> IntArray:
    """Of each name, its place in their order."""
    places = np.empty(len(names), dtype=np.int64)
    places[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return places


def _by_appearance(numbers: Ints, count: int) -> tuple[Ints, list[int]]:
    """Numbers anew in the order in which they first come, and what each was."""
    first = np.full(count, len(numbers))
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # what is written last stays
    order = np.argsort(first, kind="stable")[: int((first < len(numbers)).sum())]
    new = np.zeros(count, dtype=np.int32)
    new[order] = np.arange(len(order))
    return new[numbers], order.tolist()


def _ints(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
