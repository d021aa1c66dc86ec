"""Retry: one more attempt, on demand, for every request that ended without an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import polars as pl

from layton_batch.batches.attempts import attempts_are_left, retired_requests, write_next
from layton_batch.batches.cancel import is_cancelled
from layton_batch.batches.shared_questions import Questions, numbered, row_keys, unanswered
from layton_batch.errors import DamagedTableError
from layton_batch.records import Batch, Job
from layton_batch.runs.context import Run
from layton_batch.states import PASSING, Role
from layton_batch.store.orders import Order
from layton_batch.store.reopening import RowKey, go_on, reopen
from layton_batch.text import plural


def retry_run(run: Run, order: Order | None = None) -> int:
    """Plan another attempt for all requests without an answer, permanent errors included. Return how many there are.

    A cancelled run goes on. Nothing happens where a cancel took back the ``order`` of it meanwhile. Predictions that
    come in this way go before a jury like any other. Raises DamagedTableError, once all others are planned, where
    batches cannot be repeated because their files are damaged; StaleStateError where others planned the same.
    """
    was_cancelled = is_cancelled(run)  # a cancel that comes later stands
    batches, jobs = run.store.batches(), {job.id: job for job in run.store.all_jobs()}
    again: list[Batch] = []
    repeated: Counter[RowKey] = Counter()
    questions, left, following = Questions(run), 0, set[str]()
    damaged: dict[str, DamagedTableError] = {}
    for batch in batches:
        try:
            wanted = _without_answer(run, batch, batches)
            if wanted.is_empty():
                continue
            found = questions.sort(jobs[batch.job_id], wanted["custom_id"].to_list(), batch.reask, by_a_person=True)
            if found.free:
                reason = f"{len(found.free)} requests of {batch.id} without an answer; "
                reason += "a person asked for another attempt"
                again.append(write_next(run, batch, found.free, numbered("p", batch, batches), reason))
                repeated.update(row_keys(batch, wanted.filter(pl.col("custom_id").is_in(found.free))))
        except DamagedTableError as error:
            damaged[batch.id] = error
            continue
        left += wanted.height
        if found.taken or found.waiting:
            following.add(batch.job_id)
    if was_cancelled:
        go_on(run.store, run.clock.now(), order)
    _reopen(run, again, repeated, following, order)
    if damaged:
        reasons = "; ".join(f"{batch_id} is left as it is: {error}" for batch_id, error in damaged.items())
        others = f"{plural(left, 'request')} of other batches planned again"
        raise DamagedTableError(f"{reasons}; {others}", next(iter(damaged.values())).path)
    return left


def ask_again(run: Run, job: Job, wanted: Collection[str], retired: Collection[str]) -> None:
    """Another attempt for those of a job's requests that are known not to have been billed, and were given up while the
    manifest did not ask for them: for the ``retired`` ones, and for those with attempts left, which nothing else gives
    up than that the whole job was retired."""
    if not wanted:
        return
    batches = [batch for batch in run.store.batches() if batch.job_id == job.id]
    questions = Questions(run)
    again: list[Batch] = []
    repeated: Counter[RowKey] = Counter()
    for batch in batches:
        passing = [str(cause) for cause in PASSING]
        rows = unanswered(run, batch, batches)
        given_up = wanted if attempts_are_left(run, batch) else set(wanted).intersection(retired)
        rows = rows.filter(pl.col("custom_id").is_in(list(given_up)), pl.col("error_class").is_in(passing))
        free = questions.sort(job, rows["custom_id"].to_list(), batch.reask).free if len(rows) else []
        if free:
            reason = f"{len(free)} requests of {batch.id} are asked for again by the manifest"
            again.append(write_next(run, batch, free, numbered("b", batch, batches), reason))
            repeated.update(row_keys(batch, rows.filter(pl.col("custom_id").is_in(free))))
    if again:
        detail = f"{sum(batch.requests for batch in again)} requests without an answer are wanted again"
        reopen(run.store, again, repeated, run.clock.now(), detail=detail)


def _without_answer(run: Run, batch: Batch, batches: list[Batch]) -> pl.DataFrame:
    """Return the rows of ``unanswered`` that the manifest still asks for."""
    found = unanswered(run, batch, batches)
    return found if found.is_empty() else found.filter(~pl.col("custom_id").is_in(list(retired_requests(run, batch))))


def _reopen(
    run: Run, again: list[Batch], repeated: Counter[RowKey], following: Collection[str], order: Order | None
) -> None:
    """``following``: jobs that wait for what others ask, or take over what they have brought, as they are planned."""
    reopened = {batch.job_id for batch in again} | set(following)
    if not reopened:
        return
    jobs = run.store.jobs()
    predicting = {job.id for job in jobs if job.id in reopened and job.role is Role.PREDICT}
    unplanned = {job.id for job in jobs if job.depends_on in predicting} | set(following)
    detail = f"{sum(batch.requests for batch in again)} requests without an answer go again"
    now = run.clock.now()
    reopen(run.store, again, repeated, now, detail=detail, ungraded=reopened, unplanned=unplanned, order=order)
