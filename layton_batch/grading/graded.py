"""Grading one submission through its benchmark's form, row by row; and the mean of several rounds of one model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from layton_batch.errors import DataError
from layton_batch.grading.submissions import Submission
from layton_batch.records import Item
from layton_batch.tasks.offline import FileRow, GradedModel, GradedReply, OfflineForm, Outcome, RowsFile

_TOKENS = ("output_tokens", "completion_tokens", "tokens_used", "total_tokens", "tokens")
"""Columns of a prediction, or of its ``usage``, that say what it took; the first that is there counts."""
_ASKED = ("prompt_sha1", "asked", "query", "question", "puzzle")
"""Columns that say what was asked: items of one id that differ in them are not the same."""


def grade(
    one: Submission, items: Sequence[Item] | None, metric: str | None = None, updated: RowsFile | None = None
) -> GradedModel:
    """Grade a submission by its own items, else by ``items``, else by the gold its rows carry.

    ``metric``: by which a board will rank, item by item; without one, memory does not grow with the predictions. Raises
    DataError naming the submission and the row that is wrong.
    """
    found = GradedModel(one.name, one.where, one.provider, is_published=one.published is not None)
    report = found.report = one.published
    try:
        if report is None:
            own = one.items() if one.items is not None else items
            report = found.report = one.form.report(own, updated)
            for reply in one.form.graded(own, one.rows(), one.name):
                report.add(reply)
                _note(found, one.form, reply, metric)
        found.document = report.document()
    except DataError as error:
        told = str(error)
        raise DataError(told if one.where in told else f"{one.where}: {told}") from error
    if items is not None and one.items is None:
        found.asked = {}
    return found


def items_of(form: OfflineForm, rows: Sequence[FileRow]) -> Sequence[Item]:
    """A file of items. Raises DataError for what are no items."""
    try:
        return form.items(rows)
    except DataError as error:
        raise DataError(f"--items: {error}") from error


def _note(found: GradedModel, form: OfflineForm, reply: GradedReply, metric: str | None) -> None:
    """What a board and a chart need of a prediction beside its grade."""
    found.n_rows += 1
    tokens = _tokens(reply.row)
    if tokens is not None:
        found.tokens.append(tokens)
    if metric is None:
        return
    of_set = reply.row.get("set")
    name = f"{of_set}:{reply.item.id}" if isinstance(of_set, str) and of_set else reply.item.id
    if name in found.outcomes:
        found.twice = found.twice or name
    found.outcomes[name] = form.outcome(reply, metric)
    asked = _asked(reply.row, form.gold_columns)
    if asked is not None:
        found.asked[name] = asked


def _asked(row: FileRow, gold_columns: Iterable[str]) -> object:
    name = next((name for name in _ASKED if isinstance(row.get(name), str)), None)
    if name is not None:
        return name, hash(row[name])
    gold = [repr(row[name]) for name in gold_columns if row.get(name) is not None]
    return ("gold", hash(tuple(gold))) if gold else None


def _tokens(row: FileRow) -> float | None:
    usage = row.get("usage")
    for place in (row, usage if isinstance(usage, Mapping) else {}):
        for name in _TOKENS:
            value = place.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
                return float(value)
    return None


# ---- rounds --------------------------------------------------------------------------------------------------------


def by_model(found: Sequence[GradedModel]) -> dict[str, list[GradedModel]]:
    """The rounds of each model, in the order of their first."""
    models: dict[str, list[GradedModel]] = {}
    for one in found:
        models.setdefault(one.name, []).append(one)
    return models


def averaged(rounds: Sequence[GradedModel]) -> GradedModel:
    """A model over its rounds: the mean mark of every item that all of them have; it failed as in the first round that
    it did not get right. Raises DataError for rounds without a common item, and for an item twice in one of them."""
    if len(rounds) == 1:
        return rounds[0]
    for one in rounds:
        check_once(one)
    first = rounds[0]
    shared = list(_shared(rounds))
    if not shared:
        raise DataError(f"model {first.name!r}: its rounds have no item in common")
    outcomes = {item: _mean([one.outcomes[item] for one in rounds]) for item in shared}
    where, n_rows = ", ".join(one.where for one in rounds), sum(one.n_rows for one in rounds)
    return GradedModel(first.name, where, first.provider, outcomes=outcomes, asked=first.asked, n_rows=n_rows)


def _shared(rounds: Sequence[GradedModel]) -> Iterator[str]:
    return (item for item in rounds[0].outcomes if all(item in one.outcomes for one in rounds[1:]))


def _mean(outcomes: Sequence[Outcome]) -> Outcome:
    worst = next((one for one in outcomes if one.failure is not None), outcomes[0])
    marks = [one.mark for one in outcomes if one.mark is not None]
    return Outcome(sum(marks) / len(marks) if marks else None, worst.kind, worst.failure)


def check_once(one: GradedModel) -> None:
    """Raises DataError for a model with several predictions of one item: which of them to rank by?"""
    if one.twice is not None:
        raise DataError(f"{one.where}: item {one.twice!r} is there twice; a board needs one prediction an item")
