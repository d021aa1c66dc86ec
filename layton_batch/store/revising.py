"""A revision of a run in its store: jobs that are kept, new ones, and those that the manifest no longer has.

A retired job's answers stay. What of it is only planned is neither shown nor sent while it is retired; what its
provider has is polled and collected, for it is paid for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import select, update

from layton_batch.records import Job
from layton_batch.store import schema
from layton_batch.store.run_store import CHANGED, RunStore
from layton_batch.store.transactions import Writing


@dataclass(frozen=True, slots=True)
class Revision:
    """Changes to a run's jobs. ``jobs``: all that the manifest has, in its order, under the store's ids;
    ``again``: those of them that are to be planned once more; ``retired``: those that it no longer has.
    ``request_digest``, ``items``: digests of what they were made from."""

    jobs: Sequence[Job]
    again: Collection[str]
    retired: Collection[str]
    request_digest: str
    items: str


def revise(store: RunStore, revision: Revision, at: float) -> None:
    """The jobs become those of a revision of the manifest, all in one transaction."""
    runs = schema.runs
    this = update(runs).where(runs.c.run_id == store.run_id)
    with store.writing() as writing:
        new = _enter_jobs(writing, revision)
        writing.connection.execute(this.values(applied=revision.request_digest, items=revision.items))
        # what was planned while other prices held, and was put aside since, is bounded by those of now
        writing.connection.execute(this.where(runs.c.prices.is_not(None)).values(prices=CHANGED))
        if new:
            writing.event(at, None, "jobs_planned", f"{new} jobs")
        for kind, jobs in (("jobs_planned_again", revision.again), ("jobs_retired", revision.retired)):
            if jobs:
                writing.event(at, None, kind, f"{len(jobs)} jobs: {', '.join(sorted(jobs))}")


def _enter_jobs(writing: Writing, revision: Revision) -> int:
    """Enter the revision's jobs. Return the number of new jobs."""
    table = schema.jobs
    mine = table.c.run_id == writing.run_id
    job_ids = set(writing.connection.execute(select(table.c.job_id).where(mine)).scalars())
    for seq, job in enumerate(revision.jobs):
        values: dict[str, object] = {
            "seq": seq,
            "spec": job.spec,
            "depends_on": job.depends_on,
            "identity": job.identity,
            "retired": False,
        }
        if job.id in job_ids:
            if job.id in revision.again:
                values |= {"planned": False, "graded": False}
            writing.connection.execute(update(table).where(mine, table.c.job_id == job.id).values(**values))
        else:
            fixed = {"run_id": writing.run_id, "job_id": job.id, "role": job.role, "provider": job.spec.provider}
            begun = {"planned": False, "graded": False, "news": 0, "graded_news": 0}
            writing.connection.execute(table.insert().values(**fixed, **values, **begun))
    for job_id in revision.retired:
        last = {"retired": True, "seq": len(revision.jobs)}
        writing.connection.execute(update(table).where(mine, table.c.job_id == job_id).values(**last))
    return sum(job.id not in job_ids for job in revision.jobs)
