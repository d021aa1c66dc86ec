"""Score: from verdicts to votes, one row per prediction and metric. Models whose jury is done are scored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from layton_batch.files import tables
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.runs.status import finished
from layton_batch.stages.job_tables import CountedJob, count_votes


def score(run: Run) -> bool:
    """Count the votes of every model that is done and whose votes were not counted, or were from other verdicts."""
    jobs = run.store.jobs()
    stale = [job for job in finished(jobs) if tables.made_from(_part(run, job)) != _origin(run, job, jobs)]
    return _count(run, stale, jobs)


def _count(run: Run, stale: Sequence[Job], jobs: Sequence[Job]) -> bool:
    work = {job.id: run.engine.submit(count_votes, _counting(run, job, jobs)) for job in stale}

    def counted(job: Job) -> bool:
        run.engine.wait_for(job, work.pop(job.id))
        return True

    moved = [run.engine.apart(job.id, partial(counted, job)) for job in stale]
    return any(moved)


def _counting(run: Run, job: Job, jobs: Sequence[Job]) -> CountedJob:
    judges = tuple(other.id for other in jobs if other.depends_on == job.id) if run.task.uses_jury else ()
    hints = run.manifest.hints_of(job.spec)
    metrics, origin = tuple(run.task.metrics), _origin(run, job, jobs)
    return CountedJob(run.folder.absolute(), job, judges, metrics, hints, origin, run.manifest.in_turn)


def _part(run: Run, job: Job) -> Path:
    return run.folder.part("scores", job.id)


def _origin(run: Run, job: Job, jobs: Sequence[Job]) -> str:
    """Digest the inputs of a predict job's scores: predictions, and its judges' verdicts or a rule's grades."""
    judges = [run.folder.part("verdicts", other.id) for other in jobs if other.depends_on == job.id]
    graded = judges or [run.folder.part("grades", job.id)]
    sources = (run.folder.part("predictions", job.id), *graded)
    how = ("in turn",) if run.manifest.in_turn else ()
    return tables.digest("scores", job.spec.name, *map(tables.made_from, sources), *how)
