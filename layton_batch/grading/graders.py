"""Grading one submission by its benchmark's rules. Predictions are read one by one, and none is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from layton_batch.errors import DataError
from layton_batch.grading import third_party
from layton_batch.grading.graded import GradeConfig, Graded, Note, Outcome
from layton_batch.grading.one_file import Row
from layton_batch.grading.submissions import Submission
from layton_batch.records import JsonValue
from layton_batch.states import PredictionKind

if TYPE_CHECKING:
    from layton_batch.tasks.mcq_idk_rules.offline import GradedRow

Sink = Callable[[Row], None]

TRUNCATED, REFUSED = "truncated", "refused"
_ENDINGS = {
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", TRUNCATED), TRUNCATED),
    **dict.fromkeys(("refusal", "content_filter", "safety"), REFUSED),
}
_TOKENS = ("output_tokens", "completion_tokens", "tokens_used", "total_tokens", "tokens")
"""Columns of a prediction, or of its ``usage``, that say what it took; the first that is there counts."""
_ASKED = ("prompt_sha1", "asked", "query", "question", "puzzle")
"""Columns that say what was asked: items of one id that differ in them are not the same."""
_ANSWERED, _UNPARSED, _MISSING = map(str, (PredictionKind.ANSWERED, PredictionKind.UNPARSED, PredictionKind.MISSING))


def grade(config: GradeConfig, one: Submission, items: Sequence[Row] | None, sink: Sink | None = None) -> Graded:
    """Grade a submission by its own items, else by ``items``, else by the gold its rows carry. ``sink`` is rome's.

    Raises DataError naming the submission and the row that is wrong.
    """
    found = Graded(one.name, one.where, one.provider, None)
    if one.totals is not None:
        return _as_published(found, one)
    try:
        gold = one.items() if one.items is not None else items
        _GRADERS.get(config.task, _third_party)(found, one, gold, config, sink)
    except DataError as error:
        told = str(error)
        raise DataError(told if one.where in told else f"{one.where}: {told}") from error
    if items is not None and one.items is None:
        found.asked = {}
    return found


# ---- rows on their way ---------------------------------------------------------------------------------------------


class _Watch:
    """Passes rows on, and has a note of the last one: rows are graded as they come, one at a time."""

    def __init__(
        self, found: Graded, config: GradeConfig, rows: Iterable[Row], ids: Sequence[str], gold: Sequence[str] = ()
    ) -> None:
        self._found, self._config, self._rows, self._ids, self._gold = found, config, rows, ids, gold
        self.note = Note("", None, None, False, None)

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.note = self._note(row)
            yield row

    def take(self, outcome: Outcome) -> None:
        """What became of the last row."""
        self._found.count(self.note)
        if self._config.board:
            self._found.add(self.note, outcome)

    def _note(self, row: Row) -> Note:
        item_id = next((str(row[name]) for name in self._ids if row.get(name) is not None), "")
        of_set = row.get("set")
        ending = row.get("finish_reason")
        return Note(
            item_id=f"{of_set}:{item_id}" if isinstance(of_set, str) and of_set else item_id,
            asked=self._asked(row) if self._config.board else None,
            ending=_ENDINGS.get(ending.strip().lower()) if isinstance(ending, str) else None,
            is_missing=row.get("is_missing") is True,
            tokens=_tokens(row),
        )

    def _asked(self, row: Row) -> object:
        name = next((name for name in _ASKED if isinstance(row.get(name), str)), None)
        if name is not None:
            return name, hash(row[name])
        gold = [repr(row[name]) for name in self._gold if row.get(name) is not None]
        return ("gold", hash(tuple(gold))) if gold else None


def _tokens(row: Row) -> float | None:
    usage = row.get("usage")
    for place in (row, usage if isinstance(usage, Mapping) else {}):
        for name in _TOKENS:
            value = place.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
                return float(value)
    return None


# ---- by benchmark --------------------------------------------------------------------------------------------------


def _as_published(found: Graded, one: Submission) -> Graded:
    if one.totals is None:
        return found
    found.totals = one.totals.estimates
    metrics: dict[str, JsonValue] = {
        name: {"mean": value.mean, "se": value.se} for name, value in one.totals.estimates.items()
    }
    found.document = {"metrics": metrics, "n": None, "rows": []}
    return found


def _mcq(found: Graded, one: Submission, items: Sequence[Row] | None, config: GradeConfig, sink: Sink | None) -> None:
    from layton_batch.tasks.mcq_idk_rules.offline import grade_rows

    watch = _Watch(found, config, one.rows(), ("item_id", "id", "sample_id"), ("gold", "n_options"))
    rows: list[GradedRow] = []

    def take(row: GradedRow) -> None:
        watch.take(_mcq_outcome(watch.note, row, config.metric))
        if config.rows:
            rows.append(row)

    report = replace(grade_rows(items, watch, config.protocol or "", sink=take), rows=tuple(rows))
    found.mcq = report
    found.document = {**report.to_json(), "abstention": report.abstention()}


def _mcq_outcome(note: Note, row: GradedRow, metric: str) -> Outcome:
    mark, outcome = float(row.marks.as_dict()[metric]), str(row.marks.outcome)
    if note.is_missing:
        return Outcome(mark, _MISSING, _MISSING)
    if row.marks.extract_fail:
        return Outcome(mark, _UNPARSED, note.ending or outcome)
    kind = str(PredictionKind.ABSTAINED) if row.marks.idk_freq else _ANSWERED
    return Outcome(mark, kind, None if row.marks.trad_score else outcome)


def _zebra(found: Graded, one: Submission, items: Sequence[Row] | None, config: GradeConfig, sink: Sink | None) -> None:
    from layton_batch.tasks.zebralogic_rules.offline import grade_rows
    from layton_batch.tasks.zebralogic_rules.zeroeval_samples import BEST_OF_N

    watch = _Watch(found, config, one.rows(), ("id",), ("solution",))
    rows: list[JsonValue] = []

    def take(row: Row) -> None:
        watch.take(_zebra_outcome(row, config.metric))
        if config.rows:
            rows.append(row)

    report = grade_rows(items, watch, config.protocol or "", samples=config.samples or BEST_OF_N, sink=take)
    asked: dict[str, JsonValue] = {} if config.samples is None else {"samples": config.samples}
    found.document = {**report.to_json(), **asked, "rows": rows}


def _zebra_outcome(row: Row, metric: str) -> Outcome:
    from layton_batch.tasks.zebralogic_rules.tags import INFRASTRUCTURE, Tag

    tag = Tag(str(row["tag"]))
    if tag in INFRASTRUCTURE:
        return Outcome(None, _MISSING, tag.value)
    mark = _number(row["score" if metric == "puzzle_accuracy" else "cell_accuracy"])
    if tag is Tag.NONE:
        return Outcome(mark, _ANSWERED, None)
    return Outcome(mark, _ANSWERED if tag is Tag.WRONG_ANSWER else _UNPARSED, tag.value)


def _rome(found: Graded, one: Submission, items: Sequence[Row] | None, config: GradeConfig, sink: Sink | None) -> None:
    from layton_batch.tasks.rome_rules.offline import grade_rows

    watch = _Watch(found, config, one.rows(), ("question_id",), ("evaluator_kwargs",))

    def take(row: Row) -> None:
        watch.take(_rome_outcome(watch.note, row))
        if sink is not None:
            sink(row)

    found.document = grade_rows(items, watch, config.protocol or "", sink=take)


def _rome_outcome(note: Note, row: Row) -> Outcome:
    mark, read = _number(row.get("correct")), row.get("answer")
    if mark > 0:
        return Outcome(mark, _ANSWERED, "coarse_location" if mark < 1 else None)
    if note.is_missing:
        return Outcome(mark, _MISSING, _MISSING)
    if "error" in row:
        return Outcome(mark, _UNPARSED, "ungradable")
    if not isinstance(read, str) or not read.strip():
        return Outcome(mark, _UNPARSED, note.ending or "no_answer")
    return Outcome(mark, _ANSWERED, "wrong_answer")


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _third_party(
    found: Graded, one: Submission, rows: Sequence[Row] | None, config: GradeConfig, sink: Sink | None
) -> None:
    """A task that an entry point adds, by its own words."""
    task = third_party.load(config.task, config.protocol, one.split, one.settings)
    items = third_party.items_of(task, rows) if one.made is None else one.made()
    watch = _Watch(found, config, one.rows(), ("item_id", "id"))
    totals = third_party.Totals(task.metrics)
    kept: list[JsonValue] = []
    for prediction, graded in third_party.graded(task, items, watch, one.name):
        watch.take(Outcome(float(graded.marks[config.metric]), str(prediction.kind), graded.tag))
        totals.add(graded.marks)
        if config.rows:
            kept.append(third_party.row_of(graded))
    found.document = {"metrics": totals.to_json(), "n": totals.n, "rows": kept}


_Grader = Callable[[Graded, Submission, Sequence[Row] | None, GradeConfig, Sink | None], None]
_GRADERS: Mapping[str, _Grader] = {"mcq_idk": _mcq, "zebralogic": _zebra, "rome": _rome}
