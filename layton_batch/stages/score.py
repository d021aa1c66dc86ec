"""Score: from verdicts to votes, one row per prediction and metric. Models whose jury is done are scored."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from functools import partial
from pathlib import Path

from layton_batch.files import tables
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.stages.job_tables import CountedJob, count_votes
from layton_batch.stages.readiness import finished


def score(run: Run) -> bool:
    """Count the votes of every model that is done and whose votes were not counted, or were from other verdicts."""
    jobs = run.store.jobs()
    stale = [job for job in finished(jobs) if tables.made_from(_part(run, job)) != _origin(run, job, jobs)]
    return _count(run, stale, jobs)


def score_again(run: Run) -> None:
    """Count all votes anew from the stored verdicts."""
    jobs = run.store.jobs()
    for job in finished(jobs):
        count_votes(_counting(run, job, jobs))


def _count(run: Run, stale: Sequence[Job], jobs: Sequence[Job]) -> bool:
    work = {job.id: run.engine.submit(count_votes, _counting(run, job, jobs)) for job in stale}

    def counted(job: Job) -> bool:
        try:
            run.engine.result(work.pop(job.id))
        except BrokenExecutor as error:
            run.engine.renew()
            run.remaking = True
            detail = f"{job.id}: a worker was lost while it counted votes ({error}); the next tick counts them"
            run.store.add_event(run.clock.now(), None, "worker_lost", detail)
        return True

    moved = [run.apart(job.id, partial(counted, job)) for job in stale]
    return any(moved)


def _counting(run: Run, job: Job, jobs: Sequence[Job]) -> CountedJob:
    judges = tuple(other.id for other in jobs if other.depends_on == job.id) if run.task.uses_jury else ()
    hints = run.manifest.hints_of(job.spec)
    return CountedJob(run.folder.absolute(), job, judges, tuple(run.task.metrics), hints, _origin(run, job, jobs))


def _part(run: Run, job: Job) -> Path:
    return run.folder.part("scores", job.id)


def _origin(run: Run, job: Job, jobs: Sequence[Job]) -> str:
    """Digest the inputs of a predict job's scores: predictions, and its judges' verdicts or a rule's grades."""
    judges = [run.folder.part("verdicts", other.id) for other in jobs if other.depends_on == job.id]
    graded = judges or [run.folder.part("grades", job.id)]
    sources = (run.folder.part("predictions", job.id), *graded)
    return tables.digest("scores", job.spec.name, *map(tables.made_from, sources))
