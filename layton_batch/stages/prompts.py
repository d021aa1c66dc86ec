"""Subjects of judges' requests: the answers before a jury, and the turns of its judges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import polars as pl

from layton_batch.files import tables
from layton_batch.manifest.form import IN_TURN_SEATS
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.records import Job, Prediction
from layton_batch.runs.context import Run
from layton_batch.scoring.evidence import third_judge
from layton_batch.states import PredictionKind, Role
from layton_batch.tasks.protocol import Candidate


def jury_in_turn(run: Run, predict_id: str | None) -> list[Job]:
    """Return the three jobs that judge a model's answers in turn, in the order of their judges' names; none if all
    judges are asked at once."""
    if not run.manifest.in_turn or predict_id is None:
        return []
    jury = [job for job in run.store.jobs(Role.JUDGE) if job.depends_on == predict_id]
    return sorted(jury, key=lambda job: job.spec.name) if len(jury) == IN_TURN_SEATS else []


def asked_items(run: Run, job: Job) -> Callable[[str], bool]:
    """Return what tells of an answered item whether the job asks about it by now."""
    jury = jury_in_turn(run, job.depends_on)
    if not jury:
        return lambda _item_id: True
    number = [other.id for other in jury].index(job.id)
    undecided = _undecided(run, jury)[number]
    return lambda item_id: third_judge(item_id) != number or item_id in undecided


def reopen_juries(run: Run) -> bool:
    """Have third judges be asked about the answers on which the other two differ, once both judged them."""
    moved = False
    predict_ids = [job.id for job in run.store.jobs(Role.PREDICT)] if run.manifest.in_turn else []
    for predict_id in predict_ids:
        jury = jury_in_turn(run, predict_id)
        parts = tuple(tables.made_from(run.folder.part("verdicts", job.id)) for job in jury)
        if not jury or not all(job.graded for job in jury) or run.decided_juries.get(predict_id) == parts:
            continue
        answered = _answered(run, predict_id)
        for job, undecided in zip(jury, _undecided(run, jury), strict=True):
            requests = run.store.known_requests(job.id)
            if (undecided & answered) - {request.item_id for request in requests if not request.retired}:
                run.store.ask_anew(job.id)
                moved = True
        run.decided_juries[predict_id] = parts
    return moved


def open_turns(run: Run, job: Job, answered: Collection[str] | None = None) -> frozenset[str]:
    """Return the items on which the job may have to judge third, because the other two have not both judged yet.

    ``answered``: the items that the judged model answered; None: those of its table.
    """
    jury = jury_in_turn(run, job.depends_on)
    if not jury:
        return frozenset()
    number = [other.id for other in jury].index(job.id)
    first = [other for other in jury if other.id != job.id]
    answered = _answered(run, str(job.depends_on)) if answered is None else set(answered)
    judged = [set(_verdicts(run, other)["item_id"].to_list()) for other in first]
    return frozenset(item_id for item_id in answered - (judged[0] & judged[1]) if third_judge(item_id) == number)


def _answered(run: Run, predict_id: str) -> set[str]:
    """Return the items of the run that a model answered."""
    part = run.folder.part("predictions", predict_id)
    if not part.exists():
        return set()
    kinds = tables.read_part(part, columns=["item_id", "kind"])
    answered = kinds.filter(pl.col("kind") == str(PredictionKind.ANSWERED))["item_id"]
    return {item_id for item_id in answered.to_list() if item_id in run.by_id}


def _undecided(run: Run, jury: Sequence[Job]) -> list[set[str]]:
    """Return for each judge of a jury the items on which it is third and the verdicts of the others differ."""
    verdicts = [_verdicts(run, job) for job in jury]
    fields = verdicts[0].columns[1:]
    undecided: list[set[str]] = [set() for _ in jury]
    for first, second in combinations(range(len(jury)), 2):
        number = sum(range(len(jury))) - first - second
        pairs = verdicts[first].join(verdicts[second], on="item_id", suffix="_second")
        agree = pl.all_horizontal((pl.col(name) == pl.col(f"{name}_second")).fill_null(value=False) for name in fields)
        items = pairs.filter(~agree)["item_id"].to_list()
        undecided[number] = {item_id for item_id in items if third_judge(item_id) == number}
    return undecided


def _verdicts(run: Run, job: Job) -> pl.DataFrame:
    """Return the item and the decisions of each verdict that the job brought, readable or not."""
    columns = ["item_id", *dict.fromkeys(METRIC_FIELDS.get(metric, metric) for metric in run.task.metrics)]
    part = run.folder.part("verdicts", job.id)
    return tables.read_part(part, columns=columns) if part.exists() else tables.frame("verdicts", []).select(columns)


_COLUMNS = ("item_id", "model", "kind", "answer", "justification")


def candidates(run: Run, job: Job, answers: Iterable[Prediction] | None = None) -> Iterator[Candidate]:
    """Yield the answers that the job's judge is asked about, an item once. Leave out items that a revision took out
    since the answers were graded.

    ``answers``: of the participant's job that this one waits for; None: those of its table.
    """
    judged = answers if answers is not None else stored_predictions(run, str(job.depends_on))
    asks = asked_items(run, job)
    for prediction in _gold_answers(run, job, answers) if job.role is Role.REJUDGE else judged:
        is_there = prediction.kind is PredictionKind.ANSWERED and prediction.item_id in run.by_id
        if is_there and asks(prediction.item_id):
            yield Candidate(run.item(prediction.item_id), prediction)


def stored_predictions(run: Run, predict_id: str) -> Iterator[Prediction]:
    """Yield one model's predictions, item by item in their order, without the raw text."""
    return read_predictions(run.folder.part("predictions", predict_id))


def read_predictions(part: Path) -> Iterator[Prediction]:
    """Yield the predictions in a part of the table, without the raw text. Raises DamagedTableError."""
    for portion in tables.read_portions(part, _COLUMNS):
        for item_id, model, kind, answer, justification in portion.iter_rows():
            yield Prediction(item_id, model, PredictionKind(kind), answer, justification)


def _gold_answers(run: Run, job: Job, answers: Iterable[Prediction] | None) -> Iterator[Prediction]:
    """Yield the labelled answers of the gold set, without ``answers`` that the same model gave in this run too: the
    jury judges them there, but for anchors. Yield nothing if the gold set is another one by now."""
    rejudged = run.rejudging.get(job.id)
    if rejudged is None:
        return
    own = stored_predictions(run, rejudged.own) if answers is None and rejudged.own else answers or ()
    judged = {(prediction.item_id, prediction.answer, prediction.justification) for prediction in own}
    for labelled in rejudged.rows.select("item_id", "answer", "justification").iter_rows():
        if labelled not in judged:
            item_id, answer, justification = labelled
            yield Prediction(item_id, rejudged.judged.name, PredictionKind.ANSWERED, answer, justification)
