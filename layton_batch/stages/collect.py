"""Collect: from ended batches to every answer in Parquet, every request with exactly one outcome, and the bill.

Raw bytes first, as they came; then each line by itself: a line that cannot be read costs that line. Requests without
an answer go into another attempt while there is one; all of it lands in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path

from layton_batch import atomic, tables
from layton_batch.errors import ProviderError, StaleStateError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Job, Response, Snapshot
from layton_batch.run import Run
from layton_batch.stages import raw_results
from layton_batch.stages.backoff import backoff
from layton_batch.stages.outcomes import Tally, count_rows, settle
from layton_batch.stages.resubmit import next_attempts
from layton_batch.stages.sent import sent
from layton_batch.stages.usage_rows import charge_rows
from layton_batch.states import BatchOutcome, Lifecycle, RequestOutcome
from layton_batch.store import Entry

DOWNLOADS = 5
"""How often a download that comes short is repeated before what is there is taken for all there is."""
PART_ROWS = 5_000


def collect(run: Run) -> bool:
    """Download and file the results of every ended batch that is due."""
    now = run.clock.now()
    ended = [batch for batch in run.store.batches({Lifecycle.ENDED}) if batch.due_at <= now]
    jobs = {job.id: job for job in run.store.jobs()}
    moved = [_collect_one(run, jobs[batch.job_id], batch) for batch in run.taken(ended)]
    if any(moved):
        run.store.set_stopped(None, now)  # money was let go: the next tick sees what can be afforded now
    return any(moved)


def _collect_one(run: Run, job: Job, batch: Batch) -> bool:
    try:
        if not _download(run, batch):
            return False
        _file(run, job, batch)
    except StaleStateError:
        return False  # another process collected it
    return True


def _download(run: Run, batch: Batch) -> bool:
    """Bring the raw results to disk. False: not yet, try again later.

    A download that fails is tried again for as long as the provider keeps results: what is there was paid for.
    """
    if batch.provider_id is None:
        return True  # never reached the provider: there is nothing to download
    provider = run.providers.get(batch.provider)
    try:
        snapshot = _latest(provider, batch)
        paths = raw_results.store(run.folder.raw(batch.id), provider.results(snapshot))
    except ProviderError as error:
        wait = getattr(error, "retry_after", None)
        return _try_again(run, batch, f"download failed: {error}", wait, _kept(run, batch))
    short = _shortage(run, batch, snapshot, paths)
    return True if short is None else _try_again(run, batch, short, None, batch.failures + 1 < DOWNLOADS)


def _latest(provider: Provider, batch: Batch) -> Snapshot:
    """A fresh reading of an ended batch, for its counts; what the store knows where there is none."""
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
    except ProviderError:
        return stored
    return latest if latest.state is Lifecycle.ENDED else stored


def _kept(run: Run, batch: Batch) -> bool:
    """Whether the provider still keeps this batch's results."""
    retention = run.providers.dialect(batch.provider).limits.retention_seconds
    return run.clock.now() < (batch.ended_at or 0.0) + retention


def _shortage(run: Run, batch: Batch, snapshot: Snapshot, paths: Sequence[Path]) -> str | None:
    """Why what was downloaded cannot be all there is; None where it can."""
    decode = run.providers.dialect(batch.provider).decode
    answers = 0
    for path in paths:
        for line, complete in raw_results.lines(path):
            try:
                answers += decode(line).outcome is RequestOutcome.SUCCEEDED
            except ProviderError:
                if not complete:
                    return f"{path.name} ends in the middle of a line"
    expected = snapshot.succeeded or 0
    if batch.outcome is BatchOutcome.COMPLETED and answers < expected:
        return f"{answers} answers came, the provider counts {expected}"
    return None


def _try_again(run: Run, batch: Batch, reason: str, retry_after: float | None, worth_it: bool) -> bool:
    """Wait and download again (False); when that is no longer worth it, go on with what is on disk (True)."""
    now = run.clock.now()
    if not worth_it:
        run.store.note(batch, now, event="download_given_up", detail=reason, reason=reason)
        return True
    run.store.note(
        batch,
        now,
        event="download_again" if reason != batch.reason else None,
        detail=reason,
        due_at=now + backoff(batch.failures, retry_after),
        failures=batch.failures + 1,
        reason=reason,
    )
    return False


def _file(run: Run, job: Job, batch: Batch) -> None:
    asked = sent(run, batch)
    tally = settle(_responses(run, batch), asked["custom_id"].to_list(), batch)
    spent = _write_tables(run, job, batch, tally)
    children, resubmitted = next_attempts(run, batch, tally)
    counts = count_rows(batch, tally, resubmitted)
    if sum(row.count for row in counts) != batch.requests:
        raise AssertionError(f"batch {batch.id}: {batch.requests} requests, but outcomes add up otherwise: {counts}")
    now = run.clock.now()
    for kind, detail in tally.oddities:
        run.store.add_event(now, batch.id, kind, detail)
    run.store.move(
        batch,
        Lifecycle.COLLECTED,
        now,
        event="collected",
        detail=", ".join(f"{row.count} {row.outcome}" for row in counts),
        counts=counts,
        children=children,
        money=_money(batch, spent),
        due_at=now,
    )


def _money(batch: Batch, spent: Decimal) -> list[Entry]:
    """What was set aside for the batch is let go, and what it cost takes its place."""
    if batch.submitted_at is None:
        return []
    return [Entry(batch.id, "released", batch.max_cost or Decimal(0)), Entry(batch.id, "actual", spent)]


def _responses(run: Run, batch: Batch) -> Iterable[Response | str]:
    """Every stored line decoded, or the reason it could not be."""
    decode = run.providers.dialect(batch.provider).decode
    for path in sorted(run.folder.raw(batch.id).glob("*.jsonl.zst")):
        for number, (line, _) in enumerate(raw_results.lines(path), 1):
            try:
                yield decode(line)
            except ProviderError as error:
                yield f"{path.name} line {number}: {error}"


def _write_tables(run: Run, job: Job, batch: Batch, tally: Tally) -> Decimal:
    """Responses and usage of the batch; returns what it cost."""
    responses = [_response_row(job, batch, response) for response in tally.responses.values()]
    with atomic.writing_folder(run.folder.tables / "responses" / batch.id) as folder:
        for start in range(0, len(responses), PART_ROWS):
            part = tables.frame("responses", responses[start : start + PART_ROWS])
            tables.write(folder / f"{start // PART_ROWS:05d}.parquet", part)
    answered = [one for one in tally.responses.values() if one.outcome is RequestOutcome.SUCCEEDED]
    rows, spent = charge_rows(run.prices, job, batch, answered)
    tables.write(run.folder.part("usage", batch.id), tables.frame("usage", rows))
    return spent


def _response_row(job: Job, batch: Batch, response: Response) -> dict[str, object]:
    return {
        "custom_id": response.custom_id,
        "job_id": job.id,
        "batch_id": batch.id,
        "attempt": batch.attempt,
        "outcome": str(response.outcome),
        "error_class": str(response.error_class),
        "error_code": response.error_code,
        "error_message": response.error_message,
        "text": tables.storable(response.text),
        "finish_reason": str(response.finish_reason) if response.finish_reason else None,
        "raw_finish_reason": response.raw_finish_reason,
        "refusal": tables.storable(response.refusal),
        "served_model": response.served_model,
    }
