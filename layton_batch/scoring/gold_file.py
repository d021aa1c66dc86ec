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

import io
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from layton_batch.clock import Clock
from layton_batch.errors import DataError
from layton_batch.files.sources import Lines, Place, Row, nothing_in, portions, with_text_id
from layton_batch.records import JsonValue
from layton_batch.scoring.gold import Columns, ColumnsBuilder, Gold, GoldRow, Marks
from layton_batch.scoring.jury_record import JudgeRecord, Records, record_columns
from layton_batch.scoring.propensity import COLUMN as PROPENSITY
from layton_batch.scoring.propensity import propensity_of
from layton_batch.settings import Settings

BUNDLED = "bundled"
ITEM, ANSWER, JUSTIFICATION = "riddle_id", "answer", "justification"
_ANSWER, _JUSTIFICATION, _BOTH = _PREFIXES = ("is_answer_correct_", "is_justification_correct_", "both_correct_")
_HUMAN = ("human_answer_correct", "human_justification_correct", "human_both_correct")
_OTHER_JURY = "labels_of_another_jury"
_NEEDED = (ITEM, "provider", "model", *_HUMAN[:2])
_SAMPLES = 10_000
_PORTION_ROWS = 1_000
_Item = Annotated[str, Meta(min_length=1)] | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Text = Annotated[str, Meta(min_length=1)]
_FIELDS: Mapping[str, tuple[object, ...]] = {
    ITEM: (_Item,),
    "provider": (_Text,),
    "model": (_Text,),
    "n_hints": (Annotated[int, Meta(ge=0, le=2**63 - 1)], 0),
    ANSWER: (str | None, None),
    JUSTIFICATION: (str | None, None),
    "kind": (str | None, None),
    "ranked": (bool | None, None),
    PROPENSITY: (Annotated[float, Meta(gt=0, le=1)] | None, None),
    "sample": (Annotated[int, Meta(ge=1, le=_SAMPLES)] | None, None),
}
"""Types and defaults of the columns that are not about decisions and judges, in the order of a row's values."""
_FIRST = len(_FIELDS)
_Values = tuple[Any, ...]
"""The values of a row: those of ``_FIELDS``, then of :attr:`_Form.decisions`, then of :attr:`_Form.of_jury`."""


def read_gold(
    source: str,
    base: Path,
    settings: Settings,
    clock: Clock | None = None,
    bundled_items: Path | None = None,
    *,
    keep_texts: bool = True,
) -> Gold:
    """Read the gold set of a source as ``sources.read_rows`` takes it; ``bundled`` is the one beside ``bundled_items``.

    Without ``keep_texts`` the texts of answers are left out, as for a board: it has no ``rows`` then. Raises DataError
    with file, line, column and reason.
    """
    if source == BUNDLED:
        if bundled_items is None:
            raise DataError("gold source 'bundled': this task has no bundled gold set")
        source = str(bundled_gold(bundled_items))
    reader = _Reader(keep_texts=keep_texts)
    for portion in portions(source, base, settings, clock):
        if not (isinstance(portion, Lines) and reader.take_lines(portion)):
            reader.take(list(portion))
    if reader.is_empty:
        raise nothing_in(source)
    return reader.gold()


def bundled_gold(bundled_items: Path) -> Path:
    """Where the gold set of bundled items is: ``gold_<split>.jsonl`` beside ``riddles_<split>.jsonl``."""
    return bundled_items.with_name("gold_" + bundled_items.name.partition("_")[2])


def parse_gold(rows: Iterable[tuple[Place, Row]]) -> Gold:
    """Make a gold set of rows. Raises DataError naming file, line and column."""
    reader, remaining = _Reader(), iter(rows)
    while portion := list(islice(remaining, _PORTION_ROWS)):
        reader.take(portion)
    return reader.gold()


class _Form:
    """The columns of a gold set as far as it is read, and the typed decoder of a line with these columns."""

    def __init__(self, columns: Mapping[str, None]) -> None:
        names = (name.removeprefix(one) for name in columns for one in _PREFIXES if name.startswith(one))
        self.judges = list(dict.fromkeys(names))
        self.decisions = [prefix + judge for judge in self.judges for prefix in _PREFIXES] + list(_HUMAN)
        self.of_jury = [name for name in columns if name.startswith("judge_") or name == _OTHER_JURY]
        known = [*_FIELDS, *self.decisions, *self.of_jury]
        self._known = len(known)
        types: dict[str, tuple[object, ...]] = dict.fromkeys((*known, *columns), (Any, None))
        types |= dict.fromkeys(self.decisions, (bool | None, None))
        types |= {name: (bool | None if name == _OTHER_JURY else str | None, None) for name in self.of_jury}
        types |= _FIELDS
        names_in_code = {f"column_{number}": name for number, name in enumerate(types)}
        line = msgspec.defstruct(
            "Line",
            [(code, *types[name]) for code, name in names_in_code.items()],  # type: ignore[misc]
            rename=names_in_code,
            kw_only=True,
            forbid_unknown_fields=True,
            gc=False,
        )
        self._decode = msgspec.json.Decoder(line).decode

    def values(self, content: bytes) -> list[_Values] | None:
        """Decode whole lines. None where a line has another column, another type or is not JSON: then the lines are
        read one by one, for the column to be learnt or the fault to be named."""
        try:
            rows = list(map(self._decode, io.BytesIO(content)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return [msgspec.structs.astuple(row)[: self._known] for row in rows]


class _Decisions(dict[tuple[bool | None, ...], int]):
    """The number of each combination of decisions; ``decided``: by number, the judges' by name, and a person's."""

    def __init__(self, judges: Sequence[str], decided: list[tuple[Mapping[str, Marks | None], Marks | None]]) -> None:
        super().__init__()
        self._judges, self._decided = judges, decided

    def __missing__(self, values: tuple[bool | None, ...]) -> int:
        marks = [_marks(*values[at : at + 3]) for at in range(0, len(values), 3)]
        number = self[values] = len(self._decided)
        self._decided.append((dict(zip(self._judges, marks, strict=False)), marks[-1]))
        return number


class _Reader:
    """Rows that become a gold set. A fault in a row is raised after what is wrong with the columns of all rows."""

    def __init__(self, *, keep_texts: bool = True) -> None:
        self._builder, self._records = ColumnsBuilder(keep_texts=keep_texts), Records()
        self._names: dict[str, None] = {}
        self._form: _Form | None = None
        self._decided: list[tuple[Mapping[str, Marks | None], Marks | None]] = []
        self._decisions = _Decisions((), self._decided)
        self._files: list[tuple[int, str]] = []
        """The number of the first row of each file, and the file's name."""
        self._lines = array("Q")
        self._fault: DataError | None = None
        self._other_jury = False

    @property
    def is_empty(self) -> bool:
        return not self._lines

    def take_lines(self, lines: Lines) -> bool:
        """Append the rows of lines, all of which have the known columns. False: they have to be taken one by one."""
        if self._form is None or self._fault is not None:
            return False
        values = self._form.values(lines.content)
        if values is None:
            return False
        self._note(lines.first.file, range(lines.first.line, lines.first.line + len(values)))
        self._add(self._form, values)
        return True

    def take(self, rows: Sequence[tuple[Place, Row]]) -> None:
        """Append rows of any columns."""
        names = dict.fromkeys(chain.from_iterable(row for _, row in rows))
        if self._form is None or not names.keys() <= self._names.keys():
            self._names |= names
            self._form = _Form(self._names)
            self._decisions = _Decisions(self._form.judges, self._decided)
        for file, places in groupby((place for place, _ in rows), attrgetter("file")):
            self._note(file, (place.line for place in places))
        if self._fault is None:
            try:
                values = [_checked(row, place, self._form) for place, row in rows]
            except DataError as error:
                self._fault = error
            else:
                self._add(self._form, values)

    def _note(self, file: str, lines: Iterable[int]) -> None:
        if not self._files or self._files[-1][1] != file:
            self._files.append((len(self._lines), file))
        self._lines.extend(lines)

    def _place(self, row: int) -> Place:
        first = bisect_right(self._files, row, key=itemgetter(0)) - 1
        return Place(self._files[first][1], self._lines[row])

    def _add(self, form: _Form, rows: Sequence[_Values]) -> None:
        """Append rows whose places are the last that were noted."""
        if not rows:
            return
        columns = list(zip(*rows, strict=True))
        items, providers, models, hints, answers, justifications, kinds, ranked, chances, samples = columns[:_FIRST]
        of_jury = columns[_FIRST + len(form.decisions) :]
        self._builder.extend(
            entrants=zip(models, providers, hints, strict=True),
            items=map(str, items),
            answers=answers,
            justifications=justifications,
            kinds=kinds,
            ranked=ranked,
            propensities=chances,
            samples=samples,
            decisions=map(
                self._decisions.__getitem__, zip(*columns[_FIRST : _FIRST + len(form.decisions)], strict=True)
            ),
        )
        if of_jury:
            first = len(self._lines) - len(rows)
            for number, values in enumerate(zip(*of_jury, strict=True), first):
                row = dict(zip(form.of_jury, values, strict=True))
                self._records.take(row, self._place(number), form.of_jury)
                self._other_jury = self._other_jury or row.get(_OTHER_JURY) is True

    def gold(self) -> Gold:
        """The gold set of all rows. Raises DataError for the first thing that is wrong with them."""
        file = self._files[0][1]
        missing = [column for column in _NEEDED if column not in self._names]
        if missing:
            raise DataError(f"{file}: not a gold set, it has no column {', '.join(missing)}")
        judges = _judges(list(self._names), file)
        if self._fault is not None:
            raise self._fault
        decided = [(tuple(given.get(judge) for judge in judges), human) for given, human in self._decided]
        columns = self._builder.columns(decided)
        self._check_unique(columns)
        return Gold(judges, columns, self._records.of(judges), self._other_jury)

    def _check_unique(self, rows: Columns) -> None:
        prediction = rows.who.astype(np.int64) * len(rows.items) + rows.item
        key = (2 * prediction + rows.ranked) * (_SAMPLES + 1) + rows.sample
        if (key[1:] > key[:-1]).all():
            return
        order = np.argsort(key, kind="stable")  # rows of one prediction keep their order
        same = key[order][1:] == key[order][:-1]
        if same.any():
            second, first = min(zip(order[1:][same].tolist(), order[:-1][same].tolist(), strict=True))
            item, model = rows.items[rows.item[second]], rows.entrants[rows.who[second]].model
            places = f"{self._place(second)}: item {item!r} of model {model!r} stands already in {self._place(first)}"
            raise DataError(places)


def _judges(columns: Sequence[str], file: str) -> tuple[str, ...]:
    judges = tuple(column.removeprefix(_ANSWER) for column in columns if column.startswith(_ANSWER))
    if not judges:
        raise DataError(f"{file}: not a gold set, it has no column {_ANSWER}<judge>")
    others = {column.removeprefix(_JUSTIFICATION) for column in columns if column.startswith(_JUSTIFICATION)}
    if lone := sorted(set(judges) ^ others):
        raise DataError(f"{file}: judge {lone[0]!r} has only one of the columns {_ANSWER}… and {_JUSTIFICATION}…")
    return judges


def _checked(row: Row, place: Place, form: _Form) -> _Values:
    """The values of a row, as the decoder of lines gives them. Raises DataError naming the column that is wrong."""
    row = with_text_id(row, ITEM)
    item, provider, model = (_text(row, column, place) for column in (ITEM, "provider", "model"))
    n_hints = row.get("n_hints", 0)
    if isinstance(n_hints, bool) or not isinstance(n_hints, int) or n_hints < 0:
        raise DataError(f"{place}: column 'n_hints' must be a whole number, not {n_hints!r}")
    sample = _sample(row, place)
    decisions = [_decision(row, column, place) for column in form.decisions]
    answer, justification, kind = (_optional_text(row, column, place) for column in (ANSWER, JUSTIFICATION, "kind"))
    ranked, propensity = row.get("ranked") is not False, propensity_of(row, place)
    known = item, provider, model, n_hints, answer, justification, kind, ranked, propensity, sample
    return (*known, *decisions, *map(row.get, form.of_jury))


def _decision(row: Row, column: str, place: Place) -> bool | None:
    value = row.get(column)
    if value is not None and value is not True and value is not False:
        raise DataError(f"{place}: column {column!r} must be true, false or null, not {value!r:.60}")
    return value


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


def gold_rows(gold: Gold) -> Iterator[dict[str, object]]:
    """Write the rows of a gold set in the form it was read in, layton-eval-ppi's, with what is known of its judges."""
    return written_rows(gold.judges, gold.rows, gold.recorded, other_jury=gold.other_jury)


def written_rows(
    judges: Sequence[str], rows: Iterable[GoldRow], recorded: Mapping[str, JudgeRecord], *, other_jury: bool
) -> Iterator[dict[str, object]]:
    """Write rows, whose ``judges`` are in the order of these, as :func:`gold_rows`."""
    known: dict[str, object] = {_OTHER_JURY: True} if other_jury else {}
    known |= {name: text for judge, one in recorded.items() for name, text in record_columns(judge, one).items()}
    for row in rows:
        plain: dict[str, object] = {
            ITEM: row.item_id,
            "provider": row.provider,
            "model": row.model,
            "n_hints": row.n_hints,
            ANSWER: row.answer,
            JUSTIFICATION: row.justification,
        }
        for judge, marks in zip(judges, row.judges, strict=True):
            plain |= _written(marks, _ANSWER + judge, _JUSTIFICATION + judge, _BOTH + judge)
        kind = {"kind": row.kind} if row.kind else {}
        chance = {} if row.propensity is None else {"propensity": row.propensity}
        asked = {} if row.sample is None else {"sample": row.sample}
        people = _written(row.human, *_HUMAN)
        yield plain | people | kind | ({} if row.ranked else {"ranked": False}) | chance | asked | known


def _written(marks: Marks | None, *names: str) -> dict[str, object]:
    return dict(zip(names, marks or (None, None, None), strict=True))
