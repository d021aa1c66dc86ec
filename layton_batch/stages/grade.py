"""Grade: from responses to predictions, and from judges' responses to verdicts. One job at a time, when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from layton_batch.errors import StoreError
from layton_batch.files import tables
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.runs.fingerprints import FIRST_SAMPLE
from layton_batch.runs.work_engine import CallingThread
from layton_batch.stages.final_responses import ResponseLocations, locate_responses
from layton_batch.stages.job_tables import VERDICTS, Grading, grade_apart, grade_job
from layton_batch.stages.reask import have_more_room, reask
from layton_batch.stages.reused import write_reused
from layton_batch.stages.turns import reopen_juries
from layton_batch.states import OPEN, Role


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
    work: dict[str, Future[None]] = {}
    moved = [run.apart(job.id, partial(_begin, run, job, work)) for job in (*over, *gone)]
    moved += [run.apart(job.id, partial(_end, run, job, work.pop(job.id))) for job in over if job.id in work]
    moved += [run.apart(job.id, partial(run.wait_for_work, job, work.pop(job.id))) for job in gone if job.id in work]
    return any([*moved, reopen_juries(run)])


def _has_tables(run: Run, job: Job) -> bool:
    return all(part.exists() for part in _parts(run, job))


def _parts(run: Run, job: Job) -> Sequence[Path]:
    """Return the part files that grading the job writes."""
    if job.role is not Role.PREDICT:
        return [run.folder.part(VERDICTS[job.role], job.id)]
    names = ["predictions"] if run.task.uses_jury else ["predictions", "grades"]
    return [run.folder.part(name, job.id) for name in names]


def _begin(run: Run, job: Job, work: dict[str, Future[None]]) -> bool:
    """Start writing the job's tables, unless some answers are asked for again. Return True in that case."""
    judged, located = _judged(run, job), locate_responses(run, job.id)
    if (not job.graded or job.is_stale) and have_more_room(run, job):
        run.store.ask_anew(job.id)
        return True
    if (not job.graded or job.is_stale) and reask(run, job, judged, located):
        return True
    write_reused(run, job)
    grading = _grading(run, job, judged, located)
    if isinstance(run.engine, CallingThread):
        work[job.id] = run.submit_work(grade_job, grading, run.task, run.item)
    else:
        work[job.id] = run.submit_work(grade_apart, grading)
    return False


def _end(run: Run, job: Job, work: Future[None]) -> bool:
    if run.wait_for_work(job, work):
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
