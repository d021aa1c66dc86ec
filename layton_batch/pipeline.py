"""READ FIRST. ``advance(run)``: the eight stages in order, one line each.

Every stage reads what the earlier ones wrote and writes its own; each can be run again alone. Nothing here sleeps:
``advance`` is one tick, and the caller owns the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layton_batch.batches.cancel import is_cancelled
from layton_batch.batches.decisions import new_tick
from layton_batch.batches.orders import carry_out_orders
from layton_batch.clock import is_due
from layton_batch.records import Batch, Job
from layton_batch.runs.context import Run
from layton_batch.runs.lanes import Lane
from layton_batch.runs.status import is_over
from layton_batch.stages.collect import collect
from layton_batch.stages.grade import grade
from layton_batch.stages.plan import plan
from layton_batch.stages.poll import poll
from layton_batch.stages.publish import publish
from layton_batch.stages.readiness import finished
from layton_batch.stages.score import score
from layton_batch.stages.submit import submit, to_send
from layton_batch.states import OPEN, Lifecycle
from layton_batch.store.orders import pending_orders


def advance(run: Run, patience: float | None = None) -> bool:
    """One tick: whatever can be done now without waiting. True if anything moved.

    Providers are served side by side, and each in a few lanes. After ``patience`` seconds the tick goes on without
    those that are still at it, and a later one picks up what they did; None waits for all.
    """
    run.store.require_driver()
    run.remaking = False
    new_tick(run)
    moved = carry_out_orders(run)  # of a person
    moved |= plan(run)  # manifest → jobs, requests, batch files
    ready = to_send(run)
    run.handed_out = {**ready, **_of_lanes_at_work(run)}

    def serve(lane: Lane) -> bool:
        served = submit(run, lane, ready.get(lane, ()))  # planned → in flight (the paid call)
        served |= poll(run, lane)  # in flight → ended
        served |= collect(run, lane)  # ended → collected: answers, outcomes, the bill
        return served

    moved |= run.lanes.work(serve, _due(run), patience)
    moved |= grade(run)  # responses → predictions, verdicts
    moved |= score(run)  # verdicts → votes
    moved |= _rank(run)  # votes and labels → leaderboard
    moved |= publish(run)  # finished tables → site, cost report
    return moved


def _of_lanes_at_work(run: Run) -> dict[Lane, Sequence[Batch]]:
    return {lane: batches for lane, batches in run.handed_out.items() if run.lanes.is_at_work(lane)}


def _rank(run: Run) -> bool:
    """Rank the models that are done. Statistics are imported only when there are any."""
    if not finished(run.store.jobs()):
        return False
    from layton_batch.stages.rank import rank

    return rank(run)


def _due(run: Run) -> list[Lane]:
    """The lanes that have something to be done now. What is cancelled is withdrawn without waiting to be due."""
    now, cancelled = run.clock.now(), is_cancelled(run)
    batches = run.store.batches(OPEN - {Lifecycle.LOST})
    return sorted({run.seats.lane(batch) for batch in batches if cancelled or is_due(batch.due_at, now)})


def is_finished(run: Run) -> bool:
    """Return whether the run is over but for what a person has to see to."""
    jobs = run.store.jobs()
    if run.remaking or run.lanes.busy or pending_orders(run.store):
        return False
    batches = run.store.batches(OPEN)
    row = run.store.row()
    left = _left(run, jobs)
    jobs = [replace(job, graded=True) if job.id in left else job for job in jobs]
    batches = [one for one in batches if not (one.job_id in run.trouble and one.state is Lifecycle.ENDED)]
    return is_over(jobs, batches, cancelled=bool(row and row.cancelled))


def _left(run: Run, jobs: Sequence[Job]) -> set[str]:
    """The jobs that a person has to see to, and those that wait for them."""
    return {job.id for job in jobs if {job.id, job.depends_on} & run.trouble.keys()}


def next_due(run: Run) -> float | None:
    """When the next batch is due, or another run is to be looked at that asks for answers which this one waits for
    (epoch seconds); None where nothing is waiting for time to pass."""
    states, now = OPEN - {Lifecycle.LOST}, run.clock.now()
    due = run.store.next_due(now, states, run.pacing, uncollected=run.trouble.keys())
    if due is not None:
        return due
    ungraded = [job.id for job in run.store.jobs() if job.planned and not job.graded]
    return now + run.pacing.idle if run.store.unfinished(ungraded) else None
