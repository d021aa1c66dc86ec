"""The gold set: predictions that people labelled, with the verdicts of every judge.

How it stands in a file is in :mod:`layton_batch.scoring.gold_file`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import orjson

from layton_batch.scoring.ballots import Ballots
from layton_batch.scoring.evidence import Entrant, Judged, Label, content_key
from layton_batch.scoring.gold_lines import Said, Texts
from layton_batch.scoring.jury_record import JudgeRecord
from layton_batch.stats.strata import BoolArray, FloatArray, IntArray, Ints

_ANSWERED, _MISSING = "answered", "missing"


class Marks(NamedTuple):
    """One grader's decision on one prediction. A part is None where only that part is missing."""

    answer: bool | None
    justification: bool | None
    both: bool | None


@dataclass(frozen=True, slots=True)
class GoldRow:
    """One prediction; ``judges`` is in the order of :attr:`Gold.judges`, None for a judge that did not sit."""

    item_id: str
    provider: str
    model: str
    n_hints: int
    answer: str | None
    justification: str | None
    judges: tuple[Marks | None, ...]
    human: Marks | None
    kind: str | None = None
    ranked: bool = True
    propensity: float | None = None
    sample: int | None = None


Decided = tuple[tuple[Marks | None, ...], Marks | None]
"""What the judges say, in the order of :attr:`Gold.judges`, and what a person says."""


class Meaning(NamedTuple):
    """What a row says but for its item and its texts, in numbers as in :class:`Columns`."""

    who: int
    kind: int
    decision: int
    sample: int
    ranked: bool
    propensity: float


_CODES = "i", "i", "i", "i", "b", "d"
_MOST_KNOWN = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Row r is of ``entrants[who[r]]`` on ``items[item[r]]``, and ``decided[decision[r]]`` is said of it. ``sample``: 0
    where there is none; ``propensity``: NaN; ``silent``: there is no answer."""

    entrants: Sequence[Entrant]
    items: Sequence[str]
    kinds: Sequence[str | None]
    who: Ints
    item: Ints
    kind: Ints
    decision: Ints
    content: LateContents
    sample: Ints
    propensity: FloatArray
    ranked: BoolArray
    silent: BoolArray


class LateContents:
    """What tells which answer each row has, worked out where it is looked at: of a million answers few are."""

    def __init__(self, said: Texts, rows: IntArray) -> None:
        self._said, self._rows = said, rows

    @overload
    def __getitem__(self, at: int | np.integer[Any]) -> int: ...
    @overload
    def __getitem__(self, at: slice | Ints | BoolArray) -> LateContents: ...
    def __getitem__(self, at: int | np.integer[Any] | slice | Ints | BoolArray) -> int | LateContents:
        if isinstance(at, slice | np.ndarray):
            return LateContents(self._said, self._rows[at])
        return content_key(*self._said[int(self._rows[at])])

    def tolist(self) -> list[int]:
        """Of all rows."""
        return [content_key(*self._said[row]) for row in self._rows.tolist()]


class Recorded(Sequence[GoldRow]):
    """Many of them, in columns; what answers say is on disk where it is long.

    ``decided``: what judges and a person say of a row, each combination once.
    """

    def __init__(self, rows: Iterable[GoldRow] = ()) -> None:
        self.decided: list[Decided] = []
        self._entrants: dict[Entrant, int] = {}
        self._items: dict[str, int] = {}
        self._kinds: dict[str | None, int] = {}
        self._meanings: tuple[array[Any], ...] = tuple(map(array, _CODES))
        self._known: dict[Meaning, int] = {}
        self._told: Sequence[npt.NDArray[Any]] | None = None
        self._meaning, self._item, self._silent = array("i"), array("i"), bytearray()
        self._said = Texts()
        known: dict[Decided, int] = {}
        for row in rows:
            decided = row.judges, row.human
            if decided not in known:
                known[decided] = len(known)
                self.decided.append(decided)
            who = self.number_of(Entrant(row.model, row.provider, row.n_hints))
            kind, chance = self.number_of_kind(row.kind), math.nan if row.propensity is None else row.propensity
            meaning = Meaning(who, kind, known[decided], row.sample or 0, row.ranked, chance)
            self.add(row.item_id, (row.answer, row.justification), self.number_of_meaning(meaning))

    def number_of(self, who: Entrant) -> int:
        """Of an entrant that has a row, or will have one. So for the others."""
        return self._entrants.setdefault(who, len(self._entrants))

    def number_of_item(self, item_id: str) -> int:
        return self._items.setdefault(item_id, len(self._items))

    def number_of_kind(self, kind: str | None) -> int:
        return self._kinds.setdefault(kind, len(self._kinds))

    def number_of_meaning(self, meaning: Meaning) -> int:
        """What it means for ``decided`` is a place there."""
        found = self._known.get(meaning)
        if found is None:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            found = self._known[meaning] = len(self._meanings[0])
            for column, value in zip(self._meanings, meaning, strict=True):
                column.append(value)
        return found

    def add(self, item_id: str, said: Said, meaning: int) -> None:
        """Put a row at the end."""
        self._meaning.append(meaning)
        self._item.append(self.number_of_item(item_id))
        self._silent.append(said[0] is None)
        self._said.append(said)

    def extend(self, items: Ints, lists: tuple[bytes, bytes], meanings: Ints) -> None:
        """Put rows at the end: the numbers (``intc``) of their items and meanings, JSON lists of answers and of
        justifications. Raises orjson.JSONDecodeError, and puts none, for what is not JSON."""
        answers, _ = map(orjson.loads, lists)
        self._silent += bytes([one is None for one in answers]) if None in answers else bytes(len(answers))
        self._said.extend(lists, len(answers))
        for column, numbers in ((self._item, items), (self._meaning, meanings)):
            column.frombytes(numbers.tobytes())

    def __len__(self) -> int:
        return len(self._item)

    @overload
    def __getitem__(self, index: int) -> GoldRow: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[GoldRow]: ...
    def __getitem__(self, index: int | slice) -> GoldRow | Sequence[GoldRow]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        return self._row(at, self._said[at], list(self._entrants), list(self._items), list(self._kinds))

    def __iter__(self) -> Iterator[GoldRow]:
        names = list(self._entrants), list(self._items), list(self._kinds)
        return (self._row(at, said, *names) for at, said in enumerate(self._said))

    def _row(
        self, at: int, said: Said, entrants: Sequence[Entrant], items: Sequence[str], kinds: Sequence[str | None]
    ) -> GoldRow:
        meaning = Meaning(*(column[self._meaning[at]] for column in self._meanings))
        who, (judges, human) = entrants[meaning.who], self.decided[meaning.decision]
        return GoldRow(
            item_id=items[self._item[at]],
            provider=who.provider,
            model=who.model,
            n_hints=who.n_hints,
            answer=said[0],
            justification=said[1],
            judges=judges,
            human=human,
            kind=kinds[meaning.kind],
            ranked=bool(meaning.ranked),
            propensity=None if math.isnan(meaning.propensity) else meaning.propensity,
            sample=meaning.sample or None,
        )

    def columns(self) -> Columns:
        """Some are views; no row can be added while one of them is there."""
        if self._told is None or len(self._told[0]) != len(self):
            rows = np.asarray(self._meaning)
            self._told = [np.asarray(column)[rows] for column in self._meanings]
        who, kind, decision, sample, ranked, propensity = self._told
        return Columns(
            entrants=list(self._entrants),
            items=list(self._items),
            kinds=list(self._kinds),
            who=who,
            item=np.asarray(self._item),
            kind=kind,
            decision=decision,
            content=LateContents(self._said, np.arange(len(self))),
            sample=sample,
            propensity=propensity,
            ranked=ranked.view(np.bool_),
            silent=np.asarray(self._silent).view(np.bool_),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Gold:
    """A gold set. ``judges`` are the names in the file's column names, in column order; ``recorded``: what more it says
    of them, by name; ``other_jury``: whether it is a run's export whose labels stand beside another jury's votes."""

    judges: tuple[str, ...]
    rows: Recorded
    recorded: Mapping[str, JudgeRecord] = field(default_factory=dict)
    other_jury: bool = False


# ---- the form a leaderboard takes: ballots and labels --------------------------------------------------------------


_PART = {"answer_correct": 0, "justification_correct": 1, "both_correct": 2}


def rounds_of(gold: Gold, metric: str) -> list[tuple[Ballots, list[Label]]]:
    """By round, every recorded prediction with its jury's votes (one without any answer counts as wrong), and the
    labels. A model with fewer samples than others begins again with its first."""
    rows = gold.rows.columns()
    sample, asked = np.maximum(rows.sample, 1), np.maximum(_samples(rows), 1)
    rounds = []
    for number in range(1, 1 + int(asked.max(initial=1))):
        is_mine = sample == 1 + (number - 1) % asked[rows.who]
        told = (rows.sample == 0) | (rows.sample == number)
        ranked, others = rows.ranked & is_mine, ~rows.ranked & told
        labels = _labels(gold, rows, np.flatnonzero(ranked | others), metric)
        rounds.append((_ballots(gold, rows, np.flatnonzero(ranked), metric), labels))
    return rounds


def samples_of(gold: Gold) -> dict[str, int]:
    """By model, how many answers to an item the file has."""
    rows = gold.rows.columns()
    return {who.model: count for who, count in zip(rows.entrants, _samples(rows).tolist(), strict=True) if count}


def _samples(rows: Columns) -> IntArray:
    """Of each entrant; 0 for one that is not ranked."""
    found = np.zeros(len(rows.entrants), dtype=np.int64)
    found[rows.who[rows.ranked]] = 1
    further = np.flatnonzero(rows.ranked & (rows.sample > 1))
    np.maximum.at(found, rows.who[further], rows.sample[further])
    return found


def _ballots(gold: Gold, rows: Columns, at: IntArray, metric: str) -> Ballots:
    kinds: dict[str, int] = {}
    named = np.array([kinds.setdefault(name, len(kinds)) for name in (_ANSWERED, _MISSING, *filter(None, rows.kinds))])
    told = np.array([kinds[name] if name else -1 for name in rows.kinds], dtype=np.int64)[rows.kind[at]]
    yes, total = (column[rows.decision[at]] for column in _votes(gold, metric))
    untold = np.where(rows.silent[at] & (total == 0), named[1], named[0])
    kind = np.where(told < 0, untold, told)
    return Ballots(
        entrants=rows.entrants,
        items=rows.items,
        kinds=list(kinds),
        who=rows.who[at],
        item=rows.item[at],
        yes=yes,
        total=total,
        content=rows.content[at],
        known_zero=kind != named[0],
        kind=kind,
    )


def _votes(gold: Gold, metric: str) -> tuple[Ints, Ints]:
    """How many say yes, and how many there are, in each decision."""
    marks = [[_mark(judge, metric) for judge in judges] for judges, _ in gold.rows.decided]
    yes, no = (np.array([one.count(word) for one in marks], dtype=np.int32) for word in (True, False))
    return yes, yes + no


def _mark(marks: Marks | None, metric: str) -> bool | None:
    return None if marks is None else marks[_PART[metric]]


def labels_of(gold: Gold, metric: str) -> list[Label]:
    """The predictions a person judged on this metric, with their jury's votes; what several samples say is one."""
    rows = gold.rows.columns()
    labels = _labels(gold, rows, at := _labelled(gold, rows, metric), metric)
    once: dict[object, Label] = {}
    for row, label in zip(at.tolist(), labels, strict=True):
        once.setdefault((label.entrant, label.item_id, label.content) if rows.sample[row] else row, label)
    return list(once.values())


def _labelled(gold: Gold, rows: Columns, metric: str) -> IntArray:
    """The rows with a person's word on this metric."""
    has_word = np.array([_mark(human, metric) is not None for _, human in gold.rows.decided], dtype=np.bool_)
    return np.flatnonzero(has_word[rows.decision])


def _labels(gold: Gold, rows: Columns, at: IntArray, metric: str) -> list[Label]:
    """Of those of these rows that have one."""
    yes, total = (column.tolist() for column in _votes(gold, metric))
    labels = []
    for row in at[np.isin(at, _labelled(gold, rows, metric))].tolist():
        decision, chance = int(rows.decision[row]), float(rows.propensity[row])
        correct = bool(_mark(gold.rows.decided[decision][1], metric))
        labels.append(
            Label(
                entrant=rows.entrants[rows.who[row]],
                item_id=rows.items[rows.item[row]],
                yes=yes[decision],
                total=total[decision],
                correct=correct,
                content=int(rows.content[row]),
                propensity=None if math.isnan(chance) else chance,
            )
        )
    return labels


def rejudged_labels(
    gold: Gold,
    metric: str,
    verdicts: Mapping[tuple[Entrant, str, int], Mapping[str, bool]],
    own: Mapping[tuple[Entrant, str, int], tuple[int, int]],
) -> list[Label]:
    """The labelled predictions with another jury's votes: by entrant, item and content where that jury judged the very
    same prediction anyway (``own``: yes, total), else its ``verdicts`` on that prediction by judge.

    What that jury did not judge is left out.
    """
    rows, labels = gold.rows.columns(), []
    for label in _labels(gold, rows, _labelled(gold, rows, metric), metric):
        prediction = label.entrant, label.item_id, label.content
        given = verdicts.get(prediction, {})
        yes, total = own.get(prediction) or (sum(given.values()), len(given))
        if total:
            labels.append(replace(label, yes=yes, total=total))
    return labels


def judged_of(gold: Gold, metric: str) -> list[Judged]:
    """Every recorded prediction of the first round with each judge's verdict on this metric; the provider stands for
    the family."""
    rows = gold.rows.columns()
    marks = [[_mark(one, metric) for one in judges] for judges, _ in gold.rows.decided]
    verdicts = [
        {name: mark for name, mark in zip(gold.judges, given, strict=True) if mark is not None} for given in marks
    ]
    words = [_mark(human, metric) for _, human in gold.rows.decided]
    found = []
    for row in np.flatnonzero(rows.sample <= 1).tolist():
        who, decision = rows.entrants[rows.who[row]], rows.decision[row]
        item_id, content = rows.items[rows.item[row]], int(rows.content[row])
        found.append(Judged(who, who.provider, item_id, verdicts[decision], words[decision], content))
    return found
