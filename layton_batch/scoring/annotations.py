"""Annotations: people's labels without jury columns, a row for each annotator and prediction.

They join the predictions of a run by model, item and hint level, and by what was said where a row has that. Of several
labels of one annotator on one prediction the latest counts, of several annotators the majority; a tie is no label.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl

from layton_batch.errors import DataError
from layton_batch.files.csv_rows import ENDINGS
from layton_batch.files.sources import Place, Row, Rows, with_text_id
from layton_batch.scoring.evidence import ENTRANT, LABELS, PREDICTION, VOTES, Entrant, content_key
from layton_batch.scoring.propensity import propensity_of

_ITEM = ("item_id", "riddle_id")
_HINTS = ("n_hints", "hints")
_ANSWER = ("answer_correct", "is_answer_correct", "human_answer_correct")
_JUSTIFICATION = ("justification_correct", "is_justification_correct", "human_justification_correct")
_BOTH = ("both_correct", "overall_correct", "human_both_correct")
_TIME = ("time", "labelled_at")
_NOTE = ("note", "notes")
_SPREADSHEET = {"true": True, "false": False}
"""CSV has no truth values but these words."""
_SOURCE_FILE = re.compile(r"[^_]+_(?P<provider>[^_]+)_(?P<model>[^_]+)_.*hints_(?P<hints>\d+)(?P<rest>.*)")
"""How layton-eval's annotation files name where a prediction is: their tools take the model's name out of it."""

Prediction = tuple[Entrant, str]
_PLACE = (*ENTRANT, "item_id")


@dataclass(frozen=True, slots=True)
class Annotation:
    """What one person says of one prediction. None: the row does not say; ``said``: its answer and justification.

    ``source_file``: where layton-eval's tools had the prediction from; ``adjudicated``: it settles what annotators
    disagree on, whatever the majority says; ``propensity``: the chance with which it was picked to be labelled.
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
    said: tuple[str, str | None] | None = None
    source_file: str | None = None
    note: str = ""
    adjudicated: bool = False
    propensity: float | None = None

    @property
    def about(self) -> tuple[object, ...]:
        """Who speaks about what: a later annotation about the same takes the place of an earlier."""
        where = self.item_id, self.model, self.provider, self.n_hints, self.said, self.source_file
        return (self.who, *where)

    @property
    def who(self) -> str:
        """The annotator; whoever settles what people disagree on is told apart from the same person before."""
        return f"{self.annotator} (adjudicated)" if self.adjudicated else self.annotator

    @property
    def also(self) -> str | None:
        """What layton-eval's tools call the model."""
        named = _SOURCE_FILE.fullmatch(self.source_file or "")
        return named["model"] + ("_thinking_32k" if "thinking_32k" in named["rest"] else "") if named else None

    def mark(self, metric: str) -> bool | None:
        """The label on a metric; None: there is none."""
        return {
            "answer_correct": self.answer_correct,
            "justification_correct": self.justification_correct,
            "both_correct": self.both_correct,
        }.get(metric)

    def replaces(self, earlier: Annotation) -> bool:
        """Whether this one, which was read later, counts instead: unless both have times that say otherwise."""
        return self.time is None or earlier.time is None or _moment(self.time) >= _moment(earlier.time)


@dataclass(frozen=True, slots=True)
class Joined:
    """Annotations beside predictions: by prediction and ``Annotation.who``; ``apart``: how many belong to none, by
    reason."""

    by_prediction: Mapping[Prediction, Mapping[str, Annotation]]
    apart: Mapping[str, int] = field(default_factory=dict)

    @property
    def places(self) -> pl.DataFrame:
        """Whose answers to which items they are about, with their number in ``by_prediction``, ``about``."""
        names = [(who.model, who.provider, who.n_hints, item_id) for who, item_id in self.by_prediction]
        return pl.DataFrame(names, schema={name: VOTES[name] for name in _PLACE}, orient="row").with_row_index("about")


# ---- reading -------------------------------------------------------------------------------------------------------


def parse_annotations(rows: Rows) -> list[Annotation]:
    """Rows as annotations, in order. Raises DataError naming file and line of the first row that is none."""
    return [parse_annotation(row, place) for row, place in zip(rows.rows, rows.places, strict=True)]


def parse_annotation(row: Row, place: Place) -> Annotation:
    """One row. Raises DataError naming file, line and column."""
    answer, justification, both = (_truth(row, names, place) for names in (_ANSWER, _JUSTIFICATION, _BOTH))
    if answer is None and justification is None and both is None:
        raise DataError(
            f"{place}: has no label: column 'answer_correct' or 'justification_correct' must be true or false"
        )
    if answer is not None and justification is not None:
        if both is not None and both != (answer and justification):
            raise DataError(f"{place}: {_named(row, _BOTH)!r} contradicts the labels of answer and justification")
        both = answer and justification
    source_file = _optional_text(row, ("source_file",), place)
    named = _SOURCE_FILE.fullmatch(source_file or "")
    hints = _hints(row, place)
    text = _optional_text(row, ("answer",), place)
    return Annotation(
        item_id=_text(with_text_id(row, _named(row, _ITEM)), _ITEM, place),
        model=_text(row, ("model",), place),
        answer_correct=answer,
        justification_correct=justification,
        both_correct=both,
        provider=_optional_text(row, ("provider",), place) or None,
        n_hints=int(named["hints"]) if hints is None and named else hints,
        annotator=_optional_text(row, ("annotator",), place) or "",
        time=_time(row, place),
        said=None if text is None else (text, _optional_text(row, ("justification",), place)),
        source_file=source_file,
        note=next((said for name in _NOTE if isinstance(said := row.get(name), str) and said.strip()), ""),
        adjudicated=_truth(row, ("adjudicated",), place) is True,
        propensity=propensity_of(row, place),
    )


def annotation_row(one: Annotation) -> dict[str, object]:
    """An annotation in the form it is kept in, less what it does not say."""
    row: dict[str, object] = {
        "item_id": one.item_id,
        "model": one.model,
        "provider": one.provider,
        "n_hints": one.n_hints,
        "answer_correct": one.answer_correct,
        "justification_correct": one.justification_correct,
        "both_correct": one.both_correct,
        "annotator": one.annotator or None,
        "time": one.time,
        "source_file": one.source_file,
        "note": one.note or None,
        "adjudicated": one.adjudicated or None,
        "propensity": one.propensity,
    }
    if one.said is not None:
        row |= {"answer": one.said[0], "justification": one.said[1]}
    return {name: value for name, value in row.items() if value is not None}


def _named(row: Row, names: Sequence[str]) -> str:
    """The first of a column's names that the row has a value under, else its first name."""
    return next((name for name in names if row.get(name) is not None), names[0])


def _truth(row: Row, names: Sequence[str], place: Place) -> bool | None:
    name = _named(row, names)
    value = row.get(name)
    if isinstance(value, str) and place.file.endswith(ENDINGS):
        value = _SPREADSHEET.get(value.strip().lower(), value)
    if value is not None and not isinstance(value, bool):
        raise DataError(f"{place}: column {name!r} must be true, false or null, not {value!r:.60}")
    return value


def _text(row: Row, names: Sequence[str], place: Place) -> str:
    value = _optional_text(row, names, place)
    if not value:
        raise DataError(f"{place}: column {_named(row, names)!r} must be text, not {row.get(_named(row, names))!r:.60}")
    return value


def _optional_text(row: Row, names: Sequence[str], place: Place) -> str | None:
    name = _named(row, names)
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{place}: column {name!r} must be text or null, not {value!r:.60}")
    return value


def _hints(row: Row, place: Place) -> int | None:
    name = _named(row, _HINTS)
    value = row.get(name)
    if isinstance(value, str) and place.file.endswith(ENDINGS) and value.isdecimal():
        value = int(value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise DataError(f"{place}: column {name!r} must be a whole number, 0 or more, not {value!r:.60}")
    return value


def _time(row: Row, place: Place) -> str | None:
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
    raise DataError(f"{place}: column {name!r} must be a time such as 2026-11-23T09:30:00Z, not {value!r:.60}")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# ---- beside predictions --------------------------------------------------------------------------------------------


def latest(annotations: Iterable[Annotation]) -> dict[tuple[object, ...], Annotation]:
    """What stands of annotations in the order they were read, by who says it about what."""
    standing: dict[tuple[object, ...], Annotation] = {}
    for one in annotations:
        earlier = standing.get(one.about)
        if earlier is None or one.replaces(earlier):
            standing[one.about] = one
    return standing


def join(annotations: Iterable[Annotation], votes: pl.DataFrame, ids: Mapping[Entrant, str]) -> Joined:
    """Each annotation beside the prediction it is about. ``ids``: what entrants are called at their provider."""
    found: dict[Prediction, dict[str, Annotation]] = defaultdict(dict)
    apart: Counter[str] = Counter()
    index = _Index(votes, ids)
    for one in annotations:
        entrant, reason = index.entrant_of(one)
        if entrant is None:
            apart[reason] += 1
            continue
        given = found[entrant, one.item_id]
        if one.who not in given or one.replaces(given[one.who]):
            given[one.who] = one
    return Joined(found, apart)


class _Index:
    """The predictions of a run, to be found by what an annotation says of them."""

    def __init__(self, votes: pl.DataFrame, ids: Mapping[Entrant, str]) -> None:
        self._contents: dict[Prediction, int] = {}
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

    def entrant_of(self, one: Annotation) -> tuple[Entrant | None, str]:
        """Whose prediction it is about, or None and why."""
        content = None if one.said is None else content_key(*one.said)
        meant = [who for who in self._meant(one) if (who, one.item_id) in self._contents]
        if content is None:
            return (meant[0], "") if len(meant) == 1 else (None, self._why(one, meant))
        same = [who for who in meant if self._contents[who, one.item_id] == content]
        if not meant:  # the model goes by another name here; what it said tells which it is
            same = [who for who in self._said[one.item_id, content] if one.n_hints in (None, who.n_hints)]
        if len(same) == 1:
            return same[0], ""
        return None, "another answer" if meant else self._why(one, meant)

    def _meant(self, one: Annotation) -> list[Entrant]:
        lists = (self._named.get(one.model), self._named.get(one.also or ""), self._by_id.get(one.model))
        fits = ([who for who in found or () if _fits(one, who)] for found in lists)
        return next((found for found in fits if found), [])

    def _why(self, one: Annotation, meant: Sequence[Entrant]) -> str:
        if len(meant) > 1:
            return "several models"
        return "another item" if one.item_id not in self._items else "another model"


def _fits(one: Annotation, who: Entrant) -> bool:
    return one.provider in (None, who.provider) and one.n_hints in (None, who.n_hints)


def majority(marks: Sequence[bool]) -> bool | None:
    """What most say; None where as many say yes as no."""
    yes = sum(marks)
    return None if 2 * yes == len(marks) else 2 * yes > len(marks)


def settled(gold: bool | None, given: Iterable[Annotation], metric: str) -> bool | None:
    """People's word on one prediction: the majority of its annotators, the gold set one of them, unless somebody
    adjudicated."""
    given = list(given)
    ruled = [mark for one in given if one.adjudicated and (mark := one.mark(metric)) is not None]
    if ruled:
        return majority(ruled)
    marks = [mark for one in given if not one.adjudicated and (mark := one.mark(metric)) is not None]
    return majority([*marks, *([] if gold is None else [gold])])


def with_annotations(votes: pl.DataFrame, labels: pl.DataFrame, joined: Joined, metric: str) -> pl.DataFrame:
    """The labels of a gold set and those of annotations, one for each prediction. What has no votes has none."""
    words = annotated_words(votes, labels, joined, metric)
    has_label = pl.col("correct").is_not_null() & (pl.col("gold").is_not_null() | (pl.col("total") > 0))
    others = labels.join(words, on=PREDICTION, how="anti", maintain_order="left")
    return pl.concat([others, words.filter(has_label).select(*LABELS)])


def annotated_words(votes: pl.DataFrame, gold: pl.DataFrame, joined: Joined, metric: str) -> pl.DataFrame:
    """The answers that people annotated as labels of their own, and what the ``gold`` set says of each; ``correct`` is
    null for a tie."""
    people = list(joined.by_prediction.values())
    known = gold.unique(PREDICTION, keep="last").select(*PREDICTION, gold="correct")
    mine = votes.join(joined.places, on=_PLACE, maintain_order="left")
    mine = mine.join(known, on=PREDICTION, how="left", maintain_order="left")
    words = [settled(word, people[at].values(), metric) for word, at in mine.select("gold", "about").iter_rows()]
    chances = [next((one.propensity for one in given.values() if one.propensity is not None), None) for given in people]
    return mine.with_columns(
        correct=pl.Series(words, dtype=pl.Boolean),
        propensity=pl.Series([chances[at] for at in mine["about"]], dtype=pl.Float64),
    )
