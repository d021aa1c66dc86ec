"""The gold set: predictions that people labelled, with the verdicts of every judge.

How it stands in a file is in :mod:`layton_batch.scoring.gold_file`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from layton_batch.scoring.ballots import Ballots
from layton_batch.scoring.evidence import Entrant, Judged, Label, content_key
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
"""The judges' decisions, in the order of :attr:`Gold.judges`, and a person's decision."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Columns of predictions. Row r is of ``entrants[who[r]]`` on ``items[item[r]]``, and ``decided[decision[r]]`` is
    decided of it. ``sample``: 0 where there is none; ``propensity``: NaN; ``silent``: there is no answer; ``content``:
    the digest of the answer (``evidence.content_key``). ``answers``, ``justifications``: the texts, or nothing where
    only their digests are kept."""

    entrants: Sequence[Entrant]
    items: Sequence[str]
    kinds: Sequence[str | None]
    decided: Sequence[Decided]
    who: Ints
    item: Ints
    kind: Ints
    decision: Ints
    content: IntArray
    sample: Ints
    propensity: FloatArray
    ranked: BoolArray
    silent: BoolArray
    answers: Sequence[str | None]
    justifications: Sequence[str | None]


Key = TypeVar("Key")


class Numbers(dict[Key, int]):
    """Numbers of keys, in the order in which the keys are first looked up."""

    def __missing__(self, key: Key) -> int:
        number = self[key] = len(self)
        return number


class ColumnsBuilder:
    """Columns to which rows are appended, some at a time. Without ``keep_texts`` only digests of answers are kept."""

    def __init__(self, *, keep_texts: bool = True) -> None:
        self._keep_texts = keep_texts
        self._entrants, self._items = Numbers[tuple[str, str, int]](), Numbers[str]()
        self._kinds = Numbers[str | None]()
        self._who, self._item, self._kind, self._decision, self._sample = (array("i") for _ in range(5))
        self._content, self._propensity = array("q"), array("d")
        self._ranked, self._silent = bytearray(), bytearray()
        self._answers, self._justifications = list[str | None](), list[str | None]()

    def extend(
        self,
        *,
        entrants: Iterable[tuple[str, str, int]],
        items: Iterable[str],
        answers: Sequence[str | None],
        justifications: Sequence[str | None],
        kinds: Iterable[str | None],
        ranked: Iterable[bool | None],
        propensities: Iterable[float | None],
        samples: Iterable[int | None],
        decisions: Iterable[int],
    ) -> None:
        """Append rows. ``entrants``: model, provider and number of hints; ``decisions``: places in ``decided``."""
        self._who.extend(map(self._entrants.__getitem__, entrants))
        self._item.extend(map(self._items.__getitem__, items))
        self._kind.extend(map(self._kinds.__getitem__, kinds))
        self._decision.extend(decisions)
        self._sample.extend(sample or 0 for sample in samples)
        self._content.extend(map(content_key, answers, justifications))
        self._propensity.extend(math.nan if chance is None else chance for chance in propensities)
        self._ranked.extend(is_ranked is not False for is_ranked in ranked)
        self._silent.extend(answer is None for answer in answers)
        if self._keep_texts:
            self._answers += answers
            self._justifications += justifications

    def columns(self, decided: Sequence[Decided]) -> Columns:
        """Return the columns of all rows; no row can be appended after that."""
        return Columns(
            entrants=[Entrant(*who) for who in self._entrants],
            items=list(self._items),
            kinds=[kind or None for kind in self._kinds],
            decided=decided,
            who=np.asarray(self._who),
            item=np.asarray(self._item),
            kind=np.asarray(self._kind),
            decision=np.asarray(self._decision),
            content=np.asarray(self._content),
            sample=np.asarray(self._sample),
            propensity=np.asarray(self._propensity),
            ranked=np.asarray(self._ranked).view(np.bool_),
            silent=np.asarray(self._silent).view(np.bool_),
            answers=self._answers,
            justifications=self._justifications,
        )


@dataclass(frozen=True, eq=False)
class Gold:
    """A gold set. ``judges`` are the names in the file's column names, in column order; ``recorded``: what more it says
    of them, by name; ``other_jury``: whether it is a run's export whose labels stand beside another jury's votes."""

    judges: tuple[str, ...]
    columns: Columns
    recorded: Mapping[str, JudgeRecord] = field(default_factory=dict)
    other_jury: bool = False

    @classmethod
    def of(
        cls, judges: tuple[str, ...], rows: Iterable[GoldRow], recorded: Mapping[str, JudgeRecord] | None = None
    ) -> Gold:
        """Make a gold set of rows."""
        given, builder, decided = list(rows), ColumnsBuilder(), Numbers[Decided]()
        builder.extend(
            entrants=[(row.model, row.provider, row.n_hints) for row in given],
            items=[row.item_id for row in given],
            answers=[row.answer for row in given],
            justifications=[row.justification for row in given],
            kinds=[row.kind for row in given],
            ranked=[row.ranked for row in given],
            propensities=[row.propensity for row in given],
            samples=[row.sample for row in given],
            decisions=[decided[row.judges, row.human] for row in given],
        )
        return cls(judges, builder.columns(list(decided)), recorded or {})

    @cached_property
    def rows(self) -> Sequence[GoldRow]:
        """The predictions in their order. Only where the texts were kept."""
        columns = self.columns
        names = ("who", "item", "kind", "decision", "sample", "propensity", "ranked")
        numbers = zip(*(getattr(columns, name).tolist() for name in names), strict=True)
        rows = []
        for at, (who, item, kind, decision, sample, propensity, ranked) in enumerate(numbers):
            entrant, (judges, human) = columns.entrants[who], columns.decided[decision]
            rows.append(
                GoldRow(
                    item_id=columns.items[item],
                    provider=entrant.provider,
                    model=entrant.model,
                    n_hints=entrant.n_hints,
                    answer=columns.answers[at],
                    justification=columns.justifications[at],
                    judges=judges,
                    human=human,
                    kind=columns.kinds[kind],
                    ranked=ranked,
                    propensity=None if math.isnan(propensity) else propensity,
                    sample=sample or None,
                )
            )
        return rows


# ---- the form a leaderboard takes: ballots and labels --------------------------------------------------------------


_PART = {"answer_correct": 0, "justification_correct": 1, "both_correct": 2}


def rounds_of(gold: Gold, metric: str) -> list[tuple[Ballots, list[Label]]]:
    """By round, every recorded prediction with its jury's votes (one without any answer counts as wrong), and the
    labels. A model with fewer samples than others begins again with its first."""
    rows = gold.columns
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
    rows = gold.columns
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
    marks = [[_mark(judge, metric) for judge in judges] for judges, _ in gold.columns.decided]
    yes, no = (np.array([one.count(word) for one in marks], dtype=np.int32) for word in (True, False))
    return yes, yes + no


def _mark(marks: Marks | None, metric: str) -> bool | None:
    return None if marks is None else marks[_PART[metric]]


def labels_of(gold: Gold, metric: str) -> list[Label]:
    """The predictions a person judged on this metric, with their jury's votes; what several samples say is one."""
    rows = gold.columns
    labels = _labels(gold, rows, at := _labelled(gold, rows, metric), metric)
    once: dict[object, Label] = {}
    for row, label in zip(at.tolist(), labels, strict=True):
        once.setdefault((label.entrant, label.item_id, label.content) if rows.sample[row] else row, label)
    return list(once.values())


def _labelled(gold: Gold, rows: Columns, metric: str) -> IntArray:
    """The rows with a person's word on this metric."""
    has_word = np.array([_mark(human, metric) is not None for _, human in gold.columns.decided], dtype=np.bool_)
    return np.flatnonzero(has_word[rows.decision])


def _labels(gold: Gold, rows: Columns, at: IntArray, metric: str) -> list[Label]:
    """Of those of these rows that have one."""
    yes, total = (column.tolist() for column in _votes(gold, metric))
    labels = []
    for row in at[np.isin(at, _labelled(gold, rows, metric))].tolist():
        decision, chance = int(rows.decision[row]), float(rows.propensity[row])
        correct = bool(_mark(gold.columns.decided[decision][1], metric))
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
    rows, labels = gold.columns, []
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
    rows = gold.columns
    marks = [[_mark(one, metric) for one in judges] for judges, _ in gold.columns.decided]
    verdicts = [
        {name: mark for name, mark in zip(gold.judges, given, strict=True) if mark is not None} for given in marks
    ]
    words = [_mark(human, metric) for _, human in gold.columns.decided]
    found = []
    for row in np.flatnonzero(rows.sample <= 1).tolist():
        who, decision = rows.entrants[rows.who[row]], rows.decision[row]
        item_id, content = rows.items[rows.item[row]], int(rows.content[row])
        found.append(Judged(who, who.provider, item_id, verdicts[decision], words[decision], content))
    return found
