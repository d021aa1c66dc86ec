"""One submission graded: its document as ``grade`` publishes it, and what became of every item, for boards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from layton_batch.errors import DataError
from layton_batch.grading.one_file import Row
from layton_batch.grading.submissions import Submission
from layton_batch.records import JsonValue
from layton_batch.states import PredictionKind

if TYPE_CHECKING:
    from layton_batch.tasks.mcq_idk_rules.bring_your_own import GradedRow, GradeReport
    from layton_batch.tasks.mcq_idk_rules.metrics import Estimate
    from layton_batch.tasks.zebralogic_rules.grading import GridGrade

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an item: its mark (None: outside the score), a kind of ``PredictionKind``, and for what is not
    right the failure."""

    mark: float | None
    kind: str
    failure: str | None


@dataclass(slots=True)
class Graded:
    """A model's predictions, graded. ``document``: in the published form, None for the mean of several rounds.

    ``asked``: by item, something that differs where the questions do; empty where all models are graded by one file.
    ``tokens``: of the predictions that say what they took. ``mcq``: what its tables and charts are made of.
    """

    name: str
    where: str
    provider: str
    document: Mapping[str, JsonValue] | None
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    asked: dict[str, object] = field(default_factory=dict)
    twice: str | None = None
    tokens: list[float] = field(default_factory=list)
    n_rows: int = 0
    mcq: GradeReport | None = None
    totals: Mapping[str, Estimate] | None = None

    def add(self, note: _Note, outcome: Outcome) -> None:
        """One prediction; an item that was there before is remembered as such."""
        if note.item_id in self.outcomes:
            self.twice = self.twice or note.item_id
        self.n_rows += 1
        self.outcomes[note.item_id] = outcome
        if note.asked is not None:
            self.asked[note.item_id] = note.asked
        if note.tokens is not None:
            self.tokens.append(note.tokens)


def grade(
    task: str, one: Submission, items: Sequence[Row] | None, protocol: str, metric: str, sink: Sink | None = None
) -> Graded:
    """Grade a submission by its own items, else by ``items``, else by the gold its rows carry. ``sink`` is rome's.

    Raises DataError naming the submission and the row that is wrong.
    """
    found = Graded(one.name, one.where, one.provider, None)
    if one.totals is not None:
        return _as_published(found, one)
    try:
        gold = one.items() if one.items is not None else items
        _GRADERS[task](found, one, gold, protocol, metric, sink)
    except DataError as error:
        told = str(error)
        raise DataError(told if one.where in told else f"{one.where}: {told}") from error
    if items is not None and one.items is None:
        found.asked = {}
    return found


# ---- rows on their way ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Note:
    """What a board needs of a prediction beside its grade."""

    item_id: str
    asked: object
    ending: str | None
    is_missing: bool
    tokens: float | None


class _Watch:
    """Passes rows on and keeps a note of each."""

    def __init__(self, rows: Iterable[Row], ids: Sequence[str], gold: Sequence[str]) -> None:
        self._rows, self._ids, self._gold = rows, ids, gold
        self.notes: list[_Note] = []

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.notes.append(self._note(row))
            yield row

    def _note(self, row: Row) -> _Note:
        item_id = next((str(row[name]) for name in self._ids if row.get(name) is not None), "")
        of_set = row.get("set")
        ending = row.get("finish_reason")
        return _Note(
            item_id=f"{of_set}:{item_id}" if isinstance(of_set, str) and of_set else item_id,
            asked=self._asked(row),
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


def _mcq(
    found: Graded, one: Submission, items: Sequence[Row] | None, protocol: str, metric: str, sink: Sink | None
) -> None:
    from layton_batch.tasks.mcq_idk_rules.bring_your_own import grade_rows

    watch = _Watch(one.rows(), ("item_id", "id", "sample_id"), ("gold", "n_options"))
    report = grade_rows(items, watch, protocol)
    for note, row in zip(watch.notes, report.rows, strict=True):
        found.add(note, _mcq_outcome(note, row, metric))
    found.mcq = report
    found.document = {**report.to_json(), "abstention": report.abstention()}


def _mcq_outcome(note: _Note, row: GradedRow, metric: str) -> Outcome:
    mark, outcome = float(row.marks.as_dict()[metric]), str(row.marks.outcome)
    if note.is_missing:
        return Outcome(mark, _MISSING, _MISSING)
    if row.marks.extract_fail:
        return Outcome(mark, _UNPARSED, note.ending or outcome)
    kind = str(PredictionKind.ABSTAINED) if row.marks.idk_freq else _ANSWERED
    return Outcome(mark, kind, None if row.marks.trad_score else outcome)


def _zebra(
    found: Graded, one: Submission, items: Sequence[Row] | None, protocol: str, metric: str, sink: Sink | None
) -> None:
    from layton_batch.tasks.zebralogic_rules.bring_your_own import grade_rows

    watch = _Watch(one.rows(), ("id",), ("solution",))
    report = grade_rows(items, watch, protocol)
    for note, (_, grid) in zip(watch.notes, report.rows, strict=True):
        found.add(note, _zebra_outcome(note, grid, metric))
    found.document = report.to_json()


def _zebra_outcome(note: _Note, grid: GridGrade, metric: str) -> Outcome:
    from layton_batch.tasks.zebralogic_rules.tags import INFRASTRUCTURE, Tag

    if grid.tag in INFRASTRUCTURE:
        return Outcome(None, _MISSING, grid.tag.value)
    mark = grid.score if metric == "puzzle_accuracy" else grid.cell_accuracy or 0.0
    if grid.tag is Tag.NONE:
        return Outcome(mark, _ANSWERED, None)
    return Outcome(mark, _ANSWERED if grid.tag is Tag.WRONG_ANSWER else _UNPARSED, grid.tag.value)


def _rome(
    found: Graded, one: Submission, items: Sequence[Row] | None, protocol: str, metric: str, sink: Sink | None
) -> None:
    from layton_batch.tasks.rome_rules.bring_your_own import grade_rows

    watch = _Watch(one.rows(), ("question_id",), ("evaluator_kwargs",))

    def take(row: Row) -> None:
        note = watch.notes.pop()  # graded as they come, one at a time
        found.add(note, _rome_outcome(note, row))
        if sink is not None:
            sink(row)

    found.document = grade_rows(items, watch, protocol, sink=take).to_json()


def _rome_outcome(note: _Note, row: Row) -> Outcome:
    score, read = row.get("correct"), row.get("answer")
    mark = float(score) if isinstance(score, int | float) else 0.0
    if mark > 0:
        return Outcome(mark, _ANSWERED, "coarse_location" if mark < 1 else None)
    if note.is_missing:
        return Outcome(mark, _MISSING, _MISSING)
    if "error" in row:
        return Outcome(mark, _UNPARSED, "ungradable")
    if not isinstance(read, str) or not read.strip():
        return Outcome(mark, _UNPARSED, note.ending or "no_answer")
    return Outcome(mark, _ANSWERED, "wrong_answer")


_Grader = Callable[[Graded, Submission, Sequence[Row] | None, str, str, Sink | None], None]
_GRADERS: Mapping[str, _Grader] = {"mcq_idk": _mcq, "zebralogic": _zebra, "rome": _rome}


# ---- rounds --------------------------------------------------------------------------------------------------------


def by_model(found: Sequence[Graded]) -> dict[str, list[Graded]]:
    """The rounds of each model, in the order of their first."""
    models: dict[str, list[Graded]] = {}
    for one in found:
        models.setdefault(one.name, []).append(one)
    return models


def averaged(rounds: Sequence[Graded]) -> Graded:
    """A model over its rounds: the mean mark of every item that all of them have; it failed as in the first round that
    it did not get right. Raises DataError for rounds without a common item, and for an item twice in one of them."""
    if len(rounds) == 1:
        return rounds[0]
    for one in rounds:
        check_once(one)
    first = rounds[0]
    shared = [item for item in first.outcomes if all(item in one.outcomes for one in rounds[1:])]
    if not shared:
        raise DataError(f"model {first.name!r}: its rounds have no item in common")
    merged = Graded(first.name, ", ".join(one.where for one in rounds), first.provider, None, asked=first.asked)
    for item in shared:
        merged.outcomes[item] = _mean([one.outcomes[item] for one in rounds])
    merged.n_rows = sum(one.n_rows for one in rounds)
    return merged


def _mean(outcomes: Sequence[Outcome]) -> Outcome:
    worst = next((one for one in outcomes if one.failure is not None), outcomes[0])
    marks = [one.mark for one in outcomes if one.mark is not None]
    return Outcome(sum(marks) / len(marks) if marks else None, worst.kind, worst.failure)


def check_once(one: Graded) -> None:
    """Raises DataError for a model with several predictions of one item: which of them to rank by?"""
    if one.twice is not None:
        raise DataError(f"{one.where}: item {one.twice!r} is there twice; a board needs one prediction an item")
