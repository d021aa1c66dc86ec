"""Submit: from planned batches to batches the provider has, each paid for once.

The order per batch: bring the file to the provider (free), commit the intent and the money set aside for it, send the
one paid call, commit the provider's id. Whatever ends between intent and id leaves the batch `submitting`, and the
next pass looks for it by its tag before anything is sent again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import Any

from layton_batch.batches.admission import HELD, WAITS, gate, within_limits
from layton_batch.batches.backoff import NoAnswer, backoff
from layton_batch.batches.batch_requests import check_file
from layton_batch.batches.cancel import is_cancelled, stop_rest
from layton_batch.batches.doubt import RESUBMIT
from layton_batch.batches.intent import back_to_planned, in_flight, submission
from layton_batch.batches.reconcile import PAUSES, reconcile, sent_already, take_found
from layton_batch.clock import is_due
from layton_batch.errors import (
    AmbiguousCallError,
    FileError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    StaleStateError,
    TransientProviderError,
)
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch
from layton_batch.run.context import Run
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle
from layton_batch.store import Entry
from layton_batch.store.standing import HeldBack

PAYLOAD_TOO_LARGE = 413
STALE_SECONDS = 60.0
"""An intent older than this, or later than now, is looked for, not acted upon: the process slept meanwhile (a laptop's
lid, SIGSTOP), or its clock was set."""
NOT_FOUND = frozenset({404})
"""Refusals that may pass in a minute: a file uploaded a moment ago can be late in becoming visible."""
FILE_GONE = frozenset({403, 404})
"""What a create says where its file was uploaded so long ago that the provider has thrown it away."""
NO_ACCESS, FORBIDDEN = frozenset({401, 402}), frozenset({403})
"""Refusals of who we are, not of what we ask: an expired key, an empty account. The batch waits until it is mended."""
TRIES, FORBIDDEN_TRIES = 4, 8
NOT_LOOKED_FOR = "not_looked_for"
"""Event: the provider's list, which must be read before anything is sent, was not."""
REFUSED_LOOKS, FAILED_LOOKS = 12, 300
"""After so many, each a growing pause after the last, a person is told: about an hour of refusals, or three days of
anything else."""


def submit(run: Run, provider: str, ready: Sequence[Batch]) -> bool:
    """Settle what was being sent to the provider when the program stopped, then send what is ready."""
    stopped = is_cancelled(run) and stop_rest(run, provider)
    return stopped | _submit_group(run, provider, ready)


def to_send(run: Run) -> Mapping[str, Sequence[Batch]]:
    """What is due to be settled or sent now, by provider: weighed together, for all share one budget."""
    cancelled = is_cancelled(run)
    now = run.clock.now()
    waiting = run.store.batches({Lifecycle.SUBMITTING, Lifecycle.PLANNED})
    due = [batch for batch in waiting if is_due(batch.due_at, now)]
    unsettled = [batch for batch in due if batch.state is Lifecycle.SUBMITTING]
    planned = [] if cancelled else _affordable(run, [batch for batch in due if batch.state is Lifecycle.PLANNED])
    groups: dict[str, list[Batch]] = defaultdict(list)
    for batch in [*unsettled, *within_limits(run, planned)]:
        groups[batch.provider].append(batch)
    return groups


def _affordable(run: Run, due: Sequence[Batch]) -> list[Batch]:
    """The due batches that cannot break the budget even if every request costs its upper bound.

    The run is stopped by its budget where nothing planned, due or not, fits beside what is spent and set aside already;
    a batch that only has to wait for others is held back, which stops nothing.
    """
    limit = run.manifest.budget.max_usd
    if limit is None:
        run.store.set_stopped(None, run.clock.now())
        return list(due)
    committed = run.store.money().committed
    planned = run.store.batches({Lifecycle.PLANNED})
    reasons = [_unaffordable(batch, committed, limit) for batch in planned]
    run.store.set_stopped(reasons[0] if reasons and all(reasons) else None, run.clock.now())
    allowed = []
    for batch in due:
        if reason := _unaffordable(batch, committed, limit):
            run.store.hold_back(batch, HeldBack(f"{HELD}{reason}"))
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
    if not batches:
        return False
    provider = run.providers.get(name)
    moved = False
    with closing(run.claimed(batches, gate(run))) as claimed:
        for batch in claimed:
            step = reconcile if batch.state is Lifecycle.SUBMITTING else _send
            try:
                moved |= step(run, provider, batch)
            except StaleStateError:
                continue  # another process has this one in hand
            except NoAnswer:
                break
    return moved


# ---- sending -------------------------------------------------------------------------------------------------------


def _send(run: Run, provider: Provider, batch: Batch) -> bool:
    """Nothing is sent before the batch file is what was planned, and the provider has it and has shown, in a list read
    to its end, that it has no such batch yet."""
    try:
        check_file(run, batch)
        input_ref = batch.input_ref or provider.upload(submission(run, batch))
    except FileError as error:
        return _kept_by_its_file(run, batch, error)
    except RequestRefusedError as error:
        if _may_pass(run, batch, error):
            _later(run, batch, error, _event(error))
            return False
        return _refused(run, batch, f"the upload was refused: {error}", error)
    except ProviderError as error:
        _later(run, batch, error)
        NoAnswer.check(error)
        return False
    try:
        elsewhere = sent_already(run, provider, replace(batch, input_ref=input_ref))
    except ProviderError as error:
        _not_looked_for(run, batch, error)
        NoAnswer.check(error)
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
        needs_person=False,
    )
    batch = run.store.batch(batch.id)
    return take_found(run, provider, batch, elsewhere) if elsewhere else _create(run, provider, batch)


def _kept_by_its_file(run: Run, batch: Batch, error: FileError) -> bool:
    """The batch waits until its file is as it was; it stays due, so that it is sent then, and says so once."""
    reason, now = f"{WAITS}{error}", run.clock.now()
    if reason != batch.reason:
        run.store.note(batch, now, event="file_changed", detail=str(error), reason=reason, needs_person=True)
    return False


def _not_looked_for(run: Run, batch: Batch, error: ProviderError) -> None:
    """The batch is not sent. After looks enough a person is told; the provider is asked on all the same."""
    looks = run.store.events_since(batch.id, ("submitting", RESUBMIT), NOT_LOOKED_FOR) + 1
    is_refused = isinstance(error, RequestRefusedError) and error.status not in NO_ACCESS
    reason = f"not sent: whether {batch.provider} has it already cannot be told, for its list cannot be read: {error}"
    needs_person = looks >= (REFUSED_LOOKS if is_refused else FAILED_LOOKS)
    reason = f"{WAITS}{reason}" if needs_person else reason
    _later(run, batch, error, NOT_LOOKED_FOR, reason, needs_person=needs_person)


def _create(run: Run, provider: Provider, batch: Batch) -> bool:
    if abs(run.clock.now() - (batch.submitting_at or 0.0)) > STALE_SECONDS:
        reason = "this process was asleep, or its clock was set, before it could send: another may have sent it since"
        run.store.note(batch, run.clock.now(), event="create_unclear", detail=reason, reason=reason, failures=0)
        return False
    try:
        provider_id = provider.create(submission(run, batch))
    except TransientProviderError as error:
        _not_created(run, batch, error, "not_created", error.retry_after)
        NoAnswer.check(error)
        return False
    except FileError as error:  # gone this very moment, before a byte was sent
        back_to_planned(run, batch, str(error), 0.0)
        return False
    except (AmbiguousCallError, ProviderReplyError) as error:
        due = run.clock.now() + PAUSES[0]
        run.store.note(
            batch, run.clock.now(), event="create_unclear", detail=str(error), due_at=due, reason=str(error), failures=0
        )
        NoAnswer.check(error)
        return False
    except RequestRefusedError as error:
        if not _may_pass(run, batch, error):
            return _refused(run, batch, f"the create was refused: {error}", error)
        _not_created(run, batch, error, _event(error))
        return False
    in_flight(run, provider, batch, provider_id, "submitted")
    return True


def _not_created(run: Run, batch: Batch, error: ProviderError, event: str, retry_after: float | None = None) -> None:
    pause, gone = backoff(batch.failures, retry_after), error.status in FILE_GONE
    back_to_planned(
        run, batch, f"not created: {error}", pause, event=event, failures=batch.failures + 1, upload_again=gone
    )


def _may_pass(run: Run, batch: Batch, error: RequestRefusedError) -> bool:
    """Whether the same call may be taken later: for as often as it was refused in this way, whatever else failed."""
    if error.status in NO_ACCESS:
        return True
    tries = FORBIDDEN_TRIES if error.status in FORBIDDEN else TRIES
    if error.status not in NOT_FOUND | FORBIDDEN:
        return False
    return run.store.events_since(batch.id, (RESUBMIT,), _event(error)) + 1 < tries


def _event(error: ProviderError) -> str:
    """The event of a refusal that may pass: each kind is counted by itself."""
    return f"refused_{error.status}"


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


def _later(
    run: Run,
    batch: Batch,
    error: ProviderError,
    event: str = "upload_failed",
    reason: str | None = None,
    *,
    needs_person: bool = False,
) -> None:
    """Nothing was sent yet: try again after a pause that grows."""
    now = run.clock.now()
    pause = backoff(batch.failures, getattr(error, "retry_after", None))
    run.store.note(
        batch, now, event=event, detail=str(error), due_at=now + pause, failures=batch.failures + 1,
        reason=reason or str(error), needs_person=needs_person,
    )  # fmt: skip
