"""READ FIRST. ``advance(run)``: the eight stages in order, one line each.

Every stage reads what the earlier ones wrote and writes its own; each can be run again alone. Nothing here sleeps:
``advance`` is one tick, and the caller owns the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layton_batch.batches.collect import collect
from layton_batch.batches.look import close, to_close
from layton_batch.batches.poll import poll
from layton_batch.batches.send import send, to_send
from layton_batch.batches.steps import Tick
from layton_batch.clock import is_due
from layton_batch.records import Batch, Job
from layton_batch.runs.context import Run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.runs.status import finished, has_models, is_over
from layton_batch.stages.grade import grade
from layton_batch.stages.plan import plan
from layton_batch.stages.publish import publish
from layton_batch.stages.score import score
from layton_batch.states import AT_PROVIDER, OPEN, TO_SEND, Lifecycle


def advance(run: Run, patience: float | None = None) -> bool:
    """One tick: whatever can be done now without waiting. True if anything moved.

    Providers are served side by side. After ``patience`` seconds the tick goes on without the threads that are still
    busy, and a later tick picks up what they did; None waits for all. With a patience, pages wait for a tick in which
    nothing else moves, or for the end.
    """
    run.store.require_session()
    run.engine.is_remaking = False
    with run.store.reading_once():
        moved = plan(run)  # manifest → jobs, requests, batch files
        tick = Tick(is_cancelled=run.store.row().cancelled)
        moved |= _serve_providers(run, tick, patience)
        moved |= grade(run)  # responses → predictions, verdicts
        moved |= score(run)  # verdicts → votes
        moved |= _rank(run)  # votes and labels → leaderboard
        if not moved or patience is None or is_finished(run):  # else pages wait for a tick in which nothing comes
            moved |= publish(run)  # finished tables → site, cost report
    return moved


def _serve_providers(run: Run, tick: Tick, patience: float | None) -> bool:
    """Submit, poll and collect what is due, and close bills, each provider in a few threads of its own. What is
    cancelled is withdrawn without waiting to be due."""
    now = run.clock.now()
    batches = run.store.batches(OPEN - {Lifecycle.LOST})
    ready = to_send(run, tick, [batch for batch in batches if batch.state in TO_SEND])
    due = {run.threads.of(batch) for batch in batches if tick.is_cancelled or is_due(batch.due_at, now)}
    uncertain = to_close(run)

    def serve(thread: ProviderThread, to_settle: Sequence[Batch]) -> bool:
        close(run, tick, thread, uncertain.get(thread, ()))  # given-up creates: made, or not
        moved = send(run, tick, thread, to_settle)  # planned → in flight (the paid call)
        at_provider = run.store.batches(AT_PROVIDER | {Lifecycle.ENDED}, thread.provider)
        sent = [batch for batch in at_provider if run.threads.of(batch) == thread]
        moved |= poll(run, tick, thread, sent)  # in flight → ended
        if moved or any(batch.state is Lifecycle.ENDED for batch in sent):
            moved |= collect(run, tick, thread)  # ended → collected: answers, outcomes, the bill
        return moved

    threads = sorted(due | uncertain.keys())
    return run.threads.work(serve, {thread: ready.get(thread, ()) for thread in threads}, patience)


def _rank(run: Run) -> bool:
    """Rank the models that are done. Statistics are imported only where a board can be made."""
    jobs = run.store.jobs()
    if has_models(jobs) and not finished(jobs):
        return False
    from layton_batch.stages.rank import rank

    return rank(run)


def make_board(run: Run) -> None:
    """Score what is graded, and make the board and the pages again."""
    from layton_batch.stages.rank import rank

    score(run)
    rank(run)
    publish(run)


def is_finished(run: Run) -> bool:
    """Return whether the run is over but for what a person has to see to."""
    jobs = run.store.jobs()
    if run.engine.is_remaking or run.threads.are_busy or run.store.planned_of_retired():
        return False
    job_ids, trouble = _left(run, jobs), run.engine.trouble
    jobs = [replace(job, graded=True) if job.id in job_ids else job for job in jobs]
    batches = [
        batch
        for batch in run.store.batches(OPEN)
        if batch.state is not Lifecycle.ENDED or batch.job_id not in trouble  # else nobody collects it
    ]
    return is_over(run.store.row(), jobs, batches)


def _left(run: Run, jobs: Sequence[Job]) -> set[str]:
    """The jobs that a person has to see to, and those that wait for them."""
    if not run.engine.trouble:
        return set()
    waits_for = {job.id: job.depends_on for job in jobs}
    waits_for |= {job_id: rejudged.own for job_id, rejudged in run.rejudging.items()}
    return {job_id for job_id, other in waits_for.items() if {job_id, other} & run.engine.trouble.keys()}


def next_due(run: Run) -> float | None:
    """Return when the next batch is due, or another run is to be looked at that asks for answers which this one waits
    for (epoch seconds); None where nothing is waiting for time to pass."""
    states, now = OPEN - {Lifecycle.LOST}, run.clock.now()
    due = run.store.next_due(now, states, run.pacing, uncollected=run.engine.trouble.keys())
    if due is not None:
        return due
    ungraded = [job.id for job in run.store.jobs() if job.planned and not job.graded]
    return now + run.pacing.idle if run.store.unfinished(ungraded) else None
