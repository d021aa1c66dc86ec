"""A gold set in layton-eval-ppi's form, read row by row and written.

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

import marshal
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import orjson

from layton_batch.clock import Clock
from layton_batch.errors import DataError
from layton_batch.files.sources import Lines, Place, Places, Row, nothing_in, portions, with_text_id
from layton_batch.records import JsonValue
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.gold import Gold, Marks, Meaning, Recorded
from layton_batch.scoring.gold_lines import ANSWER, ITEM, JUSTIFICATION, Alike, LineForm, Said
from layton_batch.scoring.jury_record import Records, record_columns
from layton_batch.scoring.propensity import COLUMN as PROPENSITY
from layton_batch.scoring.propensity import propensity_of
from layton_batch.settings import Settings
from layton_batch.stats.strata import Ints

_Value = TypeVar("_Value", bytes, tuple[bytes, ...])
BUNDLED = "bundled"
_ANSWER, _JUSTIFICATION, _BOTH = "is_answer_correct_", "is_justification_correct_", "both_correct_"
_HUMAN = ("human_answer_correct", "human_justification_correct", "human_both_correct")
_OTHER_JURY = "labels_of_another_jury"
_NEEDED = (ITEM, "provider", "model", *_HUMAN[:2])
_SAMPLES = 10_000
_MOST_KNOWN = 1 << 16
_PATIENCE = 2_000  # lines
_FEW_HAVE = frozenset({"ranked", PROPENSITY, "sample"})


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
    reader = _Reader()
    for portion in portions(source, base, settings, clock):
        if not (isinstance(portion, Lines) and reader.take_lines(portion)):
            for place, row in portion:
                reader.take(row, place)
    if reader.is_empty:
        raise nothing_in(source)
    return reader.gold()


def bundled_gold(bundled_items: Path) -> Path:
    """Where the gold set of bundled items is: ``gold_<split>.jsonl`` beside ``riddles_<split>.jsonl``."""
    return bundled_items.with_name("gold_" + bundled_items.name.partition("_")[2])


def parse_gold(rows: Iterable[tuple[Place, Row]]) -> Gold:
    """Rows as a gold set, taken one by one. Raises DataError naming file, line and column."""
    reader = _Reader()
    for place, row in rows:
        reader.take(row, place)
    return reader.gold()


class _Reader:
    """A fault in a row is told after what is wrong with the columns of all rows."""

    def __init__(self) -> None:
        self._forms: dict[tuple[str, ...], _Form] = {}
        self._found, self._places, self._records = Recorded(), Places(), Records()
        self._said: list[tuple[Mapping[str, Marks | None], Marks | None]] = []
        self._entrants: dict[tuple[JsonValue, JsonValue, JsonValue], int] = {}
        self._fault: DataError | None = None
        self._other_jury = False
        self._line: LineForm | None = None
        self._items: dict[bytes, int] = {}
        self._known = _Learnt()
        self._patience = _PATIENCE

    @property
    def is_empty(self) -> bool:
        return not self._places

    def take(self, row: Row, place: Place) -> None:
        form = self._form(row)
        self._places.append(place)
        if self._fault is None:
            try:
                row = with_text_id(row, ITEM)
                self._found.add(_text(row, ITEM, place), *self._read(row, place, form))
            except DataError as error:
                self._fault = error

    def _form(self, row: Row) -> _Form:
        shape = tuple(row)
        form = self._forms.get(shape)
        if form is None:
            form = self._forms[shape] = _Form(shape, self._said)
        return form

    def _read(self, row: Row, place: Place, form: _Form) -> tuple[Said, int]:
        """What the answer says, and the number of what the row means besides."""
        who, propensity = self._entrant(row, place), None
        sample = _sample(row, place) if form.says_more else None
        decision = form.decision(row, place)
        said = _optional_text(row, ANSWER, place), _optional_text(row, JUSTIFICATION, place)
        kind = self._found.number_of_kind(_optional_text(row, "kind", place) or None)
        if form.says_more:
            propensity = propensity_of(row, place)
        if form.of_jury:
            self._records.take(row, place, form.of_jury)
            self._other_jury = self._other_jury or row.get(_OTHER_JURY) is True
        chance = math.nan if propensity is None else propensity
        meaning = Meaning(who, kind, decision, sample or 0, row.get("ranked") is not False, chance)
        return said, self._found.number_of_meaning(meaning)

    def take_lines(self, lines: Lines) -> bool:
        """Many rows together; none where they have to be taken one by one, also for what is wrong with them to be
        found."""
        if self._fault is not None or self._patience < 0:
            return False
        try:
            alike = self._line.read(lines.content, lines.count) if self._line else None
            if alike is None:
                self._line, self._known = LineForm.of(lines.content), _Learnt()  # what is known is of the form before
                alike = self._line.read(lines.content, lines.count) if self._line else None
            if self._line is None or alike is None:
                return False
            meanings = self._meant(self._line, alike, lines.first)
            self._found.extend(self._numbered(alike.items, lines.first), alike.texts, meanings)
        except (DataError, orjson.JSONDecodeError):
            return False
        self._places.extend(lines.first, lines.count)
        return True

    def _meant(self, line: LineForm, alike: Alike, first: Place) -> Ints:
        """The number of each line's meaning."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        before = len(self._known)

        def learnt(one: tuple[bytes, ...]) -> int:
            place = Place(first.file, first.line + alike.between.index(one))
            row = line.meant(one, place)
            return self._read(row, place, self._form(row))[1]

        self._known.learn = learnt
        meanings = _looked_up(alike.between, self._known)
        if new := len(self._known) - before:
            self._patience += len(meanings) // 2 - new
        return meanings

    def _numbered(self, ids: Sequence[bytes], first: Place) -> Ints:
        try:
            return _looked_up(ids, self._items)
        except KeyError:
            for one in dict.fromkeys(ids):
                row = with_text_id({ITEM: orjson.loads(one)}, ITEM)
                self._items[one] = self._found.number_of_item(_text(row, ITEM, first))
            return _looked_up(ids, self._items)

    def _entrant(self, row: Row, place: Place) -> int:
        n_hints = row.get("n_hints", 0)
        key = row.get("model"), row.get("provider"), n_hints
        try:
            found = self._entrants.get(key) if type(n_hints) is int else None
        except TypeError:  # a list or an object, of which _text tells
            found = None
        if found is None:
            provider, model = _text(row, "provider", place), _text(row, "model", place)
            if isinstance(n_hints, bool) or not isinstance(n_hints, int) or n_hints < 0:
                raise DataError(f"{place}: column 'n_hints' must be a whole number, not {n_hints!r}")
            found = self._entrants[key] = self._found.number_of(Entrant(model, provider, n_hints))
        return found

    def gold(self) -> Gold:
        """Of all rows that were taken. Raises DataError for the first thing that is wrong with them."""
        file = self._places[0].file
        columns = list(dict.fromkeys(column for shape in self._forms for column in shape))
        missing = [column for column in _NEEDED if column not in columns]
        if missing:
            raise DataError(f"{file}: not a gold set, it has no column {', '.join(missing)}")
        judges = _judges(columns, file)
        if self._fault is not None:
            raise self._fault
        self._found.decided = [(tuple(given.get(judge) for judge in judges), human) for given, human in self._said]
        _check_unique(self._found, self._places)
        return Gold(judges, self._found, self._records.of(judges), self._other_jury)


class _Learnt(dict[tuple[bytes, ...], int]):
    """By the stretches of a line, the number of what it means; asked for where it is not known."""

    learn: Callable[[tuple[bytes, ...]], int]

    def __missing__(self, between: tuple[bytes, ...]) -> int:
        found = self[between] = self.learn(between)
        return found


def _looked_up(values: Sequence[_Value], numbers: Mapping[_Value, int]) -> Ints:
    return np.fromiter(map(numbers.__getitem__, values), dtype=np.intc, count=len(values))


def _judges(columns: Sequence[str], file: str) -> tuple[str, ...]:
    judges = tuple(column.removeprefix(_ANSWER) for column in columns if column.startswith(_ANSWER))
    if not judges:
        raise DataError(f"{file}: not a gold set, it has no column {_ANSWER}<judge>")
    others = {column.removeprefix(_JUSTIFICATION) for column in columns if column.startswith(_JUSTIFICATION)}
    if lone := sorted(set(judges) ^ others):
        raise DataError(f"{file}: judge {lone[0]!r} has only one of the columns {_ANSWER}… and {_JUSTIFICATION}…")
    return judges


class _Form:
    """Rows with the same columns: writers may leave out a null.

    What judges and a person say of them goes to ``said``. A million rows say few different things: each is read once.
    """

    def __init__(self, shape: Sequence[str], said: list[tuple[Mapping[str, Marks | None], Marks | None]]) -> None:
        prefixes = (_ANSWER, _JUSTIFICATION, _BOTH)
        names = (column.removeprefix(one) for column in shape for one in prefixes if column.startswith(one))
        self._judges = list(dict.fromkeys(names))
        self._columns = [one + judge for judge in self._judges for one in prefixes] + list(_HUMAN)
        self._known: dict[bytes, int] = {}
        self._said = said
        self.says_more = not _FEW_HAVE.isdisjoint(shape)
        self.of_jury = [column for column in shape if column.startswith("judge_") or column == _OTHER_JURY]

    def decision(self, row: Row, place: Place) -> int:
        """The place in ``said`` of what is said of the row. Raises DataError for what is neither true, false nor
        null."""
        values = tuple(map(row.get, self._columns))
        key = marshal.dumps(values, 2)  # type: ignore[arg-type]  # where 1 is not True
        found = self._known.get(key)
        if found is None:
            marks = _all_marks(values, self._columns, place)
            found = self._known[key] = len(self._said)
            self._said.append((dict(zip(self._judges, marks, strict=False)), marks[-1]))
        return found


def _all_marks(values: Sequence[JsonValue], columns: Sequence[str], place: Place) -> list[Marks | None]:
    decided: list[bool | None] = []
    for value, column in zip(values, columns, strict=True):
        if value is not None and value is not True and value is not False:
            raise DataError(f"{place}: column {column!r} must be true, false or null, not {value!r:.60}")
        decided.append(value)
    return [_marks(*decided[at : at + 3]) for at in range(0, len(decided), 3)]


def _marks(answer: bool | None, justification: bool | None, both: bool | None) -> Marks | None:
    if answer is None and justification is None and both is None:
        return None
    if both is None and answer is not None and justification is not None:
        both = answer and justification
    return Marks(answer, justification, both)


def _sample(row: Row, place: Place) -> int | None:
    sample = row.get("sample")
    if sample is not None and (isinstance(sample, bool) or not isinstance(sample, int) or not 1 <= sample <= _SAMPLES):
        raise DataError(f"{place}: column 'sample' must be a whole number from 1 to {_SAMPLES:,}, not {sample!r:.60}")
    return sample


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


def _check_unique(found: Recorded, places: Sequence[Place]) -> None:
    rows = found.columns()
    prediction = rows.who.astype(np.int64) * len(rows.items) + rows.item
    key = (2 * prediction + rows.ranked) * (_SAMPLES + 1) + rows.sample
    if (key[1:] > key[:-1]).all():
        return
    order = np.argsort(key, kind="stable")  # rows of one prediction keep their order
    same = key[order][1:] == key[order][:-1]
    if same.any():
        second, first = min(zip(order[1:][same].tolist(), order[:-1][same].tolist(), strict=True))
        row = found[second]
        raise DataError(
            f"{places[second]}: item {row.item_id!r} of model {row.model!r} stands already in {places[first]}"
        )


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
            plain |= _written(marks, _ANSWER + judge, _JUSTIFICATION + judge, _BOTH + judge)
        kind = {"kind": row.kind} if row.kind else {}
        chance = {} if row.propensity is None else {"propensity": row.propensity}
        asked = {} if row.sample is None else {"sample": row.sample}
        people = _written(row.human, *_HUMAN)
        yield plain | people | kind | ({} if row.ranked else {"ranked": False}) | chance | asked | known


def _written(marks: Marks | None, *names: str) -> dict[str, object]:
    return dict(zip(names, marks or (None, None, None), strict=True))
