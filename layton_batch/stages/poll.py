"""Poll: one reading of every batch that is due, until each has ended. Every batch has a deadline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from layton_batch.batches.admission import warn_of_retention
from layton_batch.batches.backoff import NoAnswer, backoff
from layton_batch.batches.cancel import FAILED
from layton_batch.batches.late import is_late
from layton_batch.clock import LONGEST_PAUSE, is_due
from layton_batch.errors import NotFoundError, ProviderError, StaleStateError, UnknownStatusError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Snapshot
from layton_batch.run.context import Run
from layton_batch.states import AT_PROVIDER, BatchOutcome, ErrorClass, Lifecycle

_NO_ROOM = re.compile(r"\brate[ _-]?limit|\btoo many requests\b(?! (in|per|for) )", re.IGNORECASE)
"""What a provider says, also as the words of status 429, that takes no more for now."""
_OVER_A_LIMIT = re.compile(
    r"\b(too (large|many|big)|exceeds?|more than)\b.{0,80}\b(requests?|lines?|rows?|bytes|MB|file size)\b",
    re.IGNORECASE,
)
NOT_FOUND_SECONDS = 900.0
"""How long a provider may answer 404 for a batch it has just made."""
LAST_SECONDS = 6 * 3600.0
"""What a batch past its deadline is given to end after we asked for that."""


def poll(run: Run, provider: str) -> bool:
    """Read the state of the provider's due batches, one after another."""
    now = run.clock.now()
    its = [batch for batch in run.store.batches(AT_PROVIDER | {Lifecycle.ENDED}) if batch.provider == provider]
    warn_of_retention(run, its)
    due = [batch for batch in its if batch.state in AT_PROVIDER and is_due(batch.due_at, now)]
    return bool(due) and _poll_group(run, provider, due)


def _poll_group(run: Run, name: str, batches: Sequence[Batch]) -> bool:
    provider = run.providers.get(name)
    moved = False
    with closing(run.claimed(batches)) as claimed:
        for batch in claimed:
            try:
                moved |= _poll_one(run, provider, batch)
            except StaleStateError:
                continue  # another process has moved it
            except NoAnswer:
                break  # each of the others would wait as long for nothing, and the other providers' with it
    return moved


def _poll_one(run: Run, provider: Provider, batch: Batch) -> bool:
    try:
        snapshot = provider.snapshot(str(batch.provider_id))
    except UnknownStatusError as error:
        return _unclear(run, provider, batch, str(error), status=error.code or "unknown")
    except NotFoundError as error:
        if _past(run, batch):
            return _lost(run, batch, f"{error} (is the key of another project?)")
        return _unclear(run, provider, batch, _not_found(run, batch, error))
    except ProviderError as error:
        moved = _unclear(run, provider, batch, str(error), retry_after=getattr(error, "retry_after", None))
        NoAnswer.check(error)
        return moved
    if snapshot.state is Lifecycle.ENDED:
        return _ended(run, batch, snapshot)
    if _past(run, batch):
        return _deadline(run, provider, batch, snapshot.provider_status)
    if snapshot.state is Lifecycle.IN_FLIGHT and batch.state is Lifecycle.CANCELLING:
        _stop_again(run, provider, batch)
    return _goes_on(run, provider, batch, snapshot)


def _goes_on(run: Run, provider: Provider, batch: Batch, snapshot: Snapshot) -> bool:
    now = run.clock.now()
    due = now + min(run.poll_seconds or provider.limits.poll_seconds, LONGEST_PAUSE)
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
    """Why a batch failed as a whole: by the provider's code where that is telling, else by its sentence."""
    said, by_code = snapshot.message or "", snapshot.error_class
    if snapshot.outcome is not BatchOutcome.FAILED or by_code in (ErrorClass.RATE_LIMITED, ErrorClass.TOO_LARGE):
        return by_code
    if _NO_ROOM.search(said):
        return ErrorClass.RATE_LIMITED
    return ErrorClass.TOO_LARGE if _OVER_A_LIMIT.search(said) else by_code


def _unclear(
    run: Run,
    provider: Provider,
    batch: Batch,
    reason: str,
    *,
    status: str | None = None,
    retry_after: float | None = None,
) -> bool:
    """No usable reading: say so, and try again.

    An unknown status is a reading: the deadline holds for it. A provider that cannot be asked (no network, an expired
    key) says nothing of the batch, which may have been answered in time: it is asked for as long as results are kept.
    """
    if status is not None and _past(run, batch):
        return _deadline(run, provider, batch, status)
    now = run.clock.now()
    kept = provider.limits.retention_seconds
    if batch.deadline_at is not None and is_late(run, batch, batch.deadline_at + kept):
        return _lost(run, batch, f"cannot be asked about any more: {reason}")
    if status is not None and batch.state is Lifecycle.CANCELLING:
        _stop_again(run, provider, batch)
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


def _not_found(run: Run, batch: Batch, error: NotFoundError) -> str:
    now = run.clock.now()
    new = now - (batch.submitted_at or now) < NOT_FOUND_SECONDS
    return f"{error} (just created; asking again)" if new else str(error)


def _past(run: Run, batch: Batch) -> bool:
    return batch.deadline_at is not None and is_late(run, batch, batch.deadline_at)


def _deadline(run: Run, provider: Provider, batch: Batch, status: str) -> bool:
    """Past its deadline: ask the provider to stop, and give it time to. One that never says it has may still answer,
    and bill: whether its rows go again is a person's word."""
    reason = f"past its deadline, {batch.provider} still says {status!r}"
    if batch.state is Lifecycle.CANCELLING:
        return _lost(run, batch, reason)
    if problem := _ask_to_stop(provider, batch):
        reason = f"{reason}; {problem}"
    now = run.clock.now()
    run.store.move(
        batch, Lifecycle.CANCELLING, now, event="deadline", detail=reason, reason=reason,
        deadline_at=now + LAST_SECONDS, due_at=now + provider.limits.poll_seconds,
    )  # fmt: skip
    return True


def _stop_again(run: Run, provider: Provider, batch: Batch) -> None:
    """The provider does not show that it was asked to stop: ask again."""
    if (problem := _ask_to_stop(provider, batch)) and not run.store.has_event(batch.id, FAILED):
        run.store.add_event(run.clock.now(), batch.id, FAILED, problem)


def _ask_to_stop(provider: Provider, batch: Batch) -> str | None:
    """Why that failed, or None."""
    try:
        provider.cancel(str(batch.provider_id))
    except ProviderError as error:
        return f"cancel failed: {error}"
    return None


def _lost(run: Run, batch: Batch, reason: str) -> bool:
    reason = f"{reason}; look at {batch.provider_id} in the console of {batch.provider}, then `resolve`"
    now = run.clock.now()
    run.store.move(batch, Lifecycle.LOST, now, event="lost", detail=reason, reason=reason, due_at=now)
    return True
