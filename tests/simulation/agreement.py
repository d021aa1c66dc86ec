"""Rows of requests, answers and attempts say what the tables in files and the columns of batches say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from layton_batch.batches.batch_file import batch_requests
from layton_batch.batches.fingerprints import of_shards, requests_of
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.states import PERHAPS_BILLED, AnswerState, BatchOutcome, Lifecycle, RequestOutcome
from layton_batch.store import schema


@dataclass(frozen=True, slots=True)
class _Attempt:
    batch: int
    fingerprint: bytes
    custom_id: str
    is_open: bool
    outcome: str | None
    error_class: str | None


def disagreements(run: Run) -> list[str]:
    """Every way in which the rows and the older state differ, in words."""
    with run.store.reading() as connection:
        attempts = [_Attempt(*row) for row in connection.execute(select(schema.attempts))]
        keys = {
            (run_id, batch_id): key
            for key, run_id, batch_id in connection.execute(
                select(schema.batches.c.key, schema.batches.c.run_id, schema.batches.c.batch_id)
            )
        }
        answers = {
            print_: (state, batch)
            for print_, state, batch in connection.execute(
                select(schema.answers.c.fingerprint, schema.answers.c.state, schema.answers.c.batch)
            )
        }
        states = dict(connection.execute(select(schema.batches.c.key, schema.batches.c.state)).all())
        wanted = _requests(connection, run.id)
    by_batch: dict[int, list[_Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_batch[attempt.batch].append(attempt)
    broken = list(_of_jobs(run, wanted))
    for job in run.store.all_jobs():
        for batch in run.store.job_batches(job.id):
            broken += _of_batch(run, batch, by_batch[keys[run.id, batch.id]])
    return [*broken, *_of_answers(attempts, answers, states)]


def _requests(connection: Connection, run_id: str) -> Mapping[str, set[tuple[str, str, bool]]]:
    requests, jobs = schema.requests, schema.jobs
    query = select(jobs.c.job_id, requests.c.custom_id, requests.c.item_id, requests.c.retired)
    query = query.join(requests, requests.c.job == jobs.c.key).where(jobs.c.run_id == run_id)
    found: dict[str, set[tuple[str, str, bool]]] = defaultdict(set)
    for job_id, *row in connection.execute(query):
        found[job_id].add(tuple(row))
    return found


def _of_jobs(run: Run, wanted: Mapping[str, set[tuple[str, str, bool]]]) -> Iterator[str]:
    for job in run.store.all_jobs():
        entered = {batch.shard_id for batch in run.store.job_batches(job.id) if batch.parent_id is None}
        table = of_shards(requests_of(run.folder, job.id), entered)
        theirs = set(table.select("custom_id", "item_id", "retired").iter_rows())
        if theirs != wanted[job.id]:
            yield f"job {job.id}: its rows differ from its table: {sorted(theirs ^ wanted[job.id])[:3]}"


def _of_batch(run: Run, batch: Batch, attempts: list[_Attempt]) -> Iterator[str]:
    if not batch.tag:
        return  # nothing of it was ever to be sent
    asked, names = set(batch_requests(run, batch)["custom_id"]), {one.custom_id for one in attempts}
    if batch.outcome is BatchOutcome.COMPLETED and batch.provider_id is None:  # taken over from other batches
        if not names <= asked or any(one.outcome is None or one.is_open for one in attempts):
            yield f"batch {batch.id}: what it took over is not in its requests"
        return
    if names != asked:
        yield f"batch {batch.id}: its attempts are not its requests"
    is_open = batch.state not in (Lifecycle.PLANNED, Lifecycle.COLLECTED) and batch.submitting_at is not None
    is_open |= batch.state is Lifecycle.PLANNED and batch.facts.creates_in_doubt > 0
    if {one.is_open for one in attempts} != {is_open}:
        yield f"batch {batch.id} is {batch.state}: its attempts are {'not ' if is_open else ''}open"
    counts = {
        (str(one.outcome), str(one.error_class)): one.count
        for one in run.store.row_counts()
        if one.batch_id == batch.id
    }
    ends = Counter((one.outcome, one.error_class) for one in attempts if one.outcome is not None)
    if counts != ends:
        yield f"batch {batch.id}: its attempts ended {dict(ends)}, it counts {counts}"


def _of_answers(
    attempts: list[_Attempt], answers: Mapping[bytes, tuple[str, int]], states: Mapping[int, str]
) -> Iterator[str]:
    by_print: dict[bytes, list[_Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_print[attempt.fingerprint].append(attempt)
    if by_print.keys() != answers.keys():
        yield "there are answers without attempts, or attempts without answers"
    for print_, tries in by_print.items():
        state, batch = answers.get(print_, ("", 0))
        right = _state(tries, states, batch)
        if state != right:
            yield f"answer {print_.hex()[:8]} is {state}, its attempts say {right}"


def _state(tries: list[_Attempt], states: Mapping[int, str], batch: int) -> AnswerState:
    if any(one.is_open for one in tries):
        return AnswerState.SENT
    if any(one.outcome == RequestOutcome.SUCCEEDED for one in tries):
        return AnswerState.ANSWERED
    if any(states[one.batch] != Lifecycle.COLLECTED for one in tries):
        return AnswerState.WANTED
    last = next(one for one in tries if one.batch == batch)
    return AnswerState.UNCERTAIN if last.error_class in PERHAPS_BILLED else AnswerState.FAILED
