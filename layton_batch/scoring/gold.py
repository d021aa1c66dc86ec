"""The gold set: predictions that people labelled, with the verdicts of every judge, in layton-eval-ppi's form.

A row names ``riddle_id, provider, model, n_hints`` (no such column, as in the published visual set: 0) and holds, for
every judge, ``is_answer_correct_<judge>`` and ``is_justification_correct_<judge>`` (null: did not sit), and the same
from a person as ``human_answer_correct`` and ``human_justification_correct`` (null: not labelled).
``both_correct_<judge>`` and ``human_both_correct`` are taken where the file has them and derived where it does not.
Four more columns may be there, which our own exports have: ``kind``, what became of the reply, ``ranked``, false for
an answer that brings a label only, ``propensity``, the chance with which it was picked to be labelled, and ``sample``,
which answer of the model to the item it is (of a label only: in which round it counts; none: in all). A row of a run
whose labels stand beside another jury's votes says so (``labels_of_another_jury``).
What a file may say of its judges is in :mod:`layton_batch.scoring.jury_record`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from layton_batch.clock import Clock
from layton_batch.errors import DataError
from layton_batch.files.sources import Place, Row, Rows, read_rows, with_text_id
from layton_batch.records import JsonValue
from layton_batch.scoring.evidence import Ballot, Entrant, Judged, Label, content_key
from layton_batch.scoring.jury_record import JudgeRecord, read_records, record_columns
from layton_batch.scoring.propensity import propensity_of
from layton_batch.settings import Settings

BUNDLED = "bundled"
_ANSWER, _JUSTIFICATION, _BOTH = "is_answer_correct_", "is_justification_correct_", "both_correct_"
_HUMAN = ("human_answer_correct", "human_justification_correct", "human_both_correct")
_OTHER_JURY = "labels_of_another_jury"
_TEXT_COLUMNS = ("riddle_id", "provider", "model")
_NEEDED = (*_TEXT_COLUMNS, *_HUMAN[:2])


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


@dataclass(frozen=True, slots=True)
class Gold:
    """A gold set. ``judges`` are the names in the file's column names, in column order; ``recorded``: what more it says
    of them, by name; ``other_jury``: whether it is a run's export whose labels stand beside another jury's votes."""

    judges: tuple[str, ...]
    rows: tuple[GoldRow, ...]
    recorded: Mapping[str, JudgeRecord] = field(default_factory=dict)
    other_jury: bool = False


def read_gold(
    source: str, base: Path, settings: Settings, clock: Clock | None = None, bundled_items: Path | None = None
) -> Gold:
    """The gold set of a source as ``sources.read_rows`` takes it; ``bundled`` is the one beside ``bundled_items``.

    Raises DataError with file, line, column and reason.
    """
    if source == BUNDLED:
        if bundled_items is None:
            raise DataError("gold source 'bundled': this task has no bundled gold set")
        source = str(bundled_gold(bundled_items))
    return parse_gold(read_rows(source, base, settings, clock))


def bundled_gold(bundled_items: Path) -> Path:
    """Where the gold set of bundled items is: ``gold_<split>.jsonl`` beside ``riddles_<split>.jsonl``."""
    return bundled_items.with_name("gold_" + bundled_items.name.partition("_")[2])


def parse_gold(rows: Rows) -> Gold:
    """Rows as a gold set. Raises DataError naming file, line and column."""
    columns = _columns(rows)
    judges = _judges(columns, rows.places[0].file)
    read = _Decisions(judges)
    parsed = tuple(_gold_row(row, place, read) for row, place in zip(rows, rows.places, strict=True))
    _check_unique(parsed, rows.places)
    other_jury = _OTHER_JURY in columns and any(row.get(_OTHER_JURY) is True for row in rows)
    return Gold(judges, parsed, read_records(rows, columns, judges), other_jury)


def _columns(rows: Rows) -> Sequence[str]:
    """Every column of any row, in order of first appearance: writers may leave out a null."""
    found: dict[str, None] = {}
    for shape in dict.fromkeys(map(tuple, rows)):
        found.update(dict.fromkeys(shape))
    missing = [column for column in _NEEDED if column not in found]
    if missing:
        raise DataError(f"{rows.places[0].file}: not a gold set, it has no column {', '.join(missing)}")
    return tuple(found)


def _judges(columns: Sequence[str], file: str) -> tuple[str, ...]:
    judges = tuple(column.removeprefix(_ANSWER) for column in columns if column.startswith(_ANSWER))
    if not judges:
        raise DataError(f"{file}: not a gold set, it has no column {_ANSWER}<judge>")
    others = {column.removeprefix(_JUSTIFICATION) for column in columns if column.startswith(_JUSTIFICATION)}
    if lone := sorted(set(judges) ^ others):
        raise DataError(f"{file}: judge {lone[0]!r} has only one of the columns {_ANSWER}… and {_JUSTIFICATION}…")
    return judges


def _gold_row(row: Row, place: Place, read: _Decisions) -> GoldRow:
    row = with_text_id(row, _TEXT_COLUMNS[0])
    item_id, provider, model = (_text(row, column, place) for column in _TEXT_COLUMNS)
    n_hints = row.get("n_hints", 0)
    if isinstance(n_hints, bool) or not isinstance(n_hints, int) or n_hints < 0:
        raise DataError(f"{place}: column 'n_hints' must be a whole number, not {n_hints!r}")
    sample = row.get("sample")
    if sample is not None and (isinstance(sample, bool) or not isinstance(sample, int) or sample < 1):
        raise DataError(f"{place}: column 'sample' must be a whole number from 1, not {sample!r:.60}")
    judges, human = read.of(row, place)
    return GoldRow(
        item_id=item_id,
        provider=provider,
        model=model,
        n_hints=n_hints,
        answer=_optional_text(row, "answer", place),
        justification=_optional_text(row, "justification", place),
        judges=judges,
        human=human,
        kind=_optional_text(row, "kind", place),
        ranked=row.get("ranked") is not False,
        propensity=propensity_of(row, place),
        sample=sample,
    )


_Decided = tuple[tuple[Marks | None, ...], Marks | None]


class _Decisions:
    """What the judges and a person say of a row. A million rows say few different things: each is read once."""

    def __init__(self, judges: Sequence[str]) -> None:
        graders = [*((_ANSWER + one, _JUSTIFICATION + one, _BOTH + one) for one in judges), _HUMAN]
        self._columns = [column for three in graders for column in three]
        self._known: dict[tuple[bool | None, ...], _Decided] = {}

    def of(self, row: Row, place: Place) -> _Decided:
        """The marks of the judges, and the person's. Raises DataError for what is neither true, false nor null."""
        values: list[bool | None] = []
        for column in self._columns:
            value = row.get(column)
            if value is not None and value is not True and value is not False:
                raise DataError(f"{place}: column {column!r} must be true, false or null, not {value!r:.60}")
            values.append(value)
        key = tuple(values)
        found = self._known.get(key)
        if found is None:
            marks = [_marks(*key[at : at + 3]) for at in range(0, len(key), 3)]
            found = self._known[key] = tuple(marks[:-1]), marks[-1]
        return found


def _marks(answer: bool | None, justification: bool | None, both: bool | None) -> Marks | None:
    if answer is None and justification is None and both is None:
        return None
    if both is None and answer is not None and justification is not None:
        both = answer and justification
    return Marks(answer, justification, both)


def _text(row: Row, column: str, place: Place) -> str:
    value = row.get(column)
    if not isinstance(value, str) or not value:
        raise DataError(f"{place}: column {column!r} must be text, not {value!r:.60}")
    return value


def _optional_text(row: Mapping[str, JsonValue], column: str, place: Place) -> str | None:
    value = row.get(column)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{place}: column {column!r} must be text or null, not {value!r:.60}")
    return value


def _check_unique(rows: Sequence[GoldRow], places: Sequence[Place]) -> None:
    seen: dict[tuple[str, str, str, int, bool, int | None], Place] = {}
    for row, place in zip(rows, places, strict=True):
        key = (row.item_id, row.provider, row.model, row.n_hints, row.ranked, row.sample)
        if key in seen:
            raise DataError(f"{place}: item {row.item_id!r} of model {row.model!r} stands already in {seen[key]}")
        seen[key] = place


# ---- the form a leaderboard takes: ballots and labels --------------------------------------------------------------


_PART = {"answer_correct": 0, "justification_correct": 1, "both_correct": 2}


def rounds_of(gold: Gold, metric: str) -> list[tuple[list[Ballot], list[Label]]]:
    """By round, every recorded prediction with its jury's votes (one without any answer counts as wrong), and the
    labels. A model with fewer samples than others begins again with its first."""
    counts, rounds = _samples(gold), []
    most = max(counts.values(), default=1)
    for number in range(1, 1 + most):
        is_only = most == 1  # then most rows need no look
        rows = [row for row in gold.rows if (is_only and row.sample is None) or _is_in(row, number, counts)]
        rounds.append(([_ballot(row, metric) for row in rows if row.ranked], _labels(rows, metric)))
    return rounds


def samples_of(gold: Gold) -> dict[str, int]:
    """By model, how many answers to an item the file has."""
    return {who.model: count for who, count in _samples(gold).items()}


def _samples(gold: Gold) -> dict[Entrant, int]:
    found: dict[Entrant, int] = {}
    for row in gold.rows:
        if row.ranked:
            who, sample = _entrant(row), row.sample or 1
            if sample > found.get(who, 0):
                found[who] = sample
    return found


def _is_in(row: GoldRow, number: int, counts: Mapping[Entrant, int]) -> bool:
    if not row.ranked:
        return row.sample in (None, number)
    return (row.sample or 1) == 1 + (number - 1) % counts[_entrant(row)]


def labels_of(gold: Gold, metric: str) -> list[Label]:
    """The predictions a person judged on this metric, with their jury's votes; what several samples say is one."""
    once: dict[object, GoldRow] = {}
    for row in gold.rows:
        again = None if row.sample is None else (_entrant(row), row.item_id, content_key(row.answer, row.justification))
        once.setdefault(again or id(row), row)
    return _labels(once.values(), metric)


def _labels(rows: Iterable[GoldRow], metric: str) -> list[Label]:
    labels = []
    for row in rows:
        correct = _mark(row.human, metric)
        if correct is not None:
            yes, total = _votes(row, metric)
            content = content_key(row.answer, row.justification)
            labels.append(Label(_entrant(row), row.item_id, yes, total, correct, content, row.propensity))
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
    labels = []
    for row in gold.rows:
        correct, entrant = _mark(row.human, metric), _entrant(row)
        content = content_key(row.answer, row.justification)
        given = verdicts.get((entrant, row.item_id, content), {})
        yes, total = own.get((entrant, row.item_id, content)) or (sum(given.values()), len(given))
        if correct is not None and total:
            labels.append(Label(entrant, row.item_id, yes, total, correct, content, row.propensity))
    return labels


def judged_of(gold: Gold, metric: str) -> list[Judged]:
    """Every recorded prediction of the first round with each judge's verdict on this metric; the provider stands for
    the family."""
    return [
        Judged(
            entrant=_entrant(row),
            family=row.provider,
            item_id=row.item_id,
            verdicts={
                name: mark
                for name, marks in zip(gold.judges, row.judges, strict=True)
                if (mark := _mark(marks, metric)) is not None
            },
            human=_mark(row.human, metric),
            content=content_key(row.answer, row.justification),
        )
        for row in gold.rows
        if row.sample in (None, 1)
    ]


def _ballot(row: GoldRow, metric: str) -> Ballot:
    yes, total = _votes(row, metric)
    kind = row.kind or ("missing" if row.answer is None and total == 0 else "answered")
    return Ballot(
        entrant=_entrant(row),
        item_id=row.item_id,
        yes=yes,
        total=total,
        content=content_key(row.answer, row.justification),
        known_zero=kind != "answered",
        kind=kind,
    )


def _entrant(row: GoldRow) -> Entrant:
    return _one_entrant(row.model, row.provider, row.n_hints)


_one_entrant = lru_cache(4096)(Entrant)


def _votes(row: GoldRow, metric: str) -> tuple[int, int]:
    return _counted(row.judges, metric)


@lru_cache(4096)
def _counted(judges: tuple[Marks | None, ...], metric: str) -> tuple[int, int]:
    marks = [mark for judge in judges if (mark := _mark(judge, metric)) is not None]
    return sum(marks), len(marks)


def _mark(marks: Marks | None, metric: str) -> bool | None:
    return None if marks is None else marks[_PART[metric]]


def gold_rows(gold: Gold) -> Iterator[dict[str, object]]:
    """The gold set in the form it was read in, layton-eval-ppi's, with what is known of its judges."""
    known: dict[str, object] = {_OTHER_JURY: True} if gold.other_jury else {}
    known |= {name: text for judge, one in gold.recorded.items() for name, text in record_columns(judge, one).items()}
    for row in gold.rows:
        plain: dict[str, object] = {
            "riddle_id": row.item_id,
            "provider": row.provider,
            "model": row.model,
            "n_hints": row.n_hints,
            "answer": row.answer,
            "justification": row.justification,
        }
        for judge, marks in zip(gold.judges, row.judges, strict=True):
            plain |= _written(
                marks, f"is_answer_correct_{judge}", f"is_justification_correct_{judge}", f"both_correct_{judge}"
            )
        people = _written(row.human, "human_answer_correct", "human_justification_correct", "human_both_correct")
        kind = {"kind": row.kind} if row.kind else {}
        chance = {} if row.propensity is None else {"propensity": row.propensity}
        asked = {} if row.sample is None else {"sample": row.sample}
        yield plain | people | kind | ({} if row.ranked else {"ranked": False}) | chance | asked | known


def _written(marks: Marks | None, *names: str) -> dict[str, object]:
    return dict(zip(names, marks or (None, None, None), strict=True))
