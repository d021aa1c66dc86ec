"""Collect: from ended batches to every answer in Parquet, every request with exactly one outcome, and the bill.

Raw bytes first, as they came; then each line by itself: a line that cannot be read costs that line. Requests without
an answer go into another attempt while there is one; all of it lands in one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum

from layton_batch import atomic, tables
from layton_batch.errors import ProviderError, RequestRefusedError, StaleStateError
from layton_batch.providers import damaged_rows
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Job, Response, Snapshot
from layton_batch.run import Run
from layton_batch.stages import raw_results
from layton_batch.stages.backoff import backoff
from layton_batch.stages.outcomes import Tally, count_rows, settle
from layton_batch.stages.resubmit import next_attempts
from layton_batch.stages.sent import sent
from layton_batch.stages.usage_rows import charge_rows
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome
from layton_batch.store import Entry

DOWNLOADS, DOWNLOADS_UNCOUNTED = 10, 5
"""How often results are downloaded that come short of the provider's count, or, where it has none, of our requests."""
SHORT = "download_short"
"""The event of each of those; downloads that failed are not counted with them."""
GONE = frozenset({403, 404, 410})
LONG_ENOUGH = 14 * 86_400.0
"""Seconds after a batch's end for which a download that fails in passing is tried again at every provider."""
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


class _Fetched(Enum):
    """What was brought to disk: all that there is, or less than the provider says that it answered."""

    WHOLE = "whole"
    SHORT = "short"


def _collect_one(run: Run, job: Job, batch: Batch) -> bool:
    try:
        fetched = _download(run, batch)
        if fetched is None:
            return False
        _file(run, job, batch, fetched)
    except StaleStateError:
        return False  # another process collected it
    return True


def _download(run: Run, batch: Batch) -> _Fetched | None:
    """Bring the raw results to disk. None: not yet, try again later.

    A download that fails is tried again as long as the provider may have the results: what is there was paid for.
    """
    if batch.provider_id is None:
        return _Fetched.WHOLE  # never reached the provider: there is nothing to download
    provider = run.providers.get(batch.provider)
    snapshot = _latest(provider, batch)
    try:
        parts = raw_results.store(run.folder.raw(batch.id), provider.results(snapshot))
    except ProviderError as error:
        wait = getattr(error, "retry_after", None)
        if _may_be_kept(run, batch, error):
            _try_again(run, batch, f"download failed: {error}", wait)
            return None
        return _give_up(run, batch, f"download failed: {error}", snapshot)
    short = _shortage(run, batch, snapshot, parts)
    if short is None:
        return _Fetched.WHOLE
    if run.store.events_since(batch.id, {"ended"}, SHORT) + 1 < short.downloads:
        _try_again(run, batch, short.reason, event=SHORT)
        return None
    return _give_up(run, batch, short.reason, snapshot) if short.certain else _Fetched.WHOLE


@dataclass(frozen=True, slots=True)
class _Short:
    """Why what was downloaded is not all there is: ``certain`` by the provider's own word or a damaged file, else only
    because requests of ours are not in it."""

    reason: str
    certain: bool = True

    @property
    def downloads(self) -> int:
        """How often it is worth another download."""
        return DOWNLOADS if self.certain else DOWNLOADS_UNCOUNTED


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


def _may_be_kept(run: Run, batch: Batch, error: ProviderError) -> bool:
    """Whether the provider may still have the results. Its documents say how long, and err on the short side: a plain
    refusal after that time is believed, a failure in passing is not, and never at the first few tries (a run may have
    slept for weeks)."""
    age = run.clock.now() - (batch.ended_at or 0.0)
    documented = run.providers.dialect(batch.provider).limits.retention_seconds
    if isinstance(error, RequestRefusedError) and error.status in GONE:
        return age < documented
    return age < max(3 * documented, LONG_ENOUGH) or batch.failures < DOWNLOADS


def _shortage(run: Run, batch: Batch, snapshot: Snapshot, parts: Sequence[raw_results.Stored]) -> _Short | None:
    """What is missing from the downloaded files; None where they can be all there is."""
    decode = run.providers.dialect(batch.provider).decode
    answers, unreadable, named = 0, 0, set[str]()
    for part in parts:
        for line, complete in raw_results.lines(part.path):
            try:
                response = decode(line)
            except ProviderError:
                unreadable += 1
                if not complete:
                    return _Short(f"{part.path.name} ends in the middle of a line")
            else:
                answers += response.outcome is RequestOutcome.SUCCEEDED
                named.add(response.custom_id)
    if snapshot.succeeded is not None and answers < snapshot.succeeded:
        return _Short(f"{answers} answers came, the provider counts {snapshot.succeeded}")
    for part in parts:
        if part.is_short and len(named) < batch.requests:
            return _Short(f"{part.arrived} of the {part.size} bytes of {part.path.name} came")
    if snapshot.succeeded is None and batch.outcome is BatchOutcome.COMPLETED and len(named) < batch.requests:
        return _Short(f"{len(named)} of {batch.requests} requests are named", certain=unreadable > 0)
    return None


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


def _give_up(run: Run, batch: Batch, reason: str, snapshot: Snapshot) -> _Fetched:
    """Go on with what is on disk."""
    run.store.note(batch, run.clock.now(), event="download_given_up", detail=reason, reason=reason)
    return _Fetched.WHOLE if snapshot.succeeded == 0 else _Fetched.SHORT


def _file(run: Run, job: Job, batch: Batch, fetched: _Fetched) -> None:
    asked, named = sent(run, batch), set[str]()
    tally = settle(_noted(_responses(run, batch), named), asked["custom_id"].to_list(), batch)
    if fetched is _Fetched.SHORT:
        _put_out_of_reach(tally, named)
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


def _noted(decoded: Iterable[Response | str], named: set[str]) -> Iterator[Response | str]:
    for entry in decoded:
        if isinstance(entry, Response):
            named.add(entry.custom_id)
        yield entry


def _put_out_of_reach(tally: Tally, named: Collection[str]) -> None:
    """What no line names was perhaps answered and paid for: whether it is bought again is a person's word (`retry`)."""
    for custom_id, response in tally.responses.items():
        if custom_id not in named:
            tally.responses[custom_id] = replace(response, error_class=ErrorClass.OUT_OF_REACH)


def _responses(run: Run, batch: Batch) -> Iterable[Response | str]:
    """Every stored line decoded, or the reason it could not be; a damaged line speaks for the requests it names."""
    decode = run.providers.dialect(batch.provider).decode
    for path in sorted(run.folder.raw(batch.id).glob("*.jsonl.zst")):
        for number, (line, _) in enumerate(raw_results.lines(path), 1):
            try:
                yield decode(line)
            except ProviderError as error:
                said = f"{path.name} line {number}: {error}"
                named = damaged_rows.named_in(line)
                yield from (damaged_rows.unreadable(custom_id, said) for custom_id in named)
                if not named:
                    yield said


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
