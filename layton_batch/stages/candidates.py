"""What a job's judge is asked about: what a model of this run answered, or labelled answers of the gold set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from layton_batch.files import tables
from layton_batch.records import Job, Prediction
from layton_batch.runs.context import Run
from layton_batch.stages.turns import asked_items
from layton_batch.states import PredictionKind, Role
from layton_batch.tasks.protocol import Candidate

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
