"""Grade: from responses to predictions, and from judges' responses to verdicts. One job at a time, when it is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future
from functools import partial
from pathlib import Path

from layton_batch.batches.fingerprints import FIRST_SAMPLE, retired_ids
from layton_batch.files import tables
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.stages.final_responses import ends_of_retired, parts_of
from layton_batch.stages.job_tables import VERDICTS, Grading, grade_apart, grade_job
from layton_batch.stages.reask import reask
from layton_batch.states import OPEN, Role
from layton_batch.store.revising import keep_retired_ends


def grade(run: Run) -> bool:
    """Grade every planned job that has no open batch left, and write the tables of graded ones again that are gone."""
    jobs, batches = run.store.jobs(), run.store.batches()
    busy = {batch.job_id for batch in batches if batch.state in OPEN}
    seen: dict[str, list[str]] = defaultdict(list)
    for batch in batches:
        seen[batch.job_id].append(batch.id)
    over = [job for job in jobs if job.planned and not job.graded and job.id not in busy]
    over = [job for job in over if not run.store.open_among(run.waiting.get(job.id, frozenset()))]
    gone = [job for job in jobs if job.graded and not all(part.exists() for part in _parts(run, job))]
    work: dict[str, Future[None]] = {}
    moved = [run.apart(job.id, partial(_begin, run, job, seen[job.id], work)) for job in (*over, *gone)]
    moved += [
        run.apart(job.id, partial(_end, run, job, seen[job.id], work.pop(job.id))) for job in over if job.id in work
    ]
    moved += [run.apart(job.id, partial(_wait_for, run, job, work.pop(job.id))) for job in gone if job.id in work]
    return any(moved)


def _parts(run: Run, job: Job) -> Sequence[Path]:
    """The part files that grading the job writes."""
    if job.role is not Role.PREDICT:
        return [run.folder.part(VERDICTS[job.role], job.id)]
    names = ["predictions"] if run.task.uses_jury else ["predictions", "grades"]
    return [run.folder.part(name, job.id) for name in names]


def _begin(run: Run, job: Job, batches: Sequence[str], work: dict[str, Future[None]]) -> bool:
    """Have the job's tables written, unless some of it is asked again; True where that is so."""
    if not job.graded and reask(run, job):
        return not run.waiting.get(job.id)
    asked = _grading(run, job, batches)
    if run.engine.is_here:
        work[job.id] = run.engine.submit(grade_job, asked, run.task, run.item)
    else:
        work[job.id] = run.engine.submit(grade_apart, asked)
    return False


def _end(run: Run, job: Job, batches: Sequence[str], work: Future[None]) -> bool:
    if _wait_for(run, job, work):
        keep_retired_ends(run.store, job.id, ends_of_retired(run, job.id))
        run.store.set_graded(job.id, run.clock.now(), len(batches))
    return True


def _wait_for(run: Run, job: Job, work: Future[None]) -> bool:
    """Whether the tables are written; a worker that ended in the middle leaves them to the next tick."""
    try:
        work.result()
    except BrokenExecutor as error:
        run.engine.renew()
        run.remaking = True
        said = f"{job.id}: a worker ended while it wrote the tables ({error}); the next tick writes them"
        run.store.add_event(run.clock.now(), None, "worker_ended", said)
        return False
    return True


def _grading(run: Run, job: Job, batches: Sequence[str]) -> Grading:
    """All that the job's tables are made from."""
    retired = sorted(retired_ids(tables.read_part(run.folder.part("requests", job.id))))
    row = run.store.row()
    items = row.items if row else None  # a rule's marks hang on the items' own answers too
    sample, hints = job.spec.sample, run.manifest.hints_of(job.spec)
    if job.role is not Role.PREDICT:
        judged = {other.id: other.spec.sample for other in run.store.jobs()}
        sample = judged.get(str(job.depends_on), FIRST_SAMPLE)
        rejudged = run.rejudging.get(job.id) if job.role is Role.REJUDGE else None
        hints = rejudged.hints if rejudged else hints
    return Grading(
        folder=run.folder,
        manifest=run.manifest,
        job=job,
        responses=tuple(parts_of(run, job.id)),
        sample=sample,
        hints=hints,
        origin=tables.digest(str(job.role), job.id, job.spec.name, items, *sorted(batches), *retired),
    )
