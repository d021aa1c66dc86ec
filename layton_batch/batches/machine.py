"""A batch's life, decided: what a reply, a look, a reading, a download or a person's word makes of a batch.

Nothing here asks, reads or writes. A stage fetches, one of these functions decides, and the store applies the decision
in one transaction. ``batch`` is the batch as the store has it; this process drives its run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from layton_batch.batches.completeness import DOWNLOADS, Downloaded, is_worth_another, may_be_kept
from layton_batch.batches.timing import At
from layton_batch.clock import LONGEST_PAUSE
from layton_batch.errors import (
    FileError,
    LookUpRefusedError,
    NotFoundError,
    ProviderError,
    RequestRefusedError,
    TransientProviderError,
    UnknownStatusError,
)
from layton_batch.providers.wire_errors import failure_class
from layton_batch.records import Batch, Collect, Entry, Found, Move, Snapshot, Wait
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle
from layton_batch.store.rows import RELEASED, RESERVED

WAITS = "waits for a person: "
"""How the reason of a batch begins that is sent when a person has mended something."""
STALE_SECONDS, PAYLOAD_TOO_LARGE = 60.0, 413
FILE_REFUSALS = frozenset({400, PAYLOAD_TOO_LARGE, 415, 422})
"""Statuses by which the provider refuses the uploaded file itself, so that its requests have an outcome."""
NOT_FOUND, FORBIDDEN = 404, 403
"""Refusals of a create that may pass: a file uploaded a moment ago can be late in becoming visible. A create says the
same of a file that was uploaded so long ago that the provider has thrown it away."""
TRIES, FORBIDDEN_TRIES = 4, 8
NO_ACCESS = frozenset({401, 402})
"""Refusals of who we are: an expired key, an empty account. The batch waits until that is mended."""
REFUSED_LOOKS, FAILED_LOOKS = 12, 300
"""After so many free calls that failed, each a growing pause after the last, a person is told: about an hour of
refusals, or three days of anything else."""


def _with(batch: Batch, **facts: Any) -> Batch:
    return replace(batch, facts=replace(batch.facts, **facts))


# ---- before it is paid for -----------------------------------------------------------------------------------------


def after_file_trouble(batch: Batch, error: FileError) -> Wait:
    """The batch file is not what was planned. The batch stays due, so that it is sent when the file is as it was."""
    reason = f"{WAITS}{error}"
    if reason == batch.reason:
        return Wait(batch)
    return Wait(replace(batch, reason=reason, needs_person=True), (("file_changed", str(error)),))


def after_upload(batch: Batch, error: ProviderError, at: At) -> Move | Wait:
    """The file did not reach the provider. Nothing was paid. Only a refusal of the file itself ends the batch."""
    if isinstance(error, RequestRefusedError) and error.status in FILE_REFUSALS:
        return _refused(batch, f"the upload was refused: {error}", error, at)
    reason = f"not sent: {batch.provider}, at the address and with the key set for it, does not take its file: {error}"
    return _not_sent(batch, error, "upload_failed", reason, at)


def after_unread_list(batch: Batch, error: ProviderError, at: At) -> Wait:
    """The list that must be read before anything is sent was not."""
    reason = f"not sent: whether {batch.provider} has it already cannot be told, for its list cannot be read: {error}"
    return _not_sent(batch, error, "not_looked_for", reason, at)


def _not_sent(batch: Batch, error: ProviderError, event: str, reason: str, at: At) -> Wait:
    """A free call before the create failed. That is the provider's trouble and no outcome of a request: the call is
    tried again with growing pauses, and a person is told in the end."""
    failed = batch.facts.unread_lists + 1
    is_refused = isinstance(error, RequestRefusedError | LookUpRefusedError) and error.status not in NO_ACCESS
    needs_person = failed >= (REFUSED_LOOKS if is_refused else FAILED_LOOKS)
    due = at.now + at.pacing.backoff(batch.failures, getattr(error, "retry_after", None))
    after = replace(
        _with(batch, unread_lists=failed), due_at=due, failures=batch.failures + 1, failed_status=error.status,
        reason=f"{WAITS}{reason}" if needs_person else reason, needs_person=needs_person,
    )  # fmt: skip
    return Wait(after, ((event, str(error)),))


def before_create(batch: Batch, input_ref: str | None, at: At) -> Move:
    """The intent to pay, with the money set aside for it. Looks for the batch are counted from here."""
    after = replace(
        batch, state=Lifecycle.SUBMITTING, input_ref=input_ref, submitting_at=at.now, due_at=at.now, reason=None,
        needs_person=False, facts=replace(batch.facts, absent_looks=0, unsure_looks=0, unread_lists=0),
    )  # fmt: skip
    reserved = Entry(batch.id, RESERVED, batch.max_cost or Decimal(0))
    return Move(after, (("submitting", f"tag {batch.tag}"),), (reserved,))


def before_call(batch: Batch, at: At) -> Wait | None:
    """None where the intent may be acted upon. One that is too old, or later than now, is looked for: the process slept
    meanwhile (a laptop's lid, SIGSTOP), or its clock was set."""
    if abs(at.now - (batch.submitting_at or 0.0)) <= STALE_SECONDS:
        return None
    reason = "this process was asleep, or its clock was set, before it could send: another may have sent it since"
    return Wait(_unclear(batch, reason), (("create_unclear", reason),))


def after_create(batch: Batch, reply: str | ProviderError | FileError, at: At) -> Move | Wait:
    """What the one paid call says. Only a reply which promises that nothing was done lets the batch go again."""
    if isinstance(reply, str):
        return _in_flight(batch, reply, "submitted", at)
    if isinstance(reply, FileError):  # gone this very moment, before a byte was sent
        return _back(replace(batch, failures=0), str(reply), "not_created", 0.0, at)
    if isinstance(reply, RequestRefusedError):
        if not _may_pass(batch, reply):
            return _refused(batch, f"the create was refused: {reply}", reply, at)
        return _not_created(_counted(batch, reply), reply, f"refused_{reply.status}", None, at)
    if isinstance(reply, TransientProviderError):
        return _not_created(batch, reply, "not_created", reply.retry_after, at)
    due = at.now + at.pacing.looks[0]
    return Wait(replace(_unclear(batch, str(reply)), due_at=due), (("create_unclear", str(reply)),))


def _unclear(batch: Batch, reason: str) -> Batch:
    return replace(batch, reason=reason, failures=0, facts=replace(batch.facts, absent_looks=0, unsure_looks=0))


def _not_created(batch: Batch, error: ProviderError, event: str, retry_after: float | None, at: At) -> Move:
    pause = at.pacing.backoff(batch.failures, retry_after)
    upload_again = error.status in (FORBIDDEN, NOT_FOUND)
    after = replace(
        batch, failures=batch.failures + 1, failed_status=error.status,
        input_ref=None if upload_again else batch.input_ref,
    )  # fmt: skip
    return _back(after, f"not created: {error}", event, pause, at)


def _back(batch: Batch, reason: str, event: str, pause: float, at: At) -> Move:
    """The create certainly did nothing: the batch is sent again, and nothing is set aside for it any more."""
    after = replace(batch, state=Lifecycle.PLANNED, reason=reason, due_at=at.now + pause)
    return Move(after, ((event, reason),), (_released(batch),))


def _released(batch: Batch) -> Entry:
    return Entry(batch.id, RELEASED, batch.max_cost or Decimal(0))


def _may_pass(batch: Batch, error: RequestRefusedError) -> bool:
    """Whether the same call may be taken later: for as often as it was refused in this way, whatever else failed."""
    if error.status in NO_ACCESS:
        return True
    if error.status == FORBIDDEN:
        return batch.facts.forbidden + 1 < FORBIDDEN_TRIES
    return error.status == NOT_FOUND and batch.facts.not_found + 1 < TRIES


def _counted(batch: Batch, error: ProviderError) -> Batch:
    if error.status == FORBIDDEN:
        return _with(batch, forbidden=batch.facts.forbidden + 1)
    return _with(batch, not_found=batch.facts.not_found + 1) if error.status == NOT_FOUND else batch


def _refused(batch: Batch, reason: str, error: ProviderError, at: At) -> Move:
    """The provider will never take this batch: it is over, and none of it was paid."""
    error_class = ErrorClass.TOO_LARGE if error.status == PAYLOAD_TOO_LARGE else ErrorClass.INVALID_REQUEST
    after = replace(
        batch, state=Lifecycle.ENDED, outcome=BatchOutcome.FAILED, error_class=error_class, ended_at=at.now,
        due_at=at.now, reason=reason, failures=0,
    )  # fmt: skip
    return Move(after, (("refused", reason),), (_released(batch),) if batch.state is Lifecycle.SUBMITTING else ())


def _in_flight(batch: Batch, provider_id: str, event: str, at: At) -> Move:
    after = replace(
        batch, state=Lifecycle.IN_FLIGHT, provider_id=provider_id, submitted_at=at.now,
        due_at=at.now + min(at.terms.poll, at.pacing.first_poll), deadline_at=at.now + at.terms.deadline, failures=0,
        reason=None,
    )  # fmt: skip
    return Move(after, ((event, provider_id),))


# ---- whether a create was carried out ------------------------------------------------------------------------------


def after_look(batch: Batch, found: Sequence[Found] | ProviderError, at: At) -> Move | Wait:
    """What a list says of a batch whose create is unclear. ``found``: candidates that are no other batch of the run."""
    if isinstance(found, ProviderError):
        return _no_list(batch, found, at)
    certain = [one for one in found if one.certain]
    if certain:
        return after_certain(batch, certain, at)
    if found:
        return _unsure(batch, found, at)
    if not at.terms.lists:
        return lost(batch, f"{batch.provider} cannot list batches: look in its console, then `resolve`")
    return _absent(batch, at)


def after_certain(batch: Batch, certain: Sequence[Found], at: At) -> Move | Wait:
    """What carries the batch's marks is the batch. Two are for a person; one without a name may get it."""
    if len(certain) > 1:
        marked = ", ".join(map(str, certain))
        return lost(batch, f"more than one batch carries its marks: {marked}; `resolve` says which is ours")
    if not certain[0].provider_id:
        return _unsure(batch, certain, at)
    return _in_flight(batch, certain[0].provider_id, "found", at)


def _absent(batch: Batch, at: At) -> Move | Wait:
    """A list is believed after looks for as long as a create can take. The second create that it lacks: `lost`."""
    looks = batch.facts.absent_looks
    if looks < len(at.pacing.looks):
        reason = "not in the provider's list; looking again"
        counted = _with(batch, absent_looks=looks + 1)
        return Wait(replace(counted, due_at=at.now + at.pacing.looks[looks], reason=reason), (("looking", reason),))
    reason = f"not in the list of {batch.provider} after {looks + 1} looks"
    if batch.facts.absent_creates:
        reason = f"{reason}, for the second time: what both creates may have cost is kept from the budget"
        return lost(batch, f"{reason}; look in {batch.provider}'s console, then `resolve`")
    reason = f"not created: {reason}; what it may have cost all the same is kept from the budget"
    counted = _with(batch, absent_creates=batch.facts.absent_creates + 1)
    after = replace(counted, state=Lifecycle.PLANNED, reason=reason, due_at=at.now, failures=0)
    return Move(after, (("not_in_list", reason),), in_doubt=True)


def _no_list(batch: Batch, error: ProviderError, at: At) -> Move | Wait:
    """The provider did not list its batches. A person is asked where it never does."""
    is_refused = isinstance(error, RequestRefusedError)
    patience = at.pacing.refused_list if is_refused else at.terms.window + at.pacing.may_tell
    if batch.facts.unsure_looks >= len(at.pacing.looks) and at.is_after((batch.submitting_at or 0.0) + patience):
        return lost(batch, f"cannot be looked for: {error}; look in {batch.provider}'s console, then `resolve`")
    return _look_on(batch, f"cannot look for it yet: {error}", at)


def _unsure(batch: Batch, candidates: Sequence[Found], at: At) -> Move | Wait:
    """Wait for batches that may be ours to show whose they are, as long as they can; then a person has to say."""
    names = ", ".join(map(str, candidates))
    if batch.facts.unsure_looks >= len(at.pacing.looks):
        last = (batch.submitting_at or 0.0) + at.terms.window + at.pacing.may_tell
        if at.is_after(last) or not any(one.may_tell for one in candidates):
            return lost(batch, f"may be {names}, and nothing there tells; `resolve` says which is ours")
    return _look_on(batch, f"may be {names}; looking until that tells", at)


def _look_on(batch: Batch, reason: str, at: At) -> Wait:
    looks = batch.facts.unsure_looks
    pause = at.pacing.looks[min(looks, len(at.pacing.looks) - 1)]
    counted = _with(batch, unsure_looks=looks + 1)
    return Wait(replace(counted, due_at=at.now + pause, reason=reason), (("unsure", reason),))


def lost(batch: Batch, reason: str) -> Move:
    """Whether the batch exists, or what became of it, cannot be told: a person decides."""
    return Move(replace(batch, state=Lifecycle.LOST, reason=reason), (("lost", reason),))


# ---- at the provider -----------------------------------------------------------------------------------------------


def after_reading(batch: Batch, reading: Snapshot | ProviderError, at: At) -> Move | Wait:
    """What one reading says. A batch past its deadline is asked to stop; an unknown status word is a reading, a
    provider that cannot be asked says nothing of the batch: it is asked for as long as it keeps results."""
    if isinstance(reading, Snapshot) and reading.state is Lifecycle.ENDED:
        return _ended(batch, reading, at)
    is_past = at.is_after(batch.deadline_at)
    if isinstance(reading, NotFoundError):
        if is_past:
            return _lost_there(batch, f"{reading} (is the key of another project?)", at)
        is_new = at.now - (batch.submitted_at or at.now) < at.pacing.new_batch
        reason = f"{reading} (just created; asking again)" if is_new else str(reading)
        return _unreadable(batch, reason, None, reading, at)
    if isinstance(reading, UnknownStatusError):
        status = reading.code or "unknown"
        return _past(batch, status, at) if is_past else _unreadable(batch, str(reading), status, reading, at)
    if isinstance(reading, ProviderError):
        return _unreadable(batch, str(reading), None, reading, at)
    return _past(batch, reading.provider_status, at) if is_past else _goes_on(batch, reading, at)


def _ended(batch: Batch, reading: Snapshot, at: At) -> Move:
    outcome = reading.outcome or BatchOutcome.COMPLETED
    after = replace(
        batch, state=Lifecycle.ENDED, outcome=outcome, provider_status=reading.provider_status,
        results_ref=reading.results_ref, errors_ref=reading.errors_ref, error_class=failure_class(reading),
        read_at=at.now, ended_at=at.now, due_at=at.now, failures=0, reason=reading.message,
        facts=replace(batch.facts, short_downloads=0),
    )  # fmt: skip
    return Move(after, (("ended", f"{outcome} ({reading.provider_status}) {reading.message or ''}".strip()),))


def _goes_on(batch: Batch, reading: Snapshot, at: At) -> Move | Wait:
    after = replace(
        batch, due_at=at.now + min(at.terms.poll, LONGEST_PAUSE), provider_status=reading.provider_status, failures=0,
        reason=None, read_at=at.now,
    )  # fmt: skip
    if reading.state is Lifecycle.CANCELLING and batch.state is Lifecycle.IN_FLIGHT:
        return Move(replace(after, state=Lifecycle.CANCELLING), (("cancelling", "seen at the provider"),))
    is_new = reading.provider_status != batch.provider_status
    events = (("status", reading.provider_status),) if is_new else ()
    return Wait(after, events, stop=reading.state is Lifecycle.IN_FLIGHT and batch.state is Lifecycle.CANCELLING)


def _unreadable(batch: Batch, reason: str, status: str | None, error: ProviderError, at: At) -> Move | Wait:
    if batch.deadline_at is not None and at.is_after(batch.deadline_at + at.terms.retention):
        return _lost_there(batch, f"cannot be asked about any more: {reason}", at)
    after = replace(
        batch, due_at=at.now + at.pacing.backoff(batch.failures, getattr(error, "retry_after", None)),
        failures=batch.failures + 1, failed_status=error.status, reason=reason,
        provider_status=status or batch.provider_status,
    )  # fmt: skip
    events = (("unclear", reason),) if reason != batch.reason else ()
    return Wait(after, events, stop=status is not None and batch.state is Lifecycle.CANCELLING)


def _past(batch: Batch, status: str, at: At) -> Move:
    """Past its deadline: ask the provider to stop, and give it time to. One that never says it has may still answer,
    and bill: whether its rows go again is a person's word."""
    reason = f"past its deadline, {batch.provider} still says {status!r}"
    if batch.state is Lifecycle.CANCELLING:
        return _lost_there(batch, reason, at)
    after = replace(
        batch, state=Lifecycle.CANCELLING, reason=reason, deadline_at=at.now + at.pacing.last,
        due_at=at.now + at.terms.poll,
    )  # fmt: skip
    return Move(after, (("deadline", reason),), stop=True)


def _lost_there(batch: Batch, reason: str, at: At) -> Move:
    reason = f"{reason}; look at {batch.provider_id} in the console of {batch.provider}, then `resolve`"
    return lost(replace(batch, due_at=at.now), reason)


# ---- its results ---------------------------------------------------------------------------------------------------


def after_failed_download(batch: Batch, error: ProviderError, at: At) -> Wait | None:
    """What came is nothing. The download is tried again as long as the provider may have the results, for they were
    paid for. None: it has them no more."""
    if not may_be_kept(batch, error, at):
        return None
    return _again(_asked(batch, error), f"download failed: {error}", at, error)


def after_download(batch: Batch, found: Downloaded, at: At) -> Wait | Collect:
    """Whether what is on disk is all there is. What comes short is downloaded again while that may help."""
    lack = found.lack
    if lack is None:
        return Collect(batch)
    billed = found.answers != 0
    if found.failed is not None:
        return _give_up(batch, f"download failed: {found.failed}", billed=billed)
    if found.uncounted is not None:
        named = f"{found.named} of {batch.requests} requests are named"
        reason = f"{named}; whether that is all there is cannot be told: {found.uncounted}"
        if not may_be_kept(batch, found.uncounted, at):
            return _give_up(batch, reason, billed=billed)
        return _again(_asked(batch, found.uncounted), reason, at)
    if lack.downloads is None:
        if lack.may_be_none:
            batch = _with(batch, short_downloads=batch.facts.short_downloads + 1)
        if is_worth_another(batch, at, is_none_of_it=lack.may_be_none):
            return _again(batch, lack.reason, at)
    elif found.grew:
        return _again(_with(batch, short_downloads=0), lack.reason, at, event="download_grew")
    elif batch.facts.short_downloads + 1 < lack.downloads:
        counted = _with(batch, short_downloads=batch.facts.short_downloads + 1)
        return _again(counted, lack.reason, at, event="download_short")
    return _give_up(batch, lack.reason, billed=True) if lack.billed else Collect(batch)


def _asked(batch: Batch, error: ProviderError) -> Batch:
    """The batch, whose failures do not grow where the provider was not asked, for want of a network."""
    return batch if error.is_sent else replace(batch, failures=min(batch.failures, DOWNLOADS // 2))


def _give_up(batch: Batch, reason: str, *, billed: bool) -> Collect:
    """Go on with what is on disk; where the rest may have been ``billed``, it is out of reach."""
    return Collect(batch, reason if billed else None, (("download_given_up", reason),))


def _again(batch: Batch, reason: str, at: At, error: ProviderError | None = None, event: str | None = None) -> Wait:
    due = at.now + at.pacing.backoff(batch.failures, getattr(error, "retry_after", None))
    event = event or ("download_again" if reason != batch.reason else None)
    status = None if error is None else error.status
    after = replace(batch, due_at=due, failures=batch.failures + 1, failed_status=status, reason=reason)
    return Wait(after, ((event, reason),) if event else ())


# ---- a person stops it ---------------------------------------------------------------------------------------------


def after_cancel(batch: Batch, error: ProviderError | None, at: At) -> Move | Wait:
    """The provider was asked to stop the batch: it will, or did not say so and is asked again until the batch ends."""
    if error is None:
        return Move(replace(batch, state=Lifecycle.CANCELLING, due_at=at.now), (("cancelling", "asked for"),))
    return not_stopped(Wait(batch), f"{error}; asked again until it ends")


def not_stopped(decision: Move | Wait, problem: str) -> Move | Wait:
    """The decision, where the provider did not say that it will stop the batch. That is told once."""
    after = decision.after
    if isinstance(decision, Move):  # past its deadline
        reason = f"{after.reason}; {problem}"
        return replace(decision, after=replace(after, reason=reason), events=(("deadline", reason),))
    if after.facts.stop_refused:
        return decision
    events = (("cancel_failed", problem), *decision.events)
    return replace(decision, after=_with(after, stop_refused=True), events=events)
