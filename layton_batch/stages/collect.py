"""Collect: from ended batches to every answer in Parquet, every request with exactly one outcome, and the bill.

Raw bytes first, as they came; then each line by itself: a line that cannot be read costs that line. Requests without
an answer go into another attempt while there is one; all of it lands in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from layton_batch.batches import raw_results
from layton_batch.batches.attempts import next_attempts
from layton_batch.batches.backoff import backoff
from layton_batch.batches.batch_requests import batch_requests
from layton_batch.batches.completeness import DOWNLOADS, Reading, counted, lack
from layton_batch.batches.late import is_late
from layton_batch.batches.outcomes import Tally, assign_outcomes, count_rows, summed
from layton_batch.batches.replies import Replies, unpacked
from layton_batch.batches.usage_rows import Bill, bounds
from layton_batch.clock import is_due
from layton_batch.errors import ProviderError, ProviderReplyError, RequestRefusedError, StaleStateError
from layton_batch.files import atomic, tables
from layton_batch.providers.protocol import Provider
from layton_batch.providers.wire_errors import clean
from layton_batch.records import Batch, Job, Response, Snapshot
from layton_batch.run.context import Run
from layton_batch.states import ErrorClass, Lifecycle, RequestOutcome
from layton_batch.store import Entry
from layton_batch.store.standing import ACTUAL, RELEASED, UNTOLD

SHORT, GREW = "download_short", "download_grew"
"""Events: a download that was short and brought nothing new; one that did, from which the former are counted anew.
Downloads that failed are not counted with them."""
GONE = frozenset({403, 404, 410})
LONG_ENOUGH = 14 * 86_400.0
"""Seconds after a batch's end for which a download that fails in passing is tried again at every provider."""


def collect(run: Run, provider: str) -> bool:
    """Download and file the results of the provider's ended batches that are due."""
    now = run.clock.now()
    its = [batch for batch in run.store.batches({Lifecycle.ENDED}) if batch.provider == provider]
    ended = [batch for batch in its if is_due(batch.due_at, now) and batch.job_id not in run.trouble]
    jobs = {job.id: job for job in run.store.jobs()}
    with closing(run.claimed(ended)) as claimed:  # let go at once, also where one of them ends the run
        moved = [run.apart(one.job_id, partial(_collect_one, run, jobs[one.job_id], one)) for one in claimed]
    if any(moved):
        run.store.set_stopped(None, now)  # money was let go: the next tick sees what can be afforded now
    return any(moved)


@dataclass(frozen=True, slots=True)
class _Fetched:
    """What was brought to disk. ``lacking``: why what it does not name is out of reach; None: it is all there is."""

    lacking: str | None = None


_WHOLE = _Fetched()


def _collect_one(run: Run, job: Job, batch: Batch) -> bool:
    dialect = run.providers.dialect(batch.provider)

    def decode(line: bytes) -> Response:
        run.heed_stop()
        return dialect.decode(line)

    try:
        download = _download(run, batch)
        if download is None:
            return False
        asked, folder = batch_requests(run, batch), run.folder.raw(batch.id)
        with run.filing, unpacked(folder, decode, run.folder.root) as replies:
            reading = Reading(replies, frozenset(asked["custom_id"]))
            raw_results.prune(folder, reading.naming)
            fetched = _checked(run, batch, download, reading)
            if fetched is None:
                return False
            said = download.snapshot.message if download.snapshot else None
            _file(run, job, replace(batch, reason=said or batch.reason), asked, fetched, replies)
    except StaleStateError:
        return False  # another process collected it
    return True


@dataclass(frozen=True, slots=True)
class _Download:
    """What is on disk now. ``parts``: of this download; None where there was nothing to download, or it ``failed`` for
    good and what an earlier one left has to do. ``uncounted``: why the provider did not say this time how many answers
    there are."""

    snapshot: Snapshot | None = None
    parts: Sequence[raw_results.Stored] | None = None
    failed: str | None = None
    uncounted: ProviderError | None = None


def _download(run: Run, batch: Batch) -> _Download | None:
    """Bring the raw results to disk. None: not yet, try again later.

    A download that fails is tried again as long as the provider may have the results: what is there was paid for.
    """
    if batch.provider_id is None:
        return _Download()  # never reached the provider
    provider = run.providers.get(batch.provider)
    snapshot, uncounted = _latest(provider, batch)
    refs = {"output": snapshot.results_ref, "errors": snapshot.errors_ref}
    try:
        parts = raw_results.store(run.folder.raw(batch.id), provider.results(snapshot), refs)
        return _Download(snapshot, parts, uncounted=uncounted)
    except ProviderError as error:
        reason = f"download failed: {error}"
        if not _may_be_kept(run, batch, error):
            return _Download(snapshot, failed=reason)
        _try_again(run, batch, reason, getattr(error, "retry_after", None))
    return None


def _checked(run: Run, batch: Batch, download: _Download, reading: Reading) -> _Fetched | None:
    """Whether what is on disk is all there is. None: perhaps not, download it again later."""
    if download.snapshot is None:
        return _WHOLE
    snapshot, parts = counted(batch, download.snapshot, reading), download.parts or ()
    lacking = lack(batch, snapshot, parts, reading)
    if lacking is None:
        return _WHOLE
    if download.failed is not None:
        return _give_up(run, batch, download.failed, billed=snapshot.succeeded != 0)
    if download.uncounted is not None:
        return _until_counted(run, batch, download.uncounted, snapshot, reading)
    event = None
    if lacking.downloads is None:
        again = _has_time(run, batch, at_most=lacking.seconds)
    else:
        event = GREW if reading.grew(parts) else SHORT
        again = event == GREW or run.store.events_since(batch.id, {"ended", GREW}, SHORT) + 1 < lacking.downloads
    if again:
        _try_again(run, batch, lacking.reason, event=event)
        return None
    return _give_up(run, batch, lacking.reason, billed=True) if lacking.billed else _WHOLE


def _until_counted(
    run: Run, batch: Batch, uncounted: ProviderError, snapshot: Snapshot, reading: Reading
) -> _Fetched | None:
    """Whether requests that no line names were answered cannot be told: later, as long as results are kept."""
    named = f"{len(reading.ours)} of {batch.requests} requests are named"
    reason = f"{named}; whether that is all there is cannot be told: {uncounted}"
    if not _may_be_kept(run, batch, uncounted):
        return _give_up(run, batch, reason, billed=snapshot.succeeded != 0)
    _try_again(run, batch, reason)
    return None


def _latest(provider: Provider, batch: Batch) -> tuple[Snapshot, ProviderError | None]:
    """A fresh reading of an ended batch, for its counts; what the store knows, and why, where there is none."""
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


def _may_be_kept(run: Run, batch: Batch, error: ProviderError) -> bool:
    """Whether the provider may still have the results. Its documents say how long, and err on the short side: a plain
    refusal after that time is believed, a failure in passing is not, and never at the first few tries (a run may have
    slept for weeks)."""
    if isinstance(error, RequestRefusedError) and error.status in GONE:
        return not is_late(run, batch, (batch.ended_at or 0.0) + _retention(run, batch))
    return _has_time(run, batch)


def _has_time(run: Run, batch: Batch, at_most: float | None = None) -> bool:
    """Whether a download that failed in passing is worth another."""
    worth = at_most or max(3 * _retention(run, batch), LONG_ENOUGH)
    return batch.failures < DOWNLOADS or not is_late(run, batch, (batch.ended_at or 0.0) + worth)


def _retention(run: Run, batch: Batch) -> float:
    return run.providers.dialect(batch.provider).limits.retention_seconds


def _try_again(
    run: Run, batch: Batch, reason: str, retry_after: float | None = None, *, event: str | None = None
) -> None:
    now = run.clock.now()
    run.store.note(
        batch,
        now,
        event=event or ("download_again" if reason != batch.reason else None),
        detail=reason,
        due_at=now + backoff(batch.failures, retry_after),
        failures=batch.failures + 1,
        reason=reason,
    )


def _give_up(run: Run, batch: Batch, reason: str, *, billed: bool) -> _Fetched:
    """Go on with what is on disk; where the rest may have been ``billed``, it is out of reach."""
    run.store.note(batch, run.clock.now(), event="download_given_up", detail=reason, reason=reason)
    return _Fetched(reason) if billed else _WHOLE


def _file(run: Run, job: Job, batch: Batch, asked: pl.DataFrame, fetched: _Fetched, replies: Replies) -> None:
    tally = assign_outcomes(replies.entries, asked["custom_id"].to_list(), batch)
    if fetched.lacking is not None:
        named = {one.custom_id for one in replies.entries if not isinstance(one, str)}
        _put_out_of_reach(tally, named, fetched.lacking)
    bill = Bill(run.prices, job, batch, bounds(asked))
    run.store.note(batch, run.clock.now())  # still ours: who took it over meanwhile may have collected more
    _write_tables(run, job, batch, map(replies.whole, tally.responses.values()), bill)
    children, resubmitted = next_attempts(run, batch, tally)
    counts = count_rows(batch, tally, resubmitted)
    if sum(row.count for row in counts) != batch.requests:
        raise AssertionError(f"batch {batch.id}: {batch.requests} requests, but outcomes add up otherwise: {counts}")
    now = run.clock.now()
    run.store.move(
        batch,
        Lifecycle.COLLECTED,
        now,
        event="collected",
        detail=", ".join(f"{row.count} {row.outcome}" for row in counts),
        notes=(*summed(tally.anomalies), *bill.anomalies()),
        counts=counts,
        children=children,
        money=_money(run, batch, bill),
        due_at=now,
        reason=fetched.lacking or batch.reason,
    )


def _money(run: Run, batch: Batch, bill: Bill) -> list[Entry]:
    """What is still set aside for the batch is let go; what it cost, and what nobody can tell whether it did, takes its
    place."""
    amounts = {RELEASED: run.store.held(batch.id), ACTUAL: bill.spent, UNTOLD: bill.untold}
    return [Entry(batch.id, kind, usd) for kind, usd in amounts.items() if usd]


def _put_out_of_reach(tally: Tally, named: Collection[str], reason: str) -> None:
    """What no line names was perhaps answered and paid for: whether it is bought again is a person's word (`retry`)."""
    for custom_id, response in tally.responses.items():
        if custom_id not in named and isinstance(response, Response):
            tally.responses[custom_id] = replace(
                response, error_class=ErrorClass.OUT_OF_REACH, error_message=clean(reason, 500)
            )


def _write_tables(run: Run, job: Job, batch: Batch, responses: Iterable[Response], bill: Bill) -> None:
    """Responses and usage of the batch, and, where there are any, the requests whose cost nobody can tell."""
    with (
        tables.writing(run.folder.part("usage", batch.id), "usage") as charge,
        atomic.writing_folder(run.folder.tables / "responses" / batch.id) as folder,
    ):
        for number, portion in enumerate(tables.portions(_response_rows(job, batch, responses, bill, charge))):
            tables.write(folder / f"{number:05d}.parquet", tables.frame("responses", portion))
    untold = run.folder.part("untold", batch.id)
    if bill.untold_rows:
        tables.write_rows(untold, "untold", bill.untold_rows)
    else:
        untold.unlink(missing_ok=True)  # of a collecting that a stop cut short, with another download


def _response_rows(
    job: Job, batch: Batch, responses: Iterable[Response], bill: Bill, charge: Callable[[tables.Row], None]
) -> Iterator[tables.Row]:
    for response in responses:
        if response.outcome is RequestOutcome.SUCCEEDED:
            charge(bill.row(response))
        else:
            bill.note(response)
        yield _response_row(job, batch, response)


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
