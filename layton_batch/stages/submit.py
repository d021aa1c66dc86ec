"""Submit: from planned batches to batches the provider has, each paid for once.

The order per batch: bring the file to the provider (free), commit the intent and the money set aside for it, send the
one paid call, commit the provider's id. Whatever ends between intent and id leaves the batch `submitting`, and the
next pass looks for it by its tag before anything is sent again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from layton_batch.errors import (
    AmbiguousCallError,
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    StaleStateError,
    TransientProviderError,
)
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Found, Submission
from layton_batch.run import Run
from layton_batch.stages.backoff import backoff
from layton_batch.stages.cancel import stop_rest
from layton_batch.stages.limits import HELD, gate, within_limits
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle
from layton_batch.store import Entry

LOOK_SECONDS = 20.0
"""Between two looks for a batch that may or may not exist."""
LOOKS = 4
"""How often an empty list is believed to be late before the batch is taken as never made (Limits of eventual lists)."""
LATE_SECONDS = 660.0
"""How long after its intent a create whose reply is missing may yet be carried out: a minute more than any SDK waits
for a reply (600 s at most), since what a gateway still holds after that has nobody to answer."""
PAYLOAD_TOO_LARGE = 413
STALE_SECONDS = 60.0
"""An intent older than this is looked for, not acted upon: the process slept meanwhile (a laptop's lid, SIGSTOP)."""
UNTOLD_SECONDS = 2 * 86_400.0
"""After the provider's window: a candidate that has not shown by then whose it is never will."""
MAY_PASS = frozenset({404, 409})
"""Refusals of a free upload that are worth another try or two."""
NOT_FOUND_TRIES = 4
"""How often a create may answer 404: a file uploaded a moment ago can be late in becoming visible."""


def submit(run: Run) -> bool:
    """Settle what was being sent when the program stopped, then send what is planned, due and within the budget."""
    row = run.store.row()
    cancelled = row is not None and row.cancelled
    stopped = cancelled and stop_rest(run)
    now = run.clock.now()
    due = [batch for batch in run.store.batches({Lifecycle.SUBMITTING, Lifecycle.PLANNED}) if batch.due_at <= now]
    unsettled = [batch for batch in due if batch.state is Lifecycle.SUBMITTING]
    planned = [] if cancelled else _affordable(run, [batch for batch in due if batch.state is Lifecycle.PLANNED])
    groups: dict[str, list[Batch]] = defaultdict(list)
    for batch in [*unsettled, *within_limits(run, planned)]:
        groups[batch.provider].append(batch)
    return stopped | any(list(run.executor.map(lambda name: _submit_group(run, name, groups[name]), groups)))


def _affordable(run: Run, due: Sequence[Batch]) -> list[Batch]:
    """The due batches that cannot break the budget even if every request costs its upper bound.

    The run is stopped by its budget where nothing planned, due or not, fits beside what is spent and set aside already;
    a batch that only has to wait for others is held back, which stops nothing.
    """
    limit = run.manifest.budget.max_usd
    if limit is None:
        run.store.set_stopped(None, run.clock.now())
        return list(due)
    spent, reserved = run.store.money()
    planned = run.store.batches({Lifecycle.PLANNED})
    reasons = [_unaffordable(batch, spent + reserved, limit) for batch in planned]
    run.store.set_stopped(reasons[0] if reasons and all(reasons) else None, run.clock.now())
    committed, allowed = spent + reserved, []
    for batch in due:
        if reason := _unaffordable(batch, committed, limit):
            run.store.hold_back(batch, f"{HELD}{reason}")
        else:
            committed += batch.max_cost or Decimal(0)
            allowed.append(batch)
    return allowed


def _unaffordable(batch: Batch, committed: Decimal, limit: Decimal) -> str | None:
    """Why the budget does not allow the batch beside what is committed."""
    if batch.max_cost is None:
        return f"{batch.provider} {batch.model} has no known price: give one in [[prices]], or drop the budget"
    if committed + batch.max_cost <= limit:
        return None
    return (
        f"batch {batch.id} could cost up to ${batch.max_cost:.2f}; ${committed:.2f} of the budget of "
        f"${limit} is spent or set aside: raise max_usd to go on"
    )


def _submit_group(run: Run, name: str, batches: Sequence[Batch]) -> bool:
    """One provider's batches, one after another, in one thread."""
    provider = run.providers.get(name)
    moved = False
    for batch in run.taken(batches, gate(run)):
        try:
            if batch.state is Lifecycle.SUBMITTING:
                moved |= _settle(run, provider, batch)
            else:
                moved |= _send(run, provider, batch)
        except StaleStateError:
            continue  # another process has this one in hand
    return moved


# ---- sending -------------------------------------------------------------------------------------------------------


def _send(run: Run, provider: Provider, batch: Batch) -> bool:
    try:
        input_ref = batch.input_ref or provider.upload(submission(run, batch))
    except RequestRefusedError as error:
        if error.status in MAY_PASS and batch.failures + 1 < NOT_FOUND_TRIES:
            _later(run, batch, error)
            return False
        return _refused(run, batch, f"the upload was refused: {error}", error)
    except ProviderError as error:
        _later(run, batch, error)
        return False
    now = run.clock.now()
    money = [Entry(batch.id, "reserved", batch.max_cost or Decimal(0))]
    run.store.move(
        batch,
        Lifecycle.SUBMITTING,
        now,
        event="submitting",
        detail=f"tag {batch.tag}",
        money=money,
        input_ref=input_ref,
        submitting_at=now,
        due_at=now,
        reason=None,
    )
    return _create(run, provider, run.store.batch(batch.id))


def _create(run: Run, provider: Provider, batch: Batch) -> bool:
    if run.clock.now() - (batch.submitting_at or 0.0) > STALE_SECONDS:
        reason = "this process was asleep before it could send: another may have sent it since"
        run.store.note(batch, run.clock.now(), event="create_unclear", detail=reason, reason=reason, failures=0)
        return False
    try:
        provider_id = provider.create(submission(run, batch))
    except TransientProviderError as error:
        _back_to_planned(run, batch, f"not created: {error}", error.retry_after, failed=True)
        return False
    except NotFoundError as error:
        if batch.failures + 1 >= NOT_FOUND_TRIES:
            return _refused(run, batch, f"the create was refused: {error}", error)
        _back_to_planned(run, batch, f"not created: {error} (its file may not be visible yet)", None, failed=True)
        return False
    except (AmbiguousCallError, ProviderReplyError) as error:
        due = run.clock.now() + LOOK_SECONDS
        run.store.note(
            batch, run.clock.now(), event="create_unclear", detail=str(error), due_at=due, reason=str(error), failures=0
        )
        return False
    except RequestRefusedError as error:
        return _refused(run, batch, f"the create was refused: {error}", error)
    _in_flight(run, provider, batch, provider_id, "submitted")
    return True


def submission(run: Run, batch: Batch) -> Submission:
    """What a dialect needs to know of a batch."""
    return Submission(
        batch_id=batch.id,
        tag=batch.tag,
        path=run.folder.root / batch.path,
        file_name=f"{batch.tag}.jsonl",
        sha256=batch.sha256,
        requests=batch.requests,
        model=batch.model,
        input_ref=batch.input_ref,
        not_before=batch.submitting_at,
    )


def _in_flight(run: Run, provider: Provider, batch: Batch, provider_id: str, event: str) -> None:
    now = run.clock.now()
    hours = run.manifest.policy.deadline_hours
    window = hours * 3600 if hours is not None else provider.limits.window_seconds + 86_400
    run.store.move(
        batch,
        Lifecycle.IN_FLIGHT,
        now,
        event=event,
        detail=provider_id,
        provider_id=provider_id,
        submitted_at=now,
        due_at=now + min(run.poll_seconds or provider.limits.poll_seconds, 5.0),
        deadline_at=now + window,
        failures=0,
        reason=None,
    )


def _refused(run: Run, batch: Batch, reason: str, error: RequestRefusedError) -> bool:
    """The provider will never take this batch: it is over, and none of it was paid."""
    error_class = ErrorClass.TOO_LARGE if error.status == PAYLOAD_TOO_LARGE else ErrorClass.INVALID_REQUEST
    now = run.clock.now()
    money = [Entry(batch.id, "released", batch.max_cost or Decimal(0))] if batch.state is Lifecycle.SUBMITTING else []
    run.store.move(
        batch, Lifecycle.ENDED, now, event="refused", detail=reason, money=money, **_failed(now, reason, error_class)
    )
    return True


def _failed(now: float, reason: str, error_class: ErrorClass) -> dict[str, Any]:
    return {
        "outcome": BatchOutcome.FAILED,
        "error_class": error_class,
        "ended_at": now,
        "due_at": now,
        "reason": reason,
        "failures": 0,
    }


def _later(run: Run, batch: Batch, error: ProviderError) -> None:
    """The upload failed in passing: try again after a pause that grows."""
    now = run.clock.now()
    pause = backoff(batch.failures, getattr(error, "retry_after", None))
    run.store.note(
        batch, now, event="upload_failed", detail=str(error), due_at=now + pause, failures=batch.failures + 1,
        reason=str(error),
    )  # fmt: skip


def _back_to_planned(run: Run, batch: Batch, reason: str, retry_after: float | None, *, failed: bool) -> None:
    now = run.clock.now()
    failures = batch.failures + 1 if failed else 0
    run.store.move(
        batch,
        Lifecycle.PLANNED,
        now,
        event="not_created",
        detail=reason,
        money=[Entry(batch.id, "released", batch.max_cost or Decimal(0))],
        due_at=now + (backoff(batch.failures, retry_after) if failed else 0.0),
        failures=failures,
        reason=reason,
    )


# ---- settling what was being sent ----------------------------------------------------------------------------------


def _settle(run: Run, provider: Provider, batch: Batch) -> bool:
    """Find out whether the create of a batch left `submitting` was carried out."""
    try:
        found = provider.find(replace(submission(run, batch), asked_at=run.clock.now()))
    except ProviderError as error:
        _look_again(run, batch, f"cannot look for it yet: {error}", count=False)
        return False
    taken = {other.provider_id for other in run.store.batches() if other.provider_id}
    candidates = [one for one in found if one.provider_id not in taken]
    certain = [one for one in candidates if one.certain]
    if len(certain) == 1:
        _in_flight(run, provider, batch, certain[0].provider_id, "found")
        return True
    if certain:
        names = ", ".join(one.provider_id for one in certain)
        return _lost(run, batch, f"more than one batch carries its tag: {names}; `resolve` says which is ours")
    if candidates:
        return _unsure(run, provider, batch, candidates)
    if not provider.capabilities.certain_find:
        return _lost(run, batch, f"{batch.provider} cannot list batches: look in its console, then `resolve`")
    if batch.failures + 1 < LOOKS or _may_come_late(run, batch):
        _look_again(run, batch, "not in the provider's list; looking again", count=True)
        return False
    _back_to_planned(run, batch, f"not created: not in the provider's list after {LOOKS} looks", None, failed=False)
    return True


def _may_come_late(run: Run, batch: Batch) -> bool:
    return run.clock.now() < (batch.submitting_at or 0.0) + LATE_SECONDS


def _unsure(run: Run, provider: Provider, batch: Batch, candidates: Sequence[Found]) -> bool:
    """Wait for batches that may be ours to show whose they are, as long as they can; then a person has to say."""
    names = ", ".join(one.provider_id for one in candidates)
    last = (batch.submitting_at or 0.0) + provider.limits.window_seconds + UNTOLD_SECONDS
    may_tell = run.clock.now() < last and any(one.may_tell for one in candidates)
    if not may_tell and not _may_come_late(run, batch):
        return _lost(run, batch, f"may be {names}, and nothing there tells; `resolve` says which is ours")
    _look_again(run, batch, f"may be {names}; certain only when that has ended", count=False)
    return False


def _look_again(run: Run, batch: Batch, reason: str, *, count: bool) -> None:
    now = run.clock.now()
    failures = batch.failures + int(count)
    pause = LOOK_SECONDS * 2.0 ** min(max(batch.failures - LOOKS + 2, 0), 4)  # 20, 20, 20, 40, 80, 160, 320
    run.store.note(batch, now, event="looking", detail=reason, due_at=now + pause, failures=failures, reason=reason)


def _lost(run: Run, batch: Batch, reason: str) -> bool:
    run.store.move(batch, Lifecycle.LOST, run.clock.now(), event="lost", detail=reason, reason=reason)
    return True
