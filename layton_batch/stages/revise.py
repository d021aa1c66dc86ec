"""Revise: the run's jobs become those of the manifest of now. What is unchanged keeps its answers; what the manifest no
longer has leaves the board, and stays on disk."""

from __future__ import annotations

from layton_batch.batches.cancel import withdraw
from layton_batch.files import atomic
from layton_batch.files.item_list import digest
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.runs.imported import imported_models
from layton_batch.runs.wanted_jobs import identified, identified_rejudging, plan_jobs, revision
from layton_batch.store.revising import revise as enter

_BY_JOB = ("predictions", "verdicts", "rejudged", "grades", "scores", "reused")
"""Derived tables with a part for each job."""


def revise(run: Run) -> bool:
    """Enter the jobs of the manifest's latest revision, once; True where that was still to be done."""
    row = run.store.row()
    if row is None or run.asked is None or row.applied == run.asked:
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
        revision(run.store.all_jobs(), wanted, run.asked, items_digest, new_items=new_items),
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
