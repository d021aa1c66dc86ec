"""Collect: from ended batches to every answer in Parquet, every request with exactly one outcome, and the bill.

Raw bytes first, as they came; then each line by itself: a line that cannot be read costs that line. Requests without
an answer go into another attempt while there is one; all of it lands in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial

from layton_batch.batches import machine
from layton_batch.batches.answers import batch_digests, write_answers
from layton_batch.batches.attempts import Attempts
from layton_batch.batches.batch_results import (
    DownloadResult,
    RawResultFile,
    Replies,
    assign_outcomes,
    check_download,
    read_replies,
    store,
    summed,
)
from layton_batch.batches.bill import Bill, known_sums
from layton_batch.batches.steps import NoAnswer, Tick, at, carry_out
from layton_batch.clock import is_due
from layton_batch.costs.stated import CostComparison
from layton_batch.errors import ProviderError, ProviderReplyError
from layton_batch.files import atomic
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Collect, Job, Response, Snapshot, Wait
from layton_batch.runs.context import Run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.states import FinishReason, Lifecycle, RequestOutcome


def collect(run: Run, tick: Tick, thread: ProviderThread) -> bool:
    """Download and file the results of the thread's ended batches that are due."""
    now = run.clock.now()
    ended = [
        batch
        for batch in run.store.batches({Lifecycle.ENDED}, thread.provider)
        if run.threads.of(batch) == thread and is_due(batch.due_at, now) and batch.job_id not in run.engine.trouble
    ]
    if not ended:
        return False
    jobs, moved = {job.id: job for job in run.store.all_jobs()}, False
    for batch in ended:
        if run.stopping.is_set():
            break
        try:
            moved |= run.engine.apart(batch.job_id, partial(_collect_one, run, tick, jobs[batch.job_id], batch))
        except NoAnswer:
            break  # each other download would wait as long
    if moved:
        run.store.set_stopped(None, now)  # money was let go: the next tick sees what can be afforded now
    return moved


def _collect_one(run: Run, tick: Tick, job: Job, batch: Batch) -> bool:
    snapshot, files, error = _download(run, tick, batch)
    max_costs = run.store.asked_of(batch.id)
    with run.filing:  # one batch's texts at a time are in memory
        replies = read_replies(run.folder.batch(batch.id).root, partial(_decode, run, batch))
        result = DownloadResult()
        if snapshot is not None:
            result = check_download(batch, snapshot, files, replies, max_costs.keys(), error)
        decision = machine.after_download(batch, result, at(run, batch))
        for path in replies.useless:
            atomic.remove(path)
        if isinstance(decision, Wait):
            return carry_out(run, batch, decision, error)
        _file(run, tick, job, batch, decision, snapshot, max_costs, replies)
    return True


def _decode(run: Run, batch: Batch, line: bytes) -> Response:
    run.heed_stop()
    return run.providers.dialect(batch.provider).decode(line)


def _download(
    run: Run, tick: Tick, batch: Batch
) -> tuple[Snapshot | None, Sequence[RawResultFile], ProviderError | None]:
    """Bring a batch's raw results to disk. Return what the provider says of it (None: the batch never reached the
    provider), the files, and the error of a call that failed: earlier downloads may have everything all the same."""
    if batch.provider_id is None:
        return None, (), None
    provider, error = run.providers.of(run.threads.of(batch)), None
    snapshot = tick.ended.pop(batch.id, None)  # once: a second download wants a newer one
    if snapshot is None:
        snapshot, error = _latest(provider, batch)
    try:
        return snapshot, store(run.folder.batch(batch.id).root, provider.results(snapshot)), error
    except ProviderError as failed:
        return snapshot, (), failed


def _latest(provider: Provider, batch: Batch) -> tuple[Snapshot, ProviderError | None]:
    """Read an ended batch once more, for its counts. If that fails, return what the store knows, and the error."""
    stored = Snapshot(
        provider_id=str(batch.provider_id),
        provider_status=batch.provider_status or "",
        state=Lifecycle.ENDED,
        outcome=batch.outcome,
        results_ref=batch.results_ref,
        errors_ref=batch.errors_ref,
    )
    try:
        latest = provider.snapshot(str(batch.provider_id))
    except ProviderError as error:
        return stored, error
    if latest.state is Lifecycle.ENDED:
        return latest, None
    return stored, ProviderReplyError(f"{batch.provider} now says {latest.provider_status}")


def _file(
    run: Run,
    tick: Tick,
    job: Job,
    batch: Batch,
    decision: Collect,
    snapshot: Snapshot | None,
    max_costs: Mapping[str, Decimal | None],
    replies: Replies,
) -> None:
    """Write the answers, and enter how each request ended and what it cost. ``snapshot``: what the provider says of the
    batch as a whole. ``max_costs``: upper bounds in USD by custom_id."""
    reason = (snapshot.message if snapshot else None) or batch.reason
    out_of_reach = max_costs if decision.lacking is not None else ()
    outcomes = assign_outcomes(replies, list(max_costs), batch, reason, out_of_reach)
    reason = reason or outcomes.account_trouble
    bill, cut = Bill(run.prices.price(batch.provider, batch.model), max_costs), list[str]()

    def enter(responses: Sequence[Response]) -> None:
        run.heed_stop()
        bill.enter(responses)
        answered = [response for response in responses if response.outcome is RequestOutcome.SUCCEEDED]
        cut.extend(response.custom_id for response in answered if response.finish_reason is FinishReason.LENGTH)

    folder = run.folder.batch(batch.id)
    write_answers(folder, batch, outcomes, enter)
    stated = bill.stated(snapshot)
    comparison = CostComparison(batch.id, batch.provider, job.spec.name, stated, known_sums(bill.charges))
    costs = [("cost_stated", comparison.text)] if stated.usd is not None else []
    if comparison.differs:
        costs = [("cost_differs", comparison.text)]
    attempts, now = Attempts.of(batch, run.store.job_batches(job.id)), run.clock.now()
    again = frozenset() if tick.is_cancelled else attempts.again(outcomes.ends, run.manifest.policy.attempts)
    move = machine.collected(
        decision, reason, now,
        ends=outcomes.ends,
        again=again,
        charges=bill.charges,
        cut=cut,
        files=batch_digests(folder, run.folder.workspace.root),
        stated=stated,
        events=(*summed(outcomes.anomalies), *bill.anomalies(), *costs),
        spent=bill.spent,
        unknown=bill.unknown_cost,
    )  # fmt: skip
    run.store.apply(batch, move, now)
