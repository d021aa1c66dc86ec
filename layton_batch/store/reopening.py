"""Retry: one more attempt, on demand, for every request that ended without an answer. A cancelled run goes on."""

from __future__ import annotations

from sqlalchemy import and_, or_, select, update

from layton_batch.states import AnswerState, JobState
from layton_batch.store import request_rows, schema
from layton_batch.store.run_store import RunStore

_ENDED = (AnswerState.FAILED, AnswerState.UNCERTAIN)


def retry(store: RunStore, at: float) -> int:
    """Have another attempt planned at all requests without an answer, permanent errors included. Return how many there
    are.

    A cancelled run goes on, and what was collected waits for a person no more. All of it is one transaction, whoever
    drives the run meanwhile: its next step finds what is wanted. Predictions that come in this way go before a jury
    like any other. What came from a file, or is larger than its provider takes, is left as it is. Of a model that the
    manifest no longer has, what waited for a person may be asked again by whoever wants it.
    """
    runs, jobs, requests = schema.runs.c, schema.jobs.c, schema.requests.c
    answers, batches = schema.answers.c, schema.batches.c
    has_ended = and_(answers.state.in_(_ENDED), or_(batches.run_id != store.run_id, batches.path != ""))
    unanswered = (
        select(jobs.job_id, requests.answer, answers.state, jobs.retired)
        .join_from(schema.requests, schema.jobs, jobs.key == requests.job)
        .join(schema.answers, answers.fingerprint == requests.answer)
        .outerjoin(schema.batches, batches.key == answers.batch)
        .where(jobs.run_id == store.run_id, ~requests.retired, requests.fingerprint.is_not(None))
        .where(or_(~jobs.retired, batches.needs_person))
        .where(or_(answers.state == AnswerState.WANTED, has_ended))
    )
    with store.writing() as writing:
        connection = writing.connection
        was_cancelled = bool(connection.scalar(select(runs.cancelled).where(runs.run_id == store.run_id)))
        ended = connection.execute(unanswered).all()
        rows = [row for row in ended if not row.retired]
        again = [row for row in rows if row.state in _ENDED]
        if was_cancelled:
            this_run = update(schema.runs).where(runs.run_id == store.run_id)
            connection.execute(this_run.values(cancelled=False, stopped_reason=None))
            writing.event(at, None, "run_goes_on", "a person asked for it")
        count = len(rows if was_cancelled else again)  # what a cancel left to be sent is sent because the run goes on
        waited = store.end_waits(writing)
        if again or waited:
            job_ids = {row.job_id for row in again}
            request_rows.want_again(connection, {row.answer for row in ended if row.state in _ENDED})
            store.move_jobs(writing, job_ids, JobState.GRADED, JobState.PLANNED)
            store.tell_jobs(writing, job_ids)
            writing.event(at, None, "reopened", f"{count} requests without an answer go again: a person asked for it")
    return count
