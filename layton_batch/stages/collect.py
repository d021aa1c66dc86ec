"""Collect: from ended batches to every answer in Parquet, every request with exactly one outcome, and the bill.

Raw bytes first, as they came; then each line by itself: a line that cannot be read costs that line. Requests without
an answer go into another attempt while there is one; all of it lands in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

import polars as pl

from layton_batch import atomic, tables
from layton_batch.errors import ProviderError, StaleStateError
from layton_batch.records import Batch, Job, Response, Snapshot
from layton_batch.run import Run
from layton_batch.stages import raw_results
from layton_batch.stages.backoff import backoff
from layton_batch.stages.outcomes import Tally, count_rows, settle
from layton_batch.stages.resubmit import next_attempt
from layton_batch.stages.usage_rows import charge_rows
from layton_batch.states import Lifecycle, RequestOutcome
from layton_batch.store import Entry

DOWNLOADS = 5
"""How often a download that fails or comes cut off is repeated before what is there is taken."""
PART_ROWS = 5_000


def collect(run: Run) -> bool:
    """Download and file the results of every ended batch that is due."""
    now = run.clock.now()
    ended = [batch for batch in run.store.batches({Lifecycle.ENDED}) if batch.due_at <= now]
    jobs = {job.id: job for job in run.store.jobs()}
    moved = [_collect_one(run, jobs[batch.job_id], batch) for batch in ended]
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
    """Bring the raw results to disk. False: not yet, try again later."""
    if batch.provider_id is None:
        return True  # never reached the provider: there is nothing to download
    snapshot = Snapshot(
        provider_id=batch.provider_id,
        provider_status=batch.provider_status or "",
        state=Lifecycle.ENDED,
        outcome=batch.outcome,
        results_ref=batch.results_ref,
        errors_ref=batch.errors_ref,
    )
    try:
        paths = raw_results.store(run.folder.raw(batch.id), run.providers.get(batch.provider).results(snapshot))
    except ProviderError as error:
        return _try_again(run, batch, f"download failed: {error}", getattr(error, "retry_after", None))
    if any(_cut_off(run, batch, path) for path in paths):
        return _try_again(run, batch, "the results end in the middle of a line; downloading again", None)
    return True


def _cut_off(run: Run, batch: Batch, path: Path) -> bool:
    """Whether a part's last line has no newline and cannot be read."""
    decode = run.providers.dialect(batch.provider).decode
    for line, complete in raw_results.lines(path):
        if not complete:
            try:
                decode(line)
            except ProviderError:
                return True
    return False


def _try_again(run: Run, batch: Batch, reason: str, retry_after: float | None) -> bool:
    """Wait and download again; when tries run out, go on with what is on disk (True)."""
    now = run.clock.now()
    if batch.failures + 1 >= DOWNLOADS:
        run.store.note(batch, now, event="download_given_up", detail=reason, reason=reason)
        return True
    due = now + backoff(batch.failures, retry_after)
    run.store.note(
        batch, now, event="download_again", detail=reason, due_at=due, failures=batch.failures + 1, reason=reason
    )
    return False


def _file(run: Run, job: Job, batch: Batch) -> None:
    sent = _sent(run, batch)
    tally = settle(_responses(run, batch), sent, batch)
    spent = _write_tables(run, job, batch, tally)
    child, resubmitted = next_attempt(run, job, batch, tally)
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
        children=[child] if child else [],
        money=_money(batch, spent),
        due_at=now,
    )


def _money(batch: Batch, spent: Decimal) -> list[Entry]:
    """What was set aside for the batch is let go, and what it cost takes its place."""
    if batch.submitted_at is None:
        return []
    return [Entry(batch.id, "released", batch.max_cost or Decimal(0)), Entry(batch.id, "actual", spent)]


def _sent(run: Run, batch: Batch) -> dict[str, str]:
    """custom_id → item_id of the requests in this batch's file, in its order."""
    requests = pl.read_parquet(run.folder.part("requests", batch.job_id), columns=["custom_id", "item_id", "shard_id"])
    if batch.parent_id is None:
        requests = requests.filter(pl.col("shard_id") == batch.shard_id)
    else:
        attempt = pl.read_parquet(run.folder.part("attempts", batch.id))
        requests = attempt.join(requests, on="custom_id", how="left", maintain_order="left")
    return dict(zip(requests["custom_id"], requests["item_id"], strict=True))


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
