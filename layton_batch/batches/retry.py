"""Retry: one more attempt, on demand, for every request that ended without an answer."""

from __future__ import annotations

from layton_batch.batches.cancel import is_cancelled
from layton_batch.runs.context import Run
from layton_batch.states import AnswerState, Lifecycle
from layton_batch.store.orders import Order
from layton_batch.store.reopening import go_on, reopen

_ENDED = (AnswerState.FAILED, AnswerState.UNCERTAIN)


def retry_run(run: Run, order: Order | None = None) -> int:
    """Have another attempt planned at all requests without an answer, permanent errors included. Return how many there
    are.

    A cancelled run goes on. Nothing happens where a cancel took back the ``order`` of it meanwhile. Predictions that
    come in this way go before a jury like any other. What came from a file, or is larger than its provider takes, is
    left as it is.
    """
    was_cancelled = is_cancelled(run)  # a cancel that comes later stands
    batches = run.store.batches()
    sendable = {batch.id for batch in batches if batch.path}
    jobs: set[str] = set()
    answers: set[bytes] = set()
    unanswered = 0
    for job in run.store.jobs():
        for request in run.store.known_requests(job.id):
            if request.retired or request.fingerprint is None:
                continue
            if request.state in _ENDED and (request.run_id != run.id or request.batch_id in sendable):
                jobs.add(job.id)
                answers.add(request.answer)
                unanswered += 1
            elif request.state is AnswerState.WANTED and was_cancelled:
                unanswered += 1  # it is sent because the run goes on
    if was_cancelled:
        go_on(run.store, run.clock.now(), order)
    if answers or any(batch.state is Lifecycle.COLLECTED and batch.needs_person for batch in batches):
        detail = f"{unanswered} requests without an answer go again: a person asked for it"
        reopen(run.store, jobs, answers, run.clock.now(), detail, order)
    return unanswered
