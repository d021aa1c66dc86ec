"""Poll: one reading of every batch that is due, until each has ended. Every batch has a deadline."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from layton_batch.errors import NotFoundError, ProviderError, StaleStateError, UnknownStatusError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Snapshot
from layton_batch.run import Run
from layton_batch.stages.backoff import backoff
from layton_batch.stages.limits import warn_of_retention
from layton_batch.states import AT_PROVIDER, BatchOutcome, ErrorClass, Lifecycle

_OVER_A_LIMIT = re.compile(
    r"\b(too (large|many|big)|exceeds?|more than)\b.{0,80}\b(requests?|lines?|rows?|bytes|MB|file size)\b",
    re.IGNORECASE,
)
NOT_FOUND_SECONDS = 900.0
"""How long a provider may answer 404 for a batch it has just made."""
LAST_HOUR = 3600.0
"""What a batch past its deadline is given to end after we cancelled it."""


def poll(run: Run) -> bool:
    """Read the state of every due batch; providers side by side, a provider's batches one after another."""
    now = run.clock.now()
    groups: dict[str, list[Batch]] = defaultdict(list)
    open_batches = run.store.batches(AT_PROVIDER | {Lifecycle.ENDED})
    warn_of_retention(run, open_batches)
    for batch in open_batches:
        if batch.state in AT_PROVIDER and batch.due_at <= now:
            groups[batch.provider].append(batch)
    return any(list(run.executor.map(lambda name: _poll_group(run, name, groups[name]), groups)))


def _poll_group(run: Run, name: str, batches: Sequence[Batch]) -> bool:
    provider = run.providers.get(name)
    moved = False
    for batch in run.taken(batches):
        try:
            moved |= _poll_one(run, provider, batch)
        except StaleStateError:
            continue  # another process has moved it
    return moved


def _poll_one(run: Run, provider: Provider, batch: Batch) -> bool:
    try:
        snapshot = provider.snapshot(str(batch.provider_id))
    except UnknownStatusError as error:
        return _unclear(run, provider, batch, str(error), status=error.code)
    except NotFoundError as error:
        return _not_found(run, provider, batch, str(error))
    except ProviderError as error:
        return _unclear(run, provider, batch, str(error), retry_after=getattr(error, "retry_after", None))
    if snapshot.state is Lifecycle.ENDED:
        return _ended(run, batch, snapshot)
    if _past(run, batch):
        return _deadline(run, provider, batch, snapshot.provider_status)
    now = run.clock.now()
    due = now + (run.poll_seconds or provider.limits.poll_seconds)
    changed = snapshot.provider_status != batch.provider_status
    changes: dict[str, Any] = {
        "due_at": due,
        "provider_status": snapshot.provider_status,
        "failures": 0,
        "reason": None,
    }
    if snapshot.state is Lifecycle.CANCELLING and batch.state is Lifecycle.IN_FLIGHT:
        run.store.move(batch, Lifecycle.CANCELLING, now, event="cancelling", detail="seen at the provider", **changes)
        return True
    run.store.note(batch, now, event="status" if changed else None, detail=snapshot.provider_status, **changes)
    return False


def _ended(run: Run, batch: Batch, snapshot: Snapshot) -> bool:
    now = run.clock.now()
    outcome = snapshot.outcome or BatchOutcome.COMPLETED
    run.store.move(
        batch,
        Lifecycle.ENDED,
        now,
        event="ended",
        detail=f"{outcome} ({snapshot.provider_status}) {snapshot.message or ''}".strip(),
        outcome=outcome,
        provider_status=snapshot.provider_status,
        results_ref=snapshot.results_ref,
        errors_ref=snapshot.errors_ref,
        error_class=_class_of_failure(snapshot),
        ended_at=now,
        due_at=now,
        failures=0,
        reason=snapshot.message,
    )
    return True


def _class_of_failure(snapshot: Snapshot) -> ErrorClass:
    """Why a batch failed as a whole. Providers have no word for a file over their limits: their sentence tells."""
    if snapshot.outcome is BatchOutcome.FAILED and _OVER_A_LIMIT.search(snapshot.message or ""):
        return ErrorClass.TOO_LARGE
    return snapshot.error_class


def _unclear(
    run: Run,
    provider: Provider,
    batch: Batch,
    reason: str,
    *,
    status: str | None = None,
    retry_after: float | None = None,
) -> bool:
    """No usable reading: say so, and try again until the deadline."""
    if _past(run, batch):
        return _deadline(run, provider, batch, status or batch.provider_status or "unknown")
    now = run.clock.now()
    run.store.note(
        batch,
        now,
        event="unclear" if reason != batch.reason else None,
        detail=reason,
        due_at=now + backoff(batch.failures, retry_after),
        failures=batch.failures + 1,
        provider_status=status or batch.provider_status,
        reason=reason,
    )
    return False


def _not_found(run: Run, provider: Provider, batch: Batch, reason: str) -> bool:
    now = run.clock.now()
    if now - (batch.submitted_at or now) < NOT_FOUND_SECONDS:
        return _unclear(run, provider, batch, f"{reason} (just created; asking again)")
    if _past(run, batch):
        return _over(
            run, batch, f"{batch.provider} does not know {batch.provider_id} any more", ErrorClass.NOT_EXECUTED
        )
    return _unclear(run, provider, batch, reason)


def _past(run: Run, batch: Batch) -> bool:
    return batch.deadline_at is not None and run.clock.now() > batch.deadline_at


def _deadline(run: Run, provider: Provider, batch: Batch, status: str) -> bool:
    """Past its deadline: cancel it, give it an hour to end, then take it as over."""
    reason = f"past its deadline, {batch.provider} still says {status!r}"
    if batch.state is Lifecycle.CANCELLING:
        return _over(run, batch, reason, ErrorClass.NOT_EXECUTED)
    try:
        provider.cancel(str(batch.provider_id))
    except ProviderError as error:
        reason = f"{reason}; cancel failed: {error}"
    now = run.clock.now()
    run.store.move(
        batch, Lifecycle.CANCELLING, now, event="deadline", detail=reason, reason=reason, deadline_at=now + LAST_HOUR,
        due_at=now + provider.limits.poll_seconds,
    )  # fmt: skip
    return True


def _over(run: Run, batch: Batch, reason: str, error_class: ErrorClass) -> bool:
    now = run.clock.now()
    run.store.move(
        batch, Lifecycle.ENDED, now, event="given_up", detail=reason, outcome=BatchOutcome.EXPIRED,
        error_class=error_class, reason=reason, ended_at=now, due_at=now, failures=0,
    )  # fmt: skip
    return True
