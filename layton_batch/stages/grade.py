"""Grade a job when it is over: predictions of responses, verdicts of judges' responses; or ask once more."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from layton_batch.errors import StoreError
from layton_batch.files import tables
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.records import Job, Response
from layton_batch.runs.context import Run
from layton_batch.runs.job_engine import CallingThread
from layton_batch.runs.requests import FIRST_SAMPLE
from layton_batch.stages.ask import spec_of
from layton_batch.stages.job_tables import VERDICTS, Grading, grade_apart, grade_job
from layton_batch.stages.prompts import reopen_juries
from layton_batch.stages.responses import (
    ResponseLocations,
    final_responses,
    locate_responses,
    response_from,
    write_reused,
)
from layton_batch.states import OPEN, AnswerState, FinishReason, PredictionKind, RequestOutcome, Role
from layton_batch.tasks.protocol import juried


def grade(run: Run) -> bool:
    """Grade every planned job that has no open batch left, nor an answer that a person is to decide about, and write
    the tables of graded ones again that are gone."""
    jobs, batches = run.store.jobs(), run.store.batches()
    busy = {batch.job_id for batch in batches if batch.state in OPEN}
    over = [job for job in jobs if job.planned and (not job.graded or job.is_stale) and job.id not in busy]
    unfinished = run.store.unfinished([job.id for job in over])
    over = [job for job in over if job.id not in unfinished and not run.store.requests_to_ask(job.id)]
    again = {job.id for job in over}
    gone = [job for job in jobs if job.graded and job.id not in again and not _has_tables(run, job)]
    begun: dict[str, Future[None]] = {}
    engine = run.engine
    moved = [engine.apart(job.id, partial(_begin, run, job, begun)) for job in (*over, *gone)]
    moved += [engine.apart(job.id, partial(_end, run, job, begun.pop(job.id))) for job in over if job.id in begun]
    moved += [engine.apart(job.id, partial(engine.wait_for, job, begun.pop(job.id))) for job in gone if job.id in begun]
    return any([*moved, reopen_juries(run)])


def _has_tables(run: Run, job: Job) -> bool:
    return all(part.exists() for part in _parts(run, job))


def _parts(run: Run, job: Job) -> Sequence[Path]:
    """Return the part files that grading the job writes."""
    if job.role is not Role.PREDICT:
        return [run.folder.part(VERDICTS[job.role], job.id)]
    names = ["predictions"] if run.task.uses_jury else ["predictions", "grades"]
    return [run.folder.part(name, job.id) for name in names]


def _begin(run: Run, job: Job, begun: dict[str, Future[None]]) -> bool:
    """Start writing the job's tables, unless some answers are asked for again. Return True in that case."""
    judged, located = _judged(run, job), locate_responses(run, job.id)
    if (not job.graded or job.is_stale) and have_more_room(run, job):
        run.store.ask_anew(job.id)
        return True
    if (not job.graded or job.is_stale) and reask(run, job, judged, located):
        return True
    write_reused(run, job)
    grading = _grading(run, job, judged, located)
    if isinstance(run.engine.executor, CallingThread):
        begun[job.id] = run.engine.submit(grade_job, grading, run.task, run.item)
    else:
        begun[job.id] = run.engine.submit(grade_apart, grading)
    return False


def _end(run: Run, job: Job, work: Future[None]) -> bool:
    if run.engine.wait_for(job, work):
        run.store.set_graded(job, run.clock.now())
    return True


def _judged(run: Run, job: Job) -> str:
    """Return the model whose answers the job brings or judges, as the board shows it.

    Raises StoreError where the database has lost the job that this one judges.
    """
    if job.depends_on:
        names = (other.spec.name for other in run.store.jobs() if other.id == job.depends_on)
        if (name := next(names, None)) is None:
            raise StoreError(
                f"job {job.id} judges job {job.depends_on}, which the database does not have: somebody changed the "
                "database; restore a backup of the workspace"
            )
        return name
    rejudged = run.rejudging.get(job.id) if job.role is Role.REJUDGE else None
    return rejudged.judged.name if rejudged else job.spec.name


def _grading(run: Run, job: Job, judged: str, located: ResponseLocations) -> Grading:
    """Return all that the job's tables are made from."""
    row = run.store.row()
    items = row.items if row else None  # a rule's marks hang on the items' own answers too
    sample, hints = job.spec.sample, run.manifest.hints_of(job.spec)
    if job.role is not Role.PREDICT:
        samples = {other.id: other.spec.sample for other in run.store.jobs()}
        sample = samples.get(str(job.depends_on), FIRST_SAMPLE)
        rejudged = run.rejudging.get(job.id) if job.role is Role.REJUDGE else None
        hints = rejudged.hints if rejudged else hints
    return Grading(
        folder=run.folder.absolute(),
        manifest=run.manifest,
        job=job,
        judged=judged,
        located=located,
        sample=sample,
        hints=hints,
        origin=tables.digest(str(job.role), job.id, job.spec.name, job.spec.family, items, judged, located.digest),
    )


def have_more_room(run: Run, job: Job) -> bool:
    """Return whether answers of the job were cut that the manifest gives more room by now: they were on their way when
    it was raised. The job is to be planned again."""
    return any(
        request.lacks_room(spec_of(run, job, request.item_id).max_output_tokens)
        for request in run.store.known_requests(job.id)
        if request.is_cut and not request.retired and request.item_id in run.by_id
    )


def reask(run: Run, job: Job, judged: str, located: ResponseLocations) -> bool:
    """Have replies of the job that cannot be used be asked for again, as far as the policy allows; True where there are
    any. ``judged``: the model that a judge's job is about."""
    policy, row = run.manifest.policy, run.store.row()
    if not (policy.reask_unparsed or policy.reask_truncated) or (row is not None and row.cancelled):
        return False
    requests = {request.custom_id: request for request in run.store.known_requests(job.id)}
    doublings: dict[str, int] = {}
    for reply in final_responses(located):
        request, response = requests[str(reply["custom_id"])], response_from(reply)
        if response.outcome is not RequestOutcome.SUCCEEDED or request.fingerprint is None:
            continue
        if request.state is AnswerState.UNCERTAIN:
            continue  # it was asked again, and may have been answered: a person's `retry` asks once more
        truncated = response.finish_reason is FinishReason.LENGTH
        if request.reask >= (policy.reask_truncated if truncated else policy.reask_unparsed):
            continue
        if not _is_usable(run, job, request.item_id, judged, response):
            doublings[request.custom_id] = request.reask + 1 if truncated else 0
    if doublings:
        run.store.ask_once_more(job.id, [requests[name] for name in doublings], doublings, run.clock.now())
    return bool(doublings)


def _is_usable(run: Run, job: Job, item_id: str, judged: str, response: Response) -> bool:
    if job.role is Role.PREDICT:
        return run.task.parse(run.item(item_id), judged, response).kind is not PredictionKind.UNPARSED
    verdict = juried(run.task).parse_verdict(item_id, judged, job.spec.name, response)
    return all(getattr(verdict, METRIC_FIELDS[metric]) is not None for metric in run.task.metrics)
