"""Annotations: people's labels without jury columns, a row for each annotator and prediction.

They join the predictions of a run by model, item and hint level, and by what was said where a row has that. Of several
labels of one annotator on one prediction the latest counts, of several annotators the majority; a tie is no label.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import polars as pl

from layton_batch.errors import DataError
from layton_batch.files.sheets import ENDINGS, WORKBOOK
from layton_batch.files.sources import Row, RowLocation, Rows, parse_each, with_text_id
from layton_batch.records import JsonValue
from layton_batch.scoring.evidence import ENTRANT, LABELS, PREDICTION, VOTES, Entrant, content_key

_ITEM = ("item_id", "riddle_id")
_HINTS = ("n_hints", "hints")
_ANSWER = ("answer_correct", "is_answer_correct", "human_answer_correct")
_JUSTIFICATION = ("justification_correct", "is_justification_correct", "human_justification_correct")
_BOTH = ("both_correct", "overall_correct", "human_both_correct")
_TIME = ("time", "labelled_at")
_NOTE = ("note", "notes")
METRICS = ("answer_correct", "justification_correct", "both_correct")
_FORM = "a row of labels has item_id, model and answer_correct (true or false), and justification_correct where judged"
_NUMBERS = (*_HINTS, *_TIME)
_NAMES = (*_ITEM, "model", "provider", "annotator")
COLUMNS = frozenset({
    *_NAMES, *_NUMBERS, *_ANSWER, *_JUSTIFICATION, *_BOTH, *_NOTE, "answer", "justification", "adjudicated",
    "source_file", "item_digest", "model_id", "label_id", "question", "reference", "custom_id",
})  # fmt: skip
"""Columns of files of labels: those that are read, and those that this program writes for readers."""
WORDS = {
    **dict.fromkeys(("true", "yes", "y", "1", "1.0", "right", "correct", "wahr", "ja", "vrai", "oui"), True),
    **dict.fromkeys(("false", "no", "n", "0", "0.0", "wrong", "incorrect", "falsch", "nein", "faux", "non"), False),
}
"""Words that people and spreadsheets write for true and false."""
_SOURCE_FILE = re.compile(r"[^_]+_(?P<provider>[^_]+)_(?P<model>[^_]+)_.*hints_(?P<hints>\d+)(?P<rest>.*)")
"""Name of a prediction's file in layton-eval's annotation files: their tools take the model's name out of it."""


class AnswerKey(NamedTuple):
    """Name of an answer that people label: the item, and who answered."""

    item_id: str
    provider: str
    model: str
    n_hints: int

    @classmethod
    def of(cls, entrant: Entrant, item_id: str) -> AnswerKey:
        return cls(item_id, entrant.provider, entrant.model, entrant.n_hints)


@dataclass(frozen=True, slots=True)
class Annotation:
    """Label of one person for one prediction. None: the row has no value; ``prediction_text``: the prediction's answer
    and justification.

    ``source_file``: the file from which layton-eval's tools read the prediction. ``adjudicated``: the label overrides
    the majority of the annotators. ``item_digest``: digest of what the person saw of the item; the label belongs to
    this form of the item only. ``model_id``: the model as its provider names it; the label belongs to no other model,
    whatever the two are called.
    """

    item_id: str
    model: str
    answer_correct: bool | None = None
    justification_correct: bool | None = None
    both_correct: bool | None = None
    provider: str | None = None
    n_hints: int | None = None
    annotator: str = ""
    time: str | None = None
    prediction_text: tuple[str, str | None] | None = None
    source_file: str | None = None
    note: str = ""
    adjudicated: bool = False
    item_digest: str | None = None
    model_id: str | None = None
    location: RowLocation | None = field(default=None, compare=False)
    """The row of the file from which the label was read, for messages."""

    @property
    def about(self) -> tuple[object, ...]:
        """Return the annotator and the prediction. A later annotation with the same pair replaces an earlier one."""
        where = self.item_id, self.model, self.provider, self.n_hints, self.prediction_text, self.source_file
        return (self.who, *where)

    @property
    def who(self) -> str:
        """The annotator; whoever settles what people disagree on is told apart from the same person before."""
        return f"{self.annotator} (adjudicated)" if self.adjudicated else self.annotator

    @property
    def also(self) -> str | None:
        """Return the model's name in layton-eval's tools."""
        named = _SOURCE_FILE.fullmatch(self.source_file or "")
        return named["model"] + ("_thinking_32k" if "thinking_32k" in named["rest"] else "") if named else None

    @property
    def marks(self) -> dict[str, bool | None]:
        """Return the label on each metric; None: there is none."""
        return dict(zip(METRICS, (self.answer_correct, self.justification_correct, self.both_correct), strict=True))

    def mark(self, metric: str) -> bool | None:
        """Return the label on one metric, of any task; None: there is none."""
        return self.marks.get(metric)

    def replaces(self, earlier: Annotation) -> bool:
        """Tell whether this annotation, read later, replaces the earlier. The times decide where both have one."""
        return self.time is None or earlier.time is None or _moment(self.time) >= _moment(earlier.time)


@dataclass(frozen=True, slots=True)
class JoinedLabels:
    """Annotations beside predictions: by prediction and ``Annotation.who``; ``apart``: how many belong to none, by
    reason."""

    by_prediction: Mapping[AnswerKey, Mapping[str, Annotation]]
    apart: Mapping[str, int] = field(default_factory=dict)

    @property
    def locations(self) -> pl.DataFrame:
        """Return the annotated predictions by their names, with their number in ``by_prediction``, ``about``."""
        schema = {name: VOTES[name] for name in AnswerKey._fields}
        return pl.DataFrame(list(self.by_prediction), schema, orient="row").with_row_index("about")


# ---- reading -------------------------------------------------------------------------------------------------------


def parse_annotations(rows: Rows) -> list[Annotation]:
    """Rows as annotations, in order. Raises DataError naming file and line of the first rows that are none."""
    return parse_each(rows.placed(), lambda placed: parse_annotation(label_row(placed[1], placed[0]), placed[0]))


def parse_annotation(row: Row, location: RowLocation) -> Annotation:
    """Read one row. Raises DataError naming file, line and column."""
    answer, justification, both = (_truth(row, names, location) for names in (_ANSWER, _JUSTIFICATION, _BOTH))
    if answer is None and justification is None and both is None:
        is_blank = any(name in row for name in (*_ANSWER, *_JUSTIFICATION, *_BOTH))
        advice = (
            "fill it in, or take the row out" if is_blank else f"{_FORM}; its columns are {', '.join(map(str, row))}"
        )
        raise DataError(f"{location}: has no label: {advice}")
    if answer is not None and justification is not None:
        if both is not None and both != (answer and justification):
            raise DataError(f"{location}: {_named(row, _BOTH)!r} contradicts the labels of answer and justification")
        both = answer and justification
    source_file = _optional_text(row, ("source_file",), location)
    named = _SOURCE_FILE.fullmatch(source_file or "")
    hints = _hints(row, location)
    text = _optional_text(row, ("answer",), location)
    return Annotation(
        item_id=_text(with_text_id(row, _named(row, _ITEM)), _ITEM, location),
        model=_text(row, ("model",), location),
        answer_correct=answer,
        justification_correct=justification,
        both_correct=both,
        provider=_optional_text(row, ("provider",), location) or None,
        n_hints=int(named["hints"]) if hints is None and named else hints,
        annotator=_optional_text(row, ("annotator",), location) or "",
        time=_time(row, location),
        prediction_text=None if text is None else (text, _optional_text(row, ("justification",), location)),
        source_file=source_file,
        note=next((note for name in _NOTE if isinstance(note := row.get(name), str) and note.strip()), ""),
        adjudicated=_truth(row, ("adjudicated",), location) is True,
        item_digest=_optional_text(row, ("item_digest",), location) or None,
        model_id=_optional_text(row, ("model_id",), location) or None,
        location=location,
    )


def annotation_row(annotation: Annotation) -> dict[str, object]:
    """Write an annotation as a row of the stored form, without the fields it lacks."""
    texts = annotation.prediction_text or (None, None)
    row: dict[str, object] = {
        "item_id": annotation.item_id,
        "model": annotation.model,
        "provider": annotation.provider,
        "n_hints": annotation.n_hints,
        **annotation.marks,
        "annotator": annotation.annotator or None,
        "time": annotation.time,
        "source_file": annotation.source_file,
        "note": annotation.note or None,
        "adjudicated": annotation.adjudicated or None,
        "item_digest": annotation.item_digest,
        "model_id": annotation.model_id,
        "answer": texts[0],
        "justification": texts[1],
    }
    return {name: value for name, value in row.items() if value is not None}


def _is_spreadsheet(location: RowLocation) -> bool:
    return location.file.lower().endswith((*ENDINGS, WORKBOOK))


def label_row(row: Row, location: RowLocation) -> Row:
    """Return a spreadsheet's row with its columns' names in lower case, numbers as texts, and no blanks around names
    and ids; any other row as it is."""
    if not _is_spreadsheet(location):
        return row
    texts: dict[str, JsonValue] = {}
    for column, value in row.items():
        name = column.casefold()
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        texts[name] = str(value) if is_number and name not in _NUMBERS else value
        if isinstance(text := texts[name], str) and name in _NAMES:
            texts[name] = text.strip()
    return texts


def _named(row: Row, names: Sequence[str]) -> str:
    """The first of a column's names that the row has a value under, else its first name."""
    return next((name for name in names if row.get(name) is not None), names[0])


def _truth(row: Row, names: Sequence[str], location: RowLocation) -> bool | None:
    name = _named(row, names)
    value = row.get(name)
    word = str(value).strip().lower()
    if value is not None and not isinstance(value, bool) and _is_spreadsheet(location):
        value = WORDS.get(word, value)
    if value is not None and not isinstance(value, bool):
        advice = "in JSON without quotation marks" if word in WORDS else "where nobody decided, leave the row out"
        raise DataError(f"{location}: column {name!r} must be true, false or null, not {value!r:.60}; {advice}")
    return value


def _text(row: Row, names: Sequence[str], location: RowLocation) -> str:
    value, name = _optional_text(row, names, location), _named(row, names)
    if name not in row:
        columns = " or ".join(map(repr, names))
        raise DataError(
            f"{location}: column {columns} is missing: {_FORM}; its columns are {', '.join(map(str, row))}. A file of "
            "`label plan` needs its column label_id"
        )
    if not value:
        raise DataError(f"{location}: column {name!r} must be text, not {row[name]!r:.60}")
    return value


def _optional_text(row: Row, names: Sequence[str], location: RowLocation) -> str | None:
    name = _named(row, names)
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{location}: column {name!r} must be text or null, not {value!r:.60}")
    return value


def _hints(row: Row, location: RowLocation) -> int | None:
    name = _named(row, _HINTS)
    value = row.get(name)
    if isinstance(value, str) and location.file.lower().endswith(ENDINGS) and value.isdecimal():
        value = int(value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise DataError(f"{location}: column {name!r} must be a whole number, 0 or more, not {value!r:.60}")
    return value


def _time(row: Row, location: RowLocation) -> str | None:
    name = _named(row, _TIME)
    value = row.get(name)
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str):
            _moment(value)
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        pass
    raise DataError(f"{location}: column {name!r} must be a time such as 2026-11-23T09:30:00Z, not {value!r:.60}")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# ---- beside predictions --------------------------------------------------------------------------------------------


def latest(annotations: Iterable[Annotation]) -> dict[tuple[object, ...], Annotation]:
    """Return the last annotation of each annotator and prediction, from annotations in the order of reading."""
    latest_by_subject: dict[tuple[object, ...], Annotation] = {}
    for annotation in annotations:
        earlier = latest_by_subject.get(annotation.about)
        if earlier is None or annotation.replaces(earlier):
            latest_by_subject[annotation.about] = annotation
    return latest_by_subject


def newest(annotations: Iterable[Annotation]) -> float | None:
    """Return the time (epoch seconds) of the newest label; None if no label has a time."""
    times = [_moment(annotation.time).timestamp() for annotation in annotations if annotation.time is not None]
    return max(times, default=None)


def join(
    annotations: Iterable[Annotation],
    votes: pl.DataFrame,
    ids: Mapping[Entrant, str],
    item_digest: Callable[[str], str | None],
) -> JoinedLabels:
    """Assign each annotation to its prediction. ``ids``: the entrants' model ids at their
    provider, except for those of models from a file. ``item_digest``:
    the digest of an item as people see it now.
    """
    by_prediction: dict[AnswerKey, dict[str, Annotation]] = defaultdict(dict)
    apart: Counter[str] = Counter()
    index = _Index(votes, ids)
    for annotation in annotations:
        entrant, reason = index.entrant_of(annotation)
        if entrant is None:
            apart[reason] += 1
            continue
        if annotation.item_digest is not None and annotation.item_digest != item_digest(annotation.item_id):
            apart["changed item"] += 1
            continue
        given = by_prediction[AnswerKey.of(entrant, annotation.item_id)]
        if annotation.who not in given or annotation.replaces(given[annotation.who]):
            given[annotation.who] = annotation
    for given in by_prediction.values():
        if "" in given and any(label.annotator for label in given.values()):
            del given[""]  # it may be the same person's, imported once without the name
            apart["no name"] += 1
    return JoinedLabels(by_prediction, apart)


class _Index:
    """The predictions of a run, to be found by what an annotation says of them."""

    def __init__(self, votes: pl.DataFrame, ids: Mapping[Entrant, str]) -> None:
        self._ids = ids
        self._contents: dict[tuple[Entrant, str], int] = {}
        self._said: dict[tuple[str, int], list[Entrant]] = defaultdict(list)
        self._named: dict[str, list[Entrant]] = defaultdict(list)
        self._by_id: dict[str, list[Entrant]] = defaultdict(list)
        for names, rows in votes.group_by(ENTRANT, maintain_order=True):
            entrant = Entrant(*names)
            self._named[entrant.model].append(entrant)
            self._by_id[ids.get(entrant, entrant.model)].append(entrant)
            for item_id, content in rows.select("item_id", "content").iter_rows():
                self._contents[entrant, item_id] = content
                self._said[item_id, content].append(entrant)
        self._items = set(votes["item_id"])

    def entrant_of(self, annotation: Annotation) -> tuple[Entrant | None, str]:
        """Return the entrant of the annotated prediction, or None and the reason."""
        content = None if annotation.prediction_text is None else content_key(*annotation.prediction_text)
        meant = [
            candidate for candidate in self._meant(annotation) if (candidate, annotation.item_id) in self._contents
        ]
        if content is None:
            return (meant[0], "") if len(meant) == 1 else (None, self._why(annotation, meant))
        same = [candidate for candidate in meant if self._contents[candidate, annotation.item_id] == content]
        if not meant and annotation.model_id is None:  # what it said tells which model it is, by another name
            same = [
                candidate
                for candidate in self._said[annotation.item_id, content]
                if annotation.n_hints in (None, candidate.n_hints)
            ]
        if len(same) == 1:
            return same[0], ""
        return None, "another answer" if meant else self._why(annotation, meant)

    def _meant(self, annotation: Annotation) -> list[Entrant]:
        if annotation.model_id is not None:
            same = [entrant for entrant in self._by_id.get(annotation.model_id, ()) if _fits(annotation, entrant)]
            if same:
                return [entrant for entrant in same if entrant.model == annotation.model] or same
            from_files = (entrant for entrant in self._named.get(annotation.model, ()) if entrant not in self._ids)
            return [entrant for entrant in from_files if annotation.n_hints in (None, entrant.n_hints)]
        name, also = annotation.model, annotation.also or ""
        lists = self._named.get(name, ()), self._named.get(also, ()), self._by_id.get(name, ())
        fits = ([entrant for entrant in entrants if _fits(annotation, entrant)] for entrants in lists)
        return next(filter(None, fits), [])

    def _why(self, annotation: Annotation, meant: Sequence[Entrant]) -> str:
        if len(meant) > 1:
            return "several models"
        return "another item" if annotation.item_id not in self._items else "another model"


def _fits(annotation: Annotation, entrant: Entrant) -> bool:
    return annotation.provider in (None, entrant.provider) and annotation.n_hints in (None, entrant.n_hints)


def majority(marks: Sequence[bool]) -> bool | None:
    """Return the decision of most marks; None for a tie."""
    yes = sum(marks)
    return None if 2 * yes == len(marks) else 2 * yes > len(marks)


def count_ties(joined: JoinedLabels, metric: str) -> int:
    """Count the predictions that have no label because as many annotators say yes as no."""
    return sum(
        settled(None, people.values(), metric) is None
        for people in joined.by_prediction.values()
        if any(annotation.mark(metric) is not None for annotation in people.values())
    )


def settled(gold: bool | None, annotations: Iterable[Annotation], metric: str) -> bool | None:
    """Return the human label of one prediction: the majority of its annotators and the gold set.

    Adjudicated annotations override that majority.
    """
    ruled: list[bool] = []
    given = [] if gold is None else [gold]
    for annotation in annotations:
        if (mark := annotation.mark(metric)) is not None:
            (ruled if annotation.adjudicated else given).append(mark)
    return majority(ruled or given)


def with_annotations(votes: pl.DataFrame, labels: pl.DataFrame, joined: JoinedLabels, metric: str) -> pl.DataFrame:
    """Merge the labels of a gold set and of annotations, one for each prediction that has votes."""
    words = annotated_words(votes, labels, joined, metric)
    has_label = pl.col("correct").is_not_null() & (pl.col("gold").is_not_null() | (pl.col("total") > 0))
    unannotated = labels.join(words, on=PREDICTION, how="anti", maintain_order="left")
    return pl.concat([unannotated, words.filter(has_label).select(*LABELS)])


def annotated_words(votes: pl.DataFrame, gold: pl.DataFrame, joined: JoinedLabels, metric: str) -> pl.DataFrame:
    """The answers that people annotated as labels of their own, and what the ``gold`` set says of each; ``correct`` is
    null for a tie."""
    people = list(joined.by_prediction.values())
    gold_labels = gold.unique(PREDICTION, keep="last").select(*PREDICTION, gold="correct")
    mine = votes.join(joined.locations, on=AnswerKey._fields, maintain_order="left")
    mine = mine.join(gold_labels, on=PREDICTION, how="left", maintain_order="left")
    words = [settled(word, people[at].values(), metric) for word, at in mine.select("gold", "about").iter_rows()]
    return mine.with_columns(correct=pl.Series(words, dtype=pl.Boolean))
