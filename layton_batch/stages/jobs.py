"""The jobs that a manifest wants, which of a run's jobs they are, and a revision that enters them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from layton_batch.batches.cancel import withdraw
from layton_batch.files import atomic
from layton_batch.files.items import digest
from layton_batch.files.run_folder import slug
from layton_batch.manifest.jury import seat_jury
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Job, Judge, ModelSpec
from layton_batch.runs.context import Run
from layton_batch.runs.identity import job_identity, predict_id
from layton_batch.runs.imported import imported_models
from layton_batch.states import Role
from layton_batch.store.revising import revise as enter

if TYPE_CHECKING:
    from layton_batch.runs.rejudging import RejudgeJob
    from layton_batch.store.revising import Revision


def plan_jobs(specs: Sequence[ModelSpec], panel: Sequence[Judge], seats: int, uses_jury: bool) -> list[Job]:
    """Return every job of a run, judges' after participants'; ids are unique and fit for paths. A model's samples and
    levels of hints are jobs of their own, each with its jury."""
    jobs = [Job(predict_id(spec), Role.PREDICT, spec) for spec in specs]
    if not uses_jury:
        return jobs
    verdicts = [
        Job(
            f"judge-{slug(judge.model.name)}--{job.id.removeprefix('predict-')}",
            Role.JUDGE,
            replace(judge.model, hints=spec.hints),
            depends_on=job.id,
        )
        for job, spec in zip(jobs, specs, strict=True)
        for judge in seat_jury(panel, spec, seats)
    ]
    return jobs + verdicts


def identified(manifest: Manifest, jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs, each with its identity."""
    return [replace(job, identity=job_identity(manifest, job)) for job in jobs]


def identified_rejudging(manifest: Manifest, rejudging: Iterable[RejudgeJob]) -> list[Job]:
    """Return the jobs that rejudge, each with the identity of its requests and labelled answers."""
    return [
        replace(rejudged.job, identity=job_identity(manifest, rejudged.job, rejudged.about)) for rejudged in rejudging
    ]


def revision(
    stored: Sequence[Job], wanted: Sequence[Job], request_digest: str, items: str, *, new_items: bool
) -> Revision:
    """Plan the changes to the ``stored`` jobs, retired jobs included. ``wanted``: the jobs of the manifest.

    A job is planned again if its requests, its name, its family or its output limit may have changed.
    """
    matched = _Matching(stored)
    jobs = [matched.stored_as(job) for job in wanted]
    stored_jobs = {job.id: job for job in stored}
    kept_jobs = {job.id: stored_jobs[job.id] for job in jobs if job.id in stored_jobs}
    again = {
        job.id
        for job in jobs
        if (old := kept_jobs.get(job.id)) is not None and (old.retired or _written(old) != _written(job) or new_items)
    }
    from layton_batch.store.revising import Revision

    return Revision(
        jobs=jobs,
        again=again,
        retired=[job.id for job in stored if job.id not in kept_jobs and not job.retired],
        request_digest=request_digest,
        items=items,
    )


def _written(job: Job) -> tuple[str, str, int | None]:
    """Return what may change of a job's model: its name and family, which tables have, and its output limit."""
    return job.spec.name, job.spec.family, job.spec.max_output_tokens


class _Matching:
    """Takes stored jobs one after another; each is taken once."""

    def __init__(self, stored: Sequence[Job]) -> None:
        self._left = list(stored)
        self._ids = {job.id for job in stored}
        self._stored_id: dict[str, str] = {}

    def stored_as(self, wanted: Job) -> Job:
        """Return the job with the id that the store has for it, or with a free id."""
        depends_on = self._stored_id[wanted.depends_on] if wanted.depends_on else None
        wanted_there = replace(wanted, depends_on=depends_on)
        same = sorted(self._same(wanted_there), key=lambda job: (job.spec.name != wanted.spec.name, job.retired))
        if same:
            self._left.remove(same[0])
        job_id = same[0].id if same else next(name for name in _names(wanted.id) if name not in self._ids)
        self._ids.add(job_id)
        self._stored_id[wanted.id] = job_id
        return replace(wanted_there, id=job_id)

    def _same(self, wanted: Job) -> list[Job]:
        return [
            job
            for job in self._left
            if (job.role, job.depends_on, job.identity) == (wanted.role, wanted.depends_on, wanted.identity)
        ]


def _names(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}-{number}"
        number += 1


_BY_JOB = ("predictions", "verdicts", "rejudged", "grades", "scores", "reused")
"""Derived tables with a part for each job."""


def revise(run: Run) -> bool:
    """Enter the jobs of the manifest's latest revision, once; True where that was still to be done."""
    row = run.store.row()
    if row is None or run.revision is None or row.applied == run.revision:
        return False
    items = run.load_items()
    items_digest = digest(items)
    new_items = items_digest != row.items
    if new_items:
        run.freeze(items)
    manifest = run.manifest
    specs = [*manifest.asked_specs(), *(job.spec for job in _imported(run))]
    wanted = identified(manifest, plan_jobs(specs, manifest.panel(), manifest.seats, run.task.uses_jury))
    wanted += identified_rejudging(manifest, run.wanted_rejudging)
    enter(
        run.store,
        revision(run.store.all_jobs(), wanted, run.revision, items_digest, new_items=new_items),
        run.clock.now(),
    )
    run.forget_jobs()
    return True


def _imported(run: Run) -> list[Job]:
    """Models whose answers came from a file are in no manifest; one that a manifest names by now is asked."""
    named = {spec.name for spec in run.manifest.model_specs()}
    jobs = imported_models(run.store.all_jobs(), run.store.batches())
    return [job for job in jobs if job.spec.name not in named]


def put_away(run: Run) -> None:
    """Remove the tables of retired jobs, which can be made again, and withdraw the jobs' unsent batches.

    Other jobs may ask for some of the answers of a withdrawn batch.
    """
    for job in run.store.all_jobs():
        if job.retired:
            for name in _BY_JOB:
                atomic.remove(run.folder.part(name, job.id))
    for batch in run.store.planned_of_retired():
        if batch.id not in run.threads.sending:  # else it is being sent
            withdraw(run, batch, "the manifest does not have its model any more")
