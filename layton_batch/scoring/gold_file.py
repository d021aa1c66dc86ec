"""A gold set in layton-eval-ppi's form, read row by row and written.

A row names ``riddle_id, provider, model, n_hints`` (no such column, as in the published visual set: 0) and holds, for
every judge, ``is_answer_correct_<judge>`` and ``is_justification_correct_<judge>`` (null: did not sit), and the same
from a person as ``human_answer_correct`` and ``human_justification_correct`` (null: not labelled).
``both_correct_<judge>`` and ``human_both_correct`` are taken where the file has them and derived where it does not.
Three more columns may be there, which our own exports have: ``kind``, what became of the reply, ``ranked``, false for
an answer that brings a label only, and ``sample``, which answer of the model to the item it is (of a label only: in
which round it counts; none: in all). A row of a run
whose labels stand beside another jury's votes says so (``labels_of_another_jury``).
What a file may say of its judges is in :mod:`layton_batch.scoring.jury_record`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl
from msgspec import Meta

from layton_batch.clock import Clock
from layton_batch.errors import DataError
from layton_batch.files.sources import JsonLines, Row, RowLocation, nothing_in, portions, with_text_id
from layton_batch.scoring.evidence import ENTRANT, content_key
from layton_batch.scoring.gold import GOLD, HUMAN, VERDICT, GoldSet
from layton_batch.scoring.jury_record import JudgeRecord, record_columns, record_columns_of, recorded_value
from layton_batch.settings import Settings

BUNDLED = "bundled"
ITEM, ANSWER, JUSTIFICATION = "riddle_id", "answer", "justification"
_ANSWER, _JUSTIFICATION = VERDICT["answer_correct"], VERDICT["justification_correct"]
_OTHER_JURY = "labels_of_another_jury"
_SCORES_FORM = "; for `leaderboard`, a table of scores has the columns model, item_id and score"
_NEEDED = (ITEM, "provider", "model", HUMAN["answer_correct"], HUMAN["justification_correct"])
_IDENTIFYING = (ITEM, HUMAN["answer_correct"], HUMAN["justification_correct"])
"""Columns that only a gold set has. A file without any of them was meant for something else."""
_SHOWN_COLUMNS = 12
_SAMPLES = 10_000
_FRAME_ROWS = 5_000
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
    "sample": (Annotated[int, Meta(ge=1, le=_SAMPLES)] | None, None),
}
"""Types and defaults of the columns that are not about decisions and judges, in the order of a row's values."""
_DECISION = "true, false or null"
_KINDS = {
    **dict.fromkeys((ITEM, "provider", "model"), "text"),
    **dict.fromkeys(("ranked", _OTHER_JURY), _DECISION),
    "n_hints": "a whole number",
    "sample": f"a whole number from 1 to {_SAMPLES:,}",
}
"""Values of columns, in words; of judges' and people's columns a decision, of the others text or null."""
_Values = tuple[Any, ...]
"""The values of a row: those of ``_FIELDS``, then of :attr:`_GoldForm.decisions`, then of :attr:`_GoldForm.of_jury`."""


def read_gold(
    source: str,
    base: Path,
    settings: Settings,
    clock: Clock | None = None,
    bundled_items: Path | None = None,
    *,
    keep_texts: bool = True,
) -> GoldSet:
    """Read the gold set of a source as ``sources.read_rows`` takes it; ``bundled`` is the one beside ``bundled_items``.

    Without ``keep_texts`` the texts of answers are left out, as for a board: it has no ``rows`` then. Raises DataError
    with file, line, column and reason.
    """
    if source == BUNDLED:
        if bundled_items is None:
            raise DataError("[gold] source 'bundled': this task has no bundled gold set: name a file, or leave it out")
        source = str(bundled_gold(bundled_items))
    reader = _Reader(keep_texts=keep_texts)
    for portion in portions(source, base, settings, clock):
        if not (isinstance(portion, JsonLines) and reader.take_lines(portion)):
            reader.take(portion)
    if reader.is_empty:
        raise nothing_in(source)
    return reader.gold()


def bundled_gold(bundled_items: Path) -> Path:
    """Return the gold set's path of bundled items: ``gold_<split>.jsonl`` beside ``riddles_<split>.jsonl``.

    Raises DataError where there is none.
    """
    path = bundled_items.with_name("gold_" + bundled_items.name.partition("_")[2])
    if not path.is_file():
        raise DataError(
            "[gold] source 'bundled': this task and split have no bundled gold set: name a file, or leave it out"
        )
    return path


def parse_gold(rows: Iterable[tuple[RowLocation, Row]]) -> GoldSet:
    """Make a gold set of rows. Raises DataError naming file, line and column."""
    reader = _Reader()
    reader.take(rows)
    return reader.gold()


class _GoldForm:
    """The columns of a gold set as far as it is read, and the typed decoder of a line with these columns."""

    def __init__(self, columns: Mapping[str, None]) -> None:
        names = (
            name.removeprefix(prefix) for name in columns for prefix in VERDICT.values() if name.startswith(prefix)
        )
        self.judges = list(dict.fromkeys(names))
        self.decisions = [prefix + judge for judge in self.judges for prefix in VERDICT.values()]
        self.decisions += HUMAN.values()
        of_jury = {column for _, _, column in record_columns_of(self.judges)} | {_OTHER_JURY}
        self.of_jury = [name for name in columns if name in of_jury]
        known_columns = [*_FIELDS, *self.decisions, *self.of_jury]
        self._known = len(known_columns)
        types: dict[str, tuple[object, ...]] = dict.fromkeys((*known_columns, *columns), (Any, None))
        types |= dict.fromkeys(self.decisions, (bool | None, None))
        types |= {name: (bool | None if name == _OTHER_JURY else str | None, None) for name in self.of_jury}
        types |= _FIELDS
        names_in_code = {f"column_{number}": name for number, name in enumerate(types)}
        self._line = msgspec.defstruct(
            "Line",
            [(code, *types[name]) for code, name in names_in_code.items()],  # type: ignore[misc]
            rename=names_in_code,
            kw_only=True,
            forbid_unknown_fields=True,
            gc=False,
        )
        self._decode = msgspec.json.Decoder(self._line).decode

    def lines(self, content: bytes) -> list[_Values] | None:
        """Decode whole lines. None where a line has another column, another type or is not JSON: then the lines are
        read one by one, for the column to be learnt or the fault to be named."""
        try:
            rows = list(map(self._decode, io.BytesIO(content)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return [msgspec.structs.astuple(row)[: self._known] for row in rows]

    def row(self, row: Row, location: RowLocation) -> _Values:
        """Return a row's values as the line decoder does. Raises DataError naming the wrong column."""
        row = with_text_id(row, ITEM)
        try:
            return msgspec.structs.astuple(msgspec.convert(row, self._line))[: self._known]
        except msgspec.ValidationError as error:
            # the path ends such a message, and a field that is missing has none
            column = str(error).removesuffix("`").rpartition("`")[2].removeprefix("$.")
            kind = _KINDS.get(column, _DECISION if column in self.decisions else "text or null")
            raise DataError(f"{location}: column {column!r} must be {kind}, not {row.get(column)!r:.60}") from None


class _Reader:
    """Rows that become a gold set. A fault in a row is raised after what is wrong with the columns of all rows."""

    def __init__(self, *, keep_texts: bool = True) -> None:
        self._keep_texts = keep_texts
        self._names: dict[str, None] = {}
        self._form: _GoldForm | None = None
        self._waiting: list[tuple[RowLocation, Row]] = []
        """Rows that are not in a frame yet."""
        self._frames: list[pl.DataFrame] = []
        self._file = ""
        """The file of the first row."""
        self._fault: DataError | None = None
        self._other_jury = False

    @property
    def is_empty(self) -> bool:
        return not self._file

    def take_lines(self, lines: JsonLines) -> bool:
        """Append the rows of lines, all of which have the known columns. False: they have to be taken one by one."""
        self._close()
        if self._form is None or self._fault is not None:
            return False
        values = self._form.lines(lines.content)
        if values is None:
            return False
        self._append(values, [lines.first.file] * len(values), range(lines.first.line, lines.first.line + len(values)))
        return True

    def take(self, rows: Iterable[tuple[RowLocation, Row]]) -> None:
        """Append rows of any columns."""
        for placed in rows:
            self._file = self._file or placed[0].file
            self._waiting.append(placed)
            if len(self._waiting) == _FRAME_ROWS:
                self._close()

    def _close(self) -> None:
        """Put the waiting rows into a frame."""
        rows, self._waiting = self._waiting, []
        names = dict.fromkeys(chain.from_iterable(row for _, row in rows))
        if self._form is None or not names.keys() <= self._names.keys():
            self._names |= names
            self._form = _GoldForm(self._names) if self._names else None
        if self._form is None or self._fault is not None or not rows:
            return
        try:
            values = [self._form.row(row, location) for location, row in rows]
        except DataError as error:
            self._fault = error
        else:
            self._append(values, [location.file for location, _ in rows], [location.line for location, _ in rows])

    def _append(self, rows: Sequence[_Values], files: Sequence[str], lines: Sequence[int]) -> None:
        if self._form is None or not rows:
            return
        names = (*_FIELDS, *self._form.decisions, *self._form.of_jury)
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        self._other_jury = self._other_jury or True in columns.pop(_OTHER_JURY, ())
        texts = columns[ANSWER], columns[JUSTIFICATION]
        columns |= {
            "item_id": tuple(map(str, columns.pop(ITEM))),
            "content": tuple(map(content_key, *texts)),
            "silent": tuple(text is None for text in texts[0]),
        }
        if not self._keep_texts:
            del columns[ANSWER], columns[JUSTIFICATION]
        types = {**dict.fromkeys(self._form.decisions, pl.Boolean()), **dict.fromkeys(self._form.of_jury, pl.String())}
        types = {name: GOLD.get(name) or types[name] for name in columns}
        places = {"file": pl.Series(files, dtype=pl.Categorical()), "line": pl.Series(lines, dtype=pl.UInt32())}
        self._frames.append(pl.DataFrame(columns, schema=types).with_columns(**places))

    def gold(self) -> GoldSet:
        """The gold set of all rows. Raises DataError for the first thing that is wrong with them."""
        self._close()
        file = self._file
        missing = [column for column in _NEEDED if column not in self._names]
        if set(_IDENTIFYING) <= set(missing):
            columns = ", ".join(islice(self._names, _SHOWN_COLUMNS))
            if "answer_correct" in self._names:
                raise DataError(
                    f"{file}: is a file of labels, and belongs to a run: `layton-batch label import RUN {file}`, "
                    "then `layton-batch leaderboard RUN`; in a manifest: [gold] annotations"
                )
            asks = (
                f"; `layton-batch run {file} --model PROVIDER:ID` asks questions" if "question" in self._names else ""
            )
            raise DataError(
                f"{file}: not a gold set and no table of scores; its columns are {columns}; a table of scores has the "
                "columns model, item_id and score, and a row for each model and item; a gold set has the columns "
                f"{', '.join(_NEEDED)}{asks}"
            )
        if missing:
            raise DataError(f"{file}: not a gold set, it has no column {', '.join(missing)}{_SCORES_FORM}")
        judges = _judges(list(self._names), file)
        if self._fault is not None:
            raise self._fault
        graders = [[prefix + judge for prefix in VERDICT.values()] for judge in judges] + [list(HUMAN.values())]
        rows = pl.concat(self._frames, how="diagonal")
        self._frames.clear()
        recorded = _recorded(rows, judges)
        _check_unique(rows)
        rows = rows.select(*(name for name in GOLD if name in rows.columns), *chain.from_iterable(graders))
        is_known = pl.col("kind") != ""
        rows = rows.with_columns(
            pl.when(is_known).then("kind").alias("kind"),
            pl.col("ranked").fill_null(value=True),
            *(_both(*columns) for columns in graders),
        )
        return GoldSet(judges, rows, recorded, self._other_jury)


def _location(rows: pl.DataFrame, number: int) -> RowLocation:
    return RowLocation(rows["file"][number], rows["line"][number])


def _recorded(rows: pl.DataFrame, judges: Sequence[str]) -> dict[str, JudgeRecord]:
    """Read the judges' records from the rows, which must agree. Judges without a record are left out."""
    records: dict[str, dict[str, str]] = {judge: {} for judge in judges}
    for judge, name, column in record_columns_of(judges):
        values = rows[column].drop_nulls().unique(maintain_order=True).to_list() if column in rows.columns else []
        if len(values) > 1:
            location = _location(rows, rows[column].index_of(values[1]) or 0)
            raise DataError(
                f"{location}: column {column!r} is not what it is in rows before; one gold set has one jury"
            )
        if len(values):
            location = _location(rows, rows[column].is_not_null().arg_max() or 0)
            records[judge][name] = recorded_value(name, values[0], f"{location}: column {column!r}")
    return {judge: JudgeRecord(**record) for judge, record in records.items() if record}


def _check_unique(rows: pl.DataFrame) -> None:
    key = rows.select(*ENTRANT, "item_id", pl.col("ranked").fill_null(value=True), pl.col("sample").fill_null(0))
    if key.n_unique() == key.height:
        return
    again = key.select(pl.struct(pl.all()).is_first_distinct().arg_min()).item()
    same = pl.all_horizontal(pl.col(name) == value for name, value in key.row(again, named=True).items())
    first = key.select(same.arg_max()).item()
    item, model = key["item_id"][again], key["model"][again]
    raise DataError(
        f"{_location(rows, again)}: item {item!r} of model {model!r} stands already in {_location(rows, first)}"
    )


def _both(answer: str, justification: str, both: str) -> pl.Expr:
    """The decision on both, derived from its parts where only these are known."""
    parts = pl.col(answer), pl.col(justification)
    derived = pl.when(parts[0].is_not_null() & parts[1].is_not_null()).then(parts[0] & parts[1])
    return pl.coalesce(both, derived).alias(both)


def _judges(columns: Sequence[str], file: str) -> tuple[str, ...]:
    judges = tuple(column.removeprefix(_ANSWER) for column in columns if column.startswith(_ANSWER))
    if not judges:
        raise DataError(f"{file}: not a gold set, it has no column {_ANSWER}<judge>")
    justification_judges = {
        column.removeprefix(_JUSTIFICATION) for column in columns if column.startswith(_JUSTIFICATION)
    }
    if lone := sorted(set(judges) ^ justification_judges):
        raise DataError(f"{file}: judge {lone[0]!r} has only one of the columns {_ANSWER}… and {_JUSTIFICATION}…")
    return judges


def gold_rows(gold: GoldSet) -> Iterator[dict[str, object]]:
    """Write the rows of a gold set in the form it was read in, layton-eval-ppi's, with the judges' records."""
    jury_columns: dict[str, object] = {_OTHER_JURY: True} if gold.other_jury else {}
    jury_columns |= {
        name: text for judge, record in gold.recorded.items() for name, text in record_columns(judge, record).items()
    }
    decisions = [prefix + judge for judge in gold.judges for prefix in VERDICT.values()] + list(HUMAN.values())
    names = ("item_id", "provider", "model", "n_hints", ANSWER, JUSTIFICATION, *decisions)
    for row in gold.rows.iter_rows(named=True):
        plain: dict[str, object] = {ITEM if name == "item_id" else name: row[name] for name in names}
        kind = {"kind": row["kind"]} if row["kind"] else {}
        counts = {} if row["ranked"] else {"ranked": False}
        sample = {} if row["sample"] is None else {"sample": row["sample"]}
        yield plain | kind | counts | sample | jury_columns
