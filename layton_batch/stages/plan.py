"""Plan: from a manifest to jobs, requests and batch files on disk. Sends nothing.

A run grows with its manifest: `revise` has its jobs follow, `ask` finds what each of them has not asked yet, and
`ask_wanted` what is to be asked once more.
The same manifest and items always plan the same jobs, the same shards and files that are byte-identical but for the
run's mark in each custom_id. Predict jobs are planned when the run begins; a judge's job when the predictions it
depends on are in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from layton_batch.batches.person import withdraw
from layton_batch.files import atomic
from layton_batch.files.items import digest
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.runs.imported import imported_models
from layton_batch.runs.jobs import identified, job_identity, plan_jobs, revision
from layton_batch.runs.rejudging import RejudgeJob
from layton_batch.stages.ask import ask, ask_wanted
from layton_batch.stages.prompts import reopen_juries
from layton_batch.stages.reprice import reprice
from layton_batch.states import OPEN, Role


def plan(run: Run) -> bool:
    """Enter the run's jobs if they are not, then write the files of every job whose dependencies are in.

    Of a cancelled run no job is planned: `retry`, which has it go on, finds it as it was left.
    """
    moved = _revise(run)
    _put_away(run)
    jobs, row = run.store.jobs(), run.store.row()
    if jobs and (later := _asked_later(run, jobs)):
        run.store.add_jobs([*jobs, *later], run.clock.now())
        jobs = run.store.jobs()
    moved |= run.engine.apart("prices", partial(reprice, run))
    if row.cancelled:
        return moved
    if reopen_juries(run):
        jobs = run.store.jobs()
    done = {None, *(job.id for job in jobs if job.graded)}
    for job in jobs:
        if not job.planned and _waits_for(run, job) in done:
            moved |= run.engine.apart(job.id, partial(ask, run, job, run.mark))
    wanted, busy = run.store.jobs_with_wanted(), {batch.job_id for batch in run.store.batches(OPEN)}
    for job in run.store.jobs():
        is_ungraded = not job.graded or job.is_stale
        waits = is_ungraded and job.id not in busy  # for others, or is over: what they leave is asked here
        if job.planned and (job.id in wanted or waits):
            moved |= run.engine.apart(job.id, partial(ask_wanted, run, job))
    if moved:
        _say_who_asks(run)
    return moved


def _say_who_asks(run: Run) -> None:
    """Say in an event, once, which other runs ask now for answers that this one wants."""
    other_runs = frozenset(batch.run_id for batch in run.store.awaited_batches())
    if other_runs - run.waited_for:
        run.waited_for = other_runs
        detail = f"run {', '.join(sorted(other_runs))} asks for answers that are wanted here; they cost nothing here"
        run.store.add_event(run.clock.now(), None, "waits_for_run", detail)


def _asked_later(run: Run, jobs: Sequence[Job]) -> list[Job]:
    """Return the rejudging jobs that a run began without. The manifest has to ask for them, because they cost money."""
    if run.manifest.gold is None or (run.manifest.gold.rejudge is None and not run.manifest.anchors):
        return []
    job_ids = {job.id for job in jobs}
    later = [rejudged for job_id, rejudged in run.rejudging.items() if job_id not in job_ids]
    return _identified_rejudging(run.manifest, later)


def _waits_for(run: Run, job: Job) -> str | None:
    """Return the job whose answers have to be known first: the judged job, or a job whose answers may be equal to those
    in the gold set.
    """
    rejudged = run.rejudging.get(job.id) if job.role is Role.REJUDGE else None
    return rejudged.own if rejudged else job.depends_on


# ---- a revision ---------------------------------------------------------------------------------------------------

_BY_JOB = ("predictions", "verdicts", "rejudged", "grades", "scores", "reused")
"""Derived tables with a part for each job."""


def _revise(run: Run) -> bool:
    """Enter the jobs of the manifest's latest revision, once; True where that was still to be done."""
    row = run.store.row()
    if run.revision is None or row.applied == run.revision:
        return False
    items = run.load_items()
    items_digest = digest(items)
    new_items = items_digest != row.items
    if new_items:
        run.freeze(items)
    manifest = run.manifest
    specs = [*manifest.asked_specs(), *(job.spec for job in _imported(run))]
    wanted = identified(manifest, plan_jobs(specs, manifest.panel(), manifest.seats, run.task.uses_jury))
    wanted += _identified_rejudging(manifest, run.wanted_rejudging)
    changes = revision(run.store.all_jobs(), wanted, run.revision, items_digest, new_items=new_items)
    run.store.revise(changes, run.clock.now())
    run.forget_jobs()
    return True


def _imported(run: Run) -> list[Job]:
    """Models whose answers came from a file are in no manifest; one that a manifest names by now is asked."""
    named = {spec.name for spec in run.manifest.model_specs()}
    jobs = imported_models(run.store.all_jobs(), run.store.batches())
    return [job for job in jobs if job.spec.name not in named]


def _put_away(run: Run) -> None:
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


def _identified_rejudging(manifest: Manifest, rejudging: Iterable[RejudgeJob]) -> list[Job]:
    """Return the jobs that rejudge, each with the identity of its requests and labelled answers."""
    return [
        replace(rejudged.job, identity=job_identity(manifest, rejudged.job, rejudged.about)) for rejudged in rejudging
    ]
