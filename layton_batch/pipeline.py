"""READ FIRST. ``advance(run)``: the eight stages in order, one line each.

Every stage reads what the earlier ones wrote and writes its own; each can be run again alone. Nothing here sleeps:
``advance`` is one tick, and the caller owns the loop.
"""

from __future__ import annotations

from layton_batch.run import Run
from layton_batch.stages.collect import collect
from layton_batch.stages.grade import grade
from layton_batch.stages.plan import plan
from layton_batch.stages.poll import poll
from layton_batch.stages.publish import publish
from layton_batch.stages.rank import rank
from layton_batch.stages.score import score
from layton_batch.stages.submit import submit
from layton_batch.states import OPEN, Lifecycle


def advance(run: Run) -> bool:
    """One tick: whatever can be done now without waiting. True if anything moved."""
    moved = plan(run)  # manifest → jobs, requests, batch files
    moved |= submit(run)  # planned → in flight (the paid call)
    moved |= poll(run)  # in flight → ended
    moved |= collect(run)  # ended → collected: answers, outcomes, the bill
    moved |= grade(run)  # responses → predictions, verdicts
    moved |= score(run)  # verdicts → votes
    moved |= rank(run)  # votes and labels → leaderboard
    moved |= publish(run)  # finished tables → site, cost report
    return moved


def is_finished(run: Run) -> bool:
    """Whether nothing more can happen: every job graded, or the run cancelled and nothing left at a provider."""
    jobs = run.store.jobs()
    if not jobs:
        return False
    if all(job.graded for job in jobs):
        return True
    row = run.store.row()
    return bool(row and row.cancelled and not run.store.batches(OPEN))


def next_due(run: Run) -> float | None:
    """When the next batch is due (epoch seconds); None where none is waiting for time to pass."""
    waiting = [batch.due_at for batch in run.store.batches(OPEN - {Lifecycle.LOST})]
    return min(waiting, default=None)
