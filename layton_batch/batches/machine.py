"""Every decision about a batch: its state and an event → the columns that change.

READ after ``states.py``. Nothing here calls a provider, reads or writes. A stage fetches, one of these functions
decides, and the store applies the decision in one transaction. No other module builds a decision: ``Wait`` (the batch
stays in its state), ``Move`` (it goes to another) or ``Collect`` (the results on disk are filed).

| state | event | change |
|---|---|---|
| planned | it exceeds a limit, or the budget | waits (``held_back``) |
| | its file is damaged, or a copy of the workspace sends batches | waits for a person (``for_person``) |
| | its upload or the list before the create fails | waits; ended if its file is refused (``after_upload``) |
| | its requests are not wanted any more | ended, cancelled (``withdrawn``) |
| | a person brings its results | ended, completed (``brought``) |
| | it is about to be created | submitting (``before_create``) |
| any open state | its provider answered nothing for a whole call | waits for a person (``for_person``) |
| submitting | the intent is too old | is looked for (``before_call``) |
| | the reply to the create | in flight, planned, ended, or is looked for (``after_create``) |
| | a reading of the provider's list | in flight, planned, lost, or waits (``after_look``) |
| any other | a later reading of the list | its given-up creates are closed or open (``after_later_look``) |
| in flight | a person or the deadline stops it | cancelling (``to_stop``, ``after_snapshot``) |
| in flight, cancelling | a snapshot, and whether a cancel was refused | ended, lost, or waits (``after_snapshot``) |
| ended | a download | is filed, or waits (``after_download``) |
| | its results are filed | collected (``collected``) |
| lost | a person decides | in flight, planned, ended (``adopted``, ``sent_again``, ``never_made``, ``given_up``) |
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from layton_batch.batches.batch_results import DownloadResult, Lack
from layton_batch.clock import LONGEST_PAUSE, Pacing
from layton_batch.costs.stated import NOTHING_STATED, CostTotals
from layton_batch.errors import (
    FileError,
    LookUpRefusedError,
    NotFoundError,
    ProviderError,
    RequestRefusedError,
    TransientProviderError,
    UnknownStatusError,
)
from layton_batch.providers.wire_errors import concerns_account, failure_class
from layton_batch.records import (
    Account,
    Batch,
    BatchEvent,
    Collect,
    End,
    FileDigest,
    MatchingBatch,
    Move,
    RequestCost,
    Snapshot,
    Wait,
)
from layton_batch.states import TO_SEND, BatchOutcome, ErrorClass, Lifecycle, RequestOutcome
from layton_batch.text import money, plural

HELD = "held back: "
"""Beginning of the reason of a planned batch that a limit or the budget holds back. For people only."""
STAYS_RESERVED = "its maximum cost stays reserved because the provider may have billed it"
STALE_SECONDS = 60.0
"""The longest time between the intent to create a batch and the call that does."""
REFUSED_CALLS, FAILED_CALLS = 16, 300
"""After so many failed calls in a row, with growing pauses, a person is told: after some two hours of refusals, or
three days of other errors."""
PAYLOAD_TOO_LARGE, NOT_FOUND, FORBIDDEN = 413, 404, 403
FILE_REFUSALS = frozenset({400, PAYLOAD_TOO_LARGE, 415, 422})
"""Statuses by which the provider refuses the uploaded file itself, so that its requests have an outcome."""
TRIES = 4
"""The number of creates that may be refused with 404 before the refusal is final: a file that was uploaded a moment ago
can be late in becoming visible."""
MOST_REPEATS = 5
"""The number of creates for one answer that may be given up because no list shows them, before a person decides."""
DOWNLOADS = 10
"""The number of downloads, with growing pauses, that fail or come short before results are given up."""
SHORT_DOWNLOADS = {Lack.ROWS: 7, Lack.ANSWERS: DOWNLOADS, Lack.EVERYTHING: DOWNLOADS, Lack.CONTENT: DOWNLOADS}
"""Downloads that come short, by what is lacking: pauses add up to 5 minutes for rows that the provider does not count,
else to 36."""
GONE = frozenset({403, 404, 410})
"""Statuses by which a provider refuses results that it no longer keeps."""


@dataclass(frozen=True, slots=True)
class DecisionLimits:
    """The moment of a decision, and what provider and manifest allow the batch, in seconds.

    ``poll``: between two snapshots. ``deadline``: from the create until the provider is asked to stop the batch.
    ``window``: in which the provider promises to end it. ``retention``: for which the provider keeps results.
    ``shows_absence``: whether the provider's list shows for certain that a batch does not exist. ``run_began``: before
    everything else of the run. ``account``: that pays for calls now.

    Our clock alone has a batch stopped, or makes it ``lost``. It never gives up what was paid for, and never has
    anything sent again: for that the provider must have refused or failed a number of downloads, or have said how each
    request ended.
    """

    now: float
    pacing: Pacing
    poll: float
    deadline: float
    window: float
    retention: float
    shows_absence: bool = True
    run_began: float = 0.0
    account: Account = field(default_factory=Account)

    def is_after(self, moment: float | None) -> bool:
        """Return whether the moment has passed by our clock."""
        return moment is not None and self.now > moment


# ---- rules that several states share -------------------------------------------------------------------------------


def _failed(batch: Batch, error: ProviderError, reason: str, at: DecisionLimits) -> Batch:
    """A call failed that costs nothing, or certainly did nothing. That is no outcome of a request: the call is repeated
    with growing pauses, until it is time for a person."""
    is_refusal = isinstance(error, RequestRefusedError | LookUpRefusedError) or is_of_account(error)
    failures = batch.failures + 1
    return replace(
        batch, failures=failures, failed_status=error.status, reason=reason,
        due_at=at.now + at.pacing.backoff(batch.failures, getattr(error, "retry_after", None)),
        needs_person=failures >= (REFUSED_CALLS if is_refusal else FAILED_CALLS),
    )  # fmt: skip


def _if_new(batch: Batch, event: str, reason: str) -> tuple[BatchEvent, ...]:
    """Return the event, unless the batch waits for the same reason already."""
    return () if reason in (batch.reason or "") else ((event, reason),)


def is_of_account(error: ProviderError) -> bool:
    """Return whether a call was refused to the account, whatever it asked: that says nothing of a request. A call, in
    contrast to a row, is answered with 403 for no other reason."""
    return error.status == FORBIDDEN or concerns_account(error.status, error.code, str(error))


def is_of_another_account(batch: Batch, at: DecisionLimits) -> bool:
    """Return whether the create was intended for another key, address or organisation than calls go out with now. What
    that account is told of the batch proves nothing."""
    pairs = ((batch.account, at.account.key), (batch.organisation, at.account.organisation))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _other_account(batch: Batch) -> str:
    account = "with another key, at another address or for another organisation"
    return f"it was created {account} than {batch.provider} is called with now"


def lost(batch: Batch, reason: str) -> Move:
    """Nothing shows whether the batch exists, or how it ended: a person decides."""
    return Move(replace(batch, state=Lifecycle.LOST, reason=reason), (("lost", reason),))


def _ended_unsent(
    batch: Batch, outcome: BatchOutcome, error_class: ErrorClass, event: BatchEvent, now: float, **changes: Any
) -> Move:
    """The batch is over without results: its requests end as it does."""
    after = replace(
        batch, state=Lifecycle.ENDED, outcome=outcome, error_class=error_class, ended_at=now, due_at=now,
        reason=event[1], **changes,
    )  # fmt: skip
    return Move(after, (event,))


# ---- planned -------------------------------------------------------------------------------------------------------


def held_back(batch: Batch, reason: str, until: float | None = None) -> Wait:
    """The planned batch is not sent now. ``until``: the moment when it can be (epoch seconds); None: not known."""
    due = batch.due_at if until is None else until
    return Wait(replace(batch, reason=f"{HELD}{reason}", needs_person=False, due_at=due))


def for_person(batch: Batch, event: str, reason: str) -> Wait:
    """A person has to mend what holds the batch back. It stays due, so that the next call tries it at once."""
    return Wait(replace(batch, reason=reason, needs_person=True), _if_new(batch, event, reason))


def after_copies(batch: Batch, unknown: Sequence[MatchingBatch]) -> Wait:
    """The list shows batches with the run's mark that the database does not know. The workspace is an older copy of the
    one that sent them: the requests of the planned batch may have been paid for."""
    reason = (
        f"{batch.provider} has {', '.join(map(str, unknown))} of this run, which this workspace does not know: a newer "
        f"copy of it sent them. Go on with that copy; to pay here as well, `layton-batch resolve {batch.id} --ignore`"
    )
    return for_person(batch, "sent_by_a_copy", reason)


def after_ignoring(batch: Batch, now: float) -> Wait:
    """A person says that what a copy of the workspace sent does not matter: the planned batch is sent."""
    return Wait(replace(batch, reason=None, needs_person=False, due_at=now), (("copy_ignored", "by a person"),))


def after_upload(batch: Batch, error: ProviderError, at: DecisionLimits) -> Move | Wait:
    """The upload failed, and nothing was paid. Only a refusal of the file itself ends the batch."""
    if isinstance(error, RequestRefusedError) and error.status in FILE_REFUSALS and not is_of_account(error):
        return _refused(batch, f"the upload was refused: {error}", error, at)
    failure = "does not take its file" if error.is_sent else "cannot be reached"
    reason = f"not sent: {batch.provider} {failure}: {error}"
    return Wait(_failed(batch, error, reason, at), (("upload_failed", str(error)),))


def after_unread_list(batch: Batch, error: ProviderError, at: DecisionLimits) -> Wait:
    """The provider's list, which must be read before a create, could not be read: a copy may have sent the batch."""
    reason = f"not sent: whether {batch.provider} has it already cannot be told, for its list cannot be read: {error}"
    return Wait(_failed(batch, error, reason, at), (("not_looked_for", str(error)),))


def withdrawn(batch: Batch, reason: str, now: float, *, event: str = "withdrawn", plan_again: bool = False) -> Move:
    """The planned batch is over before it was sent. ``plan_again``: its job is to see which of its answers are wanted
    still."""
    move = _ended_unsent(batch, BatchOutcome.CANCELLED, ErrorClass.NOT_EXECUTED, (event, reason), now)
    return replace(move, plan_again=plan_again)


def brought(batch: Batch, source: str, now: float) -> Move:
    """A person sent the planned batch elsewhere and brings its results, which are on disk."""
    after = replace(
        batch, state=Lifecycle.ENDED, outcome=BatchOutcome.COMPLETED, ended_at=now, due_at=now, reason=source,
        needs_person=False,
    )  # fmt: skip
    return Move(after, (("results_brought", source),))


def before_create(batch: Batch, input_ref: str | None, at: DecisionLimits) -> Move:
    """State the intent to pay: from here on its maximum cost is set aside."""
    after = replace(
        batch, absent_looks=0, state=Lifecycle.SUBMITTING, input_ref=input_ref, account=at.account.key,
        organisation=at.account.organisation, submitting_at=at.now, due_at=at.now, reason=None, needs_person=False,
    )  # fmt: skip
    return Move(after, (("submitting", f"tag {batch.tag}"),))


# ---- submitting: the reply to the create ---------------------------------------------------------------------------


def before_call(batch: Batch, at: DecisionLimits) -> Wait | None:
    """Return None if the intent is fresh. One that is too old, or later than now, may not be acted upon: the process
    was suspended (a laptop's lid, SIGSTOP), or its clock was set. The batch is looked for first."""
    if abs(at.now - (batch.submitting_at or 0.0)) <= STALE_SECONDS:
        return None
    reason = (
        "the process was suspended, or the clock changed, before the create. Another process may have sent the batch"
    )
    return Wait(_unclear(batch, reason), (("create_unclear", reason),))


def after_create(batch: Batch, reply: str | ProviderError | FileError, at: DecisionLimits) -> Move | Wait:
    """Decide from the reply to the one paid call. The batch goes again only if the reply promises that nothing was
    done."""
    match reply:
        case str():
            return _in_flight(batch, reply, "submitted", at)
        case FileError():  # gone this very moment, before a byte was sent
            return _not_created(replace(batch, failures=0, reason=str(reply), due_at=at.now))
        case RequestRefusedError() if not _may_pass(batch, reply):
            return _refused(batch, f"the create was refused: {reply}", reply, at)
        case RequestRefusedError() | TransientProviderError():
            after = _failed(batch, reply, f"not created: {reply}", at)
            # with these the provider may mean that it does not find the file
            return _not_created(replace(after, input_ref=None) if reply.status in {400, 403, 404} else after)
    after = replace(
        _unclear(batch, str(reply)), due_at=at.now + at.pacing.looks[0], failed_status=reply.status,
        unclear_since=at.now if batch.unclear_since is None else batch.unclear_since,
    )  # fmt: skip
    return Wait(after, (("create_unclear", str(reply)),))


def _unclear(batch: Batch, reason: str) -> Batch:
    """Begin to look for the batch: nobody knows whether its create was carried out."""
    return replace(batch, absent_looks=0, reason=reason, failures=0)


def _not_created(after: Batch) -> Move:
    """The create certainly did nothing: the batch is sent again, and its reserve is released."""
    return Move(replace(after, state=Lifecycle.PLANNED, unclear_since=None), (("not_created", after.reason or ""),))


def _may_pass(batch: Batch, error: RequestRefusedError) -> bool:
    """Return whether the same create may be accepted later: the account is mended, or its file becomes visible."""
    is_final = batch.failed_status == NOT_FOUND and batch.failures >= TRIES - 1
    return is_of_account(error) or (error.status == NOT_FOUND and not is_final)


def _refused(batch: Batch, reason: str, error: ProviderError, at: DecisionLimits) -> Move:
    """The provider will never accept this batch: it is over, and nothing was paid."""
    error_class = ErrorClass.TOO_LARGE if error.status == PAYLOAD_TOO_LARGE else ErrorClass.INVALID_REQUEST
    event = ("refused", reason)
    return _ended_unsent(batch, BatchOutcome.FAILED, error_class, event, at.now, failures=0, unclear_since=None)


def _in_flight(batch: Batch, provider_id: str, event: str, at: DecisionLimits) -> Move:
    after = replace(
        batch, state=Lifecycle.IN_FLIGHT, provider_id=provider_id, submitted_at=at.now,
        due_at=at.now + min(at.poll, at.pacing.first_poll), deadline_at=at.now + at.deadline, failures=0,
        reason=None, unclear_since=None,
    )  # fmt: skip
    return Move(after, ((event, provider_id),))


# ---- submitting: whether a create without a reply was carried out --------------------------------------------------


def after_look(
    batch: Batch,
    candidates: Sequence[MatchingBatch] | ProviderError,
    at: DecisionLimits,
    *,
    bound: Decimal,
    given_up_creates: int = 0,
) -> Move | Wait:
    """Decide from the provider's list whether an unconfirmed create was carried out.

    ``candidates``: batches in the list that may be this one, and are no other batch of the run. ``bound``: the most
    that a create of the batch can cost in USD. ``given_up_creates``: how many for one of its answers, of whichever
    batch, were given up because no list showed them. Under another account than that of the create the list tells
    nothing of the batch: a second create would be paid for in addition to the first.
    """
    batch = replace(batch, needs_person=False)
    if is_of_another_account(batch, at):
        person = "look in the console of the account that was set then; with its key and address set again, `resolve`"
        return lost(batch, f"{_other_account(batch)}, and this account does not show it: {person}")
    if isinstance(candidates, ProviderError):
        return _list_unread(batch, candidates, at)
    certain = [candidate for candidate in candidates if candidate.certain]
    if certain:
        return after_certain(batch, certain, at)
    return _unsure(batch, candidates, at) if candidates else _absent(batch, at, bound, given_up_creates)


def after_certain(batch: Batch, certain: Sequence[MatchingBatch], at: DecisionLimits) -> Move | Wait:
    """A batch at the provider that carries this batch's marks is this batch. Between two of them a person decides. One
    that the list shows without an id may get one."""
    if len(certain) > 1:
        marked = ", ".join(map(str, certain))
        return lost(batch, f"more than one batch carries its marks: {marked}; `resolve` says which is ours")
    if not certain[0].provider_id:
        return _unsure(batch, certain, at)
    return _in_flight(batch, certain[0].provider_id, "found", at)


def _list_unread(batch: Batch, error: ProviderError, at: DecisionLimits) -> Move | Wait:
    """The provider did not list its batches. A person mends the account's trouble, and the batch is looked for again;
    if this key may never read the list (a plain 403), a person decides."""
    after = _failed(batch, error, f"cannot look for it yet: {error}", at)
    if after.needs_person and not concerns_account(error.status, error.code, str(error)):
        return lost(batch, f"cannot be looked for: {error}; look in {batch.provider}'s console, then `resolve`")
    return Wait(after, (("unsure", after.reason or ""),))


def _unsure(batch: Batch, candidates: Sequence[MatchingBatch], at: DecisionLimits) -> Move | Wait:
    """Wait until the candidates show whose they are, as long as they can. After that a person decides."""
    names = ", ".join(map(str, candidates))
    is_late = at.is_after((batch.submitting_at or 0.0) + at.window + at.pacing.may_tell)
    may_tell = any(candidate.may_tell for candidate in candidates) and not is_late
    if batch.failures >= len(at.pacing.looks) and not may_tell:
        return lost(
            batch, f"{names} may be this batch, but the provider shows no proof. Run `layton-batch resolve` to choose"
        )
    reason = f"{names} may be this batch; looking again until the provider shows proof"
    looks = min(batch.failures + 1, len(at.pacing.looks))  # no more: lists that cannot be read are counted on from it
    due = at.now + at.pacing.looks[min(batch.failures, len(at.pacing.looks) - 1)]
    return Wait(replace(batch, failures=looks, due_at=due, reason=reason), (("unsure", reason),))


def _absent(batch: Batch, at: DecisionLimits, bound: Decimal, given_up_creates: int) -> Move | Wait:
    """The list does not show the batch. This is believed after looks for as long as a create can take, if the list
    shows every batch: the batch is sent again. After too many creates for an answer that no list shows, it is
    `lost`."""
    batch, looks = replace(batch, failures=0), batch.absent_looks
    if looks < len(at.pacing.looks):
        sent = f"its create was {answer_words(batch.failed_status)}; " if batch.unclear_since is not None else ""
        reason = f"{sent}not in the list of {batch.provider} yet; looking again"
        after = replace(batch, absent_looks=looks + 1, due_at=at.now + at.pacing.looks[looks], reason=reason)
        return Wait(after, (("looking", reason),))
    reason = f"not in the list of {batch.provider} after {looks + 1} looks"
    if not at.shows_absence or given_up_creates >= MOST_REPEATS:
        proof = f"as after {given_up_creates} creates for the same answers before"
        if not at.shows_absence:
            proof = "which proves nothing, for that list may be incomplete"
        return lost(batch, f"{reason}, {proof}: look in {batch.provider}'s console, then `resolve`")
    reason = f"not created: {reason}; {STAYS_RESERVED}"
    after = replace(
        batch, given_up_creates=batch.given_up_creates + 1, state=Lifecycle.PLANNED, reason=reason,
        due_at=at.now, creates_usd=batch.creates_usd + bound,
    )  # fmt: skip
    return Move(after, (("not_in_list", reason),))


def answer_words(status: int | None) -> str:
    """Return how an unclear create was answered."""
    return "not answered" if status is None else f"answered with HTTP {status}"


# ---- any state but submitting: what given-up creates cost, by a later list -----------------------------------------


def is_to_look_later(batch: Batch, at: DecisionLimits) -> bool:
    """Return whether a list is to be searched once more for given-up creates of the batch: an hour after the last one,
    which closes the bill, and then once a day for as long as the provider keeps results."""
    sent = batch.submitting_at
    if not batch.given_up_creates or sent is None or batch.state is Lifecycle.SUBMITTING:
        return False
    if is_of_another_account(batch, at) or at.now >= sent + at.retention:
        return False
    pause = at.pacing.closing if batch.creates_of_unknown_cost else at.pacing.reopening
    last = max(sent, batch.listed_at or 0.0)
    return not last <= at.now < last + pause  # before the last one: our clock was set


def after_later_look(
    batch: Batch, candidates: Sequence[MatchingBatch] | ProviderError, at: DecisionLimits, *, bound: Decimal
) -> Wait:
    """Decide from a later list what given-up creates of the batch cost: nothing if it lacks them, or up to ``bound``
    USD each if it shows that they were carried out after all. A batch that is to be sent is that create itself: it is
    found when it is sent."""
    batch = replace(batch, listed_at=at.now)
    if isinstance(candidates, ProviderError):
        return Wait(batch)
    batch_ids = tuple(match.provider_id for match in candidates if match.certain and match.provider_id)
    if batch_ids and batch.state not in TO_SEND | {Lifecycle.LOST}:
        return _made_after_all(batch, batch_ids, bound)
    is_long_ago = at.now >= (batch.submitting_at or at.now) + at.pacing.closing
    if candidates or not (at.shows_absence and is_long_ago):
        return Wait(batch)
    later = plural(round(at.pacing.closing / 60), "minute")
    return _closed(batch, f"the list of {batch.provider} does not show it {later} later", bound)


def _made_after_all(batch: Batch, batch_ids: tuple[str, ...], bound: Decimal) -> Wait:
    """The provider carried out creates that were given up: their cost is unknown, also if it was closed."""
    unknown, extra = batch.creates_of_unknown_cost, batch.extra_batches + len(batch_ids)
    after = replace(
        batch, extra_batches=extra, closed_creates=batch.given_up_creates - max(unknown, extra),
        creates_usd=batch.creates_usd + max(extra - unknown, 0) * bound,
    )  # fmt: skip
    detail = f"{batch.provider} made {', '.join(batch_ids)} of a create that was given up, and may bill it in addition"
    return Wait(after, (("made_after_all", detail),), extra_ids=batch_ids)


def _closed(batch: Batch, reason: str, bound: Decimal) -> Wait:
    """Given-up creates of the batch cost nothing, but for those that are known to have been carried out."""
    extra = batch.extra_batches
    if batch.creates_of_unknown_cost <= extra:
        return Wait(batch)
    usd = min(batch.creates_usd, extra * bound) if extra else Decimal(0)  # "0", not "0.000000", in documents
    detail = f"a create that was given up cost nothing: {reason}; {money(batch.creates_usd - usd)} less is unknown"
    after = replace(batch, closed_creates=batch.given_up_creates - extra, creates_usd=usd)
    return Wait(after, (("create_closed", detail),))


# ---- in flight, cancelling -----------------------------------------------------------------------------------------


def to_stop(batch: Batch, now: float) -> Move:
    """A person stops the batch. It is cancelling before the provider is asked, so that a cancel is never taken for
    somebody else's if the program ends meanwhile."""
    return Move(replace(batch, state=Lifecycle.CANCELLING, due_at=now), (("cancelling", "a person stops it"),))


def is_to_stop(batch: Batch, reply: Snapshot | ProviderError) -> bool:
    """Return whether the provider is to be asked (again) to stop the batch: it shows that the batch goes on."""
    goes_on = reply.state is Lifecycle.IN_FLIGHT if isinstance(reply, Snapshot) else _status_word(reply) is not None
    return batch.state is Lifecycle.CANCELLING and goes_on


def _not_stopped(batch: Batch, error: ProviderError, wait: Wait) -> Wait:
    """The provider did not confirm that it stops the batch: it is asked again until the batch ends. An event says so
    once. ``wait``: what else is decided about the batch."""
    problem = f"{batch.provider} does not stop it: {error}; asked again until it ends"
    reason = problem if wait.after.reason is None else f"{wait.after.reason}; {problem}"
    after = replace(wait.after, reason=reason, failures=max(wait.after.failures, 1), failed_status=error.status)
    return replace(wait, after=after, events=(*wait.events, *_if_new(batch, "cancel_failed", problem)))


def after_snapshot(
    batch: Batch, reply: Snapshot | ProviderError, at: DecisionLimits, stop_error: ProviderError | None = None
) -> Move | Wait:
    """Decide from one snapshot, or from the error in its place. A batch past its deadline is to stop. ``stop_error``:
    the provider was asked to stop the batch, and did not confirm."""
    batch = replace(batch, needs_person=False)
    status = _status_word(reply)
    if isinstance(reply, Snapshot) and reply.state is Lifecycle.ENDED:
        return _ended(batch, reply, at)
    if status is not None and at.is_after(batch.deadline_at):
        return _past_deadline(batch, status, at)
    decision = _goes_on(batch, reply, at) if isinstance(reply, Snapshot) else _no_snapshot(batch, reply, status, at)
    return _not_stopped(batch, stop_error, decision) if stop_error and isinstance(decision, Wait) else decision


def _status_word(reply: Snapshot | ProviderError) -> str | None:
    """Return the provider's word for the batch, known to us or not. None: the reply says nothing of the batch."""
    if isinstance(reply, Snapshot):
        return reply.provider_status
    return (reply.code or "unknown") if isinstance(reply, UnknownStatusError) else None


def _ended(batch: Batch, snapshot: Snapshot, at: DecisionLimits) -> Move:
    """The provider is done. A cancel that this run did not ask for is a person's."""
    outcome = snapshot.outcome or BatchOutcome.COMPLETED
    stopped_elsewhere = outcome is BatchOutcome.CANCELLED and batch.state is not Lifecycle.CANCELLING
    after = replace(
        batch, short_downloads=0, stopped_elsewhere=stopped_elsewhere, state=Lifecycle.ENDED, outcome=outcome,
        provider_status=snapshot.provider_status, results_ref=snapshot.results_ref, errors_ref=snapshot.errors_ref,
        error_class=failure_class(snapshot), read_at=at.now, ended_at=at.now, due_at=at.now, failures=0,
        reason=snapshot.message,
    )  # fmt: skip
    return Move(after, (("ended", f"{outcome} ({snapshot.provider_status}) {snapshot.message or ''}".strip()),))


def _goes_on(batch: Batch, snapshot: Snapshot, at: DecisionLimits) -> Wait:
    status = snapshot.provider_status
    after = replace(
        batch, due_at=at.now + min(at.poll, LONGEST_PAUSE), provider_status=status, failures=0, reason=None,
        read_at=at.now,
    )  # fmt: skip
    return Wait(after, () if status == batch.provider_status else (("status", status),))


def _no_snapshot(batch: Batch, error: ProviderError, status: str | None, at: DecisionLimits) -> Move | Wait:
    """The batch is read again as long as results are kept: an error says nothing of it. One that the provider does not
    know is read until its deadline, for a new one may not be shown yet."""
    reason, patience = str(error), at.retention
    if isinstance(error, NotFoundError):
        reason, patience = f"{error} (is the key of another project?)", 0.0
        if batch.read_at is None and not at.is_after(batch.deadline_at):
            reason = f"{error} (not shown there yet; asking again)"
    if is_of_another_account(batch, at):
        reason = f"{reason}; {_other_account(batch)}"
    if batch.deadline_at is not None and at.is_after(batch.deadline_at + patience):
        return _lost_there(batch, f"cannot be asked about any more: {reason}", at)
    after = replace(_failed(batch, error, reason, at), provider_status=status or batch.provider_status)
    return Wait(after, _if_new(batch, "unclear", reason))


def _past_deadline(batch: Batch, status: str, at: DecisionLimits) -> Move:
    """The provider is asked to stop the batch, and has time to. A batch that never ends may still be answered and
    billed: a person decides whether its requests go again."""
    reason = f"past its deadline, {batch.provider} still says {status!r}"
    if batch.state is Lifecycle.CANCELLING:
        return _lost_there(batch, reason, at)
    deadline = at.now + at.pacing.stopping
    after = replace(batch, state=Lifecycle.CANCELLING, reason=reason, deadline_at=deadline, due_at=at.now)
    return Move(after, (("deadline", reason),))


def _lost_there(batch: Batch, reason: str, at: DecisionLimits) -> Move:
    reason = f"{reason}; look at {batch.provider_id} in the console of {batch.provider}, then `resolve`"
    return lost(replace(batch, due_at=at.now), reason)


# ---- ended: its results --------------------------------------------------------------------------------------------


def after_download(batch: Batch, download: DownloadResult, at: DecisionLimits) -> Wait | Collect:
    """Decide whether the rows on disk are all. A download that failed, or came short, is repeated while that may help.
    Results are given up only after a number of downloads, however long the program slept."""
    shortfall, error = download.shortfall, download.error
    if shortfall is None:
        return Collect(batch)
    downloads = 1 if download.grew else batch.short_downloads + 1
    if error is None:
        reason, may_be_billed = shortfall.reason, shortfall.lack.may_be_billed
        is_last = downloads >= SHORT_DOWNLOADS[shortfall.lack]
    else:
        reason, may_be_billed = f"download failed: {error}", download.answers != 0
        is_last = error.is_sent and batch.failures >= DOWNLOADS
    if is_last and at.is_after(_end(batch, at) + _patience(batch, download, shortfall.lack, at)):
        events = (("download_given_up", reason),) if may_be_billed or error is not None else ()
        return Collect(batch, reason if may_be_billed else None, events)
    if error is not None:
        return _after_failed_download(batch, error, reason, at)
    due = at.now + at.pacing.backoff(batch.failures)
    counted = replace(batch, short_downloads=downloads, failures=batch.failures + 1, failed_status=None)
    return Wait(replace(counted, due_at=due, reason=reason), (("download_short", reason),))


def _patience(batch: Batch, download: DownloadResult, lack: Lack, at: DecisionLimits) -> float:
    """Return how many seconds after the batch's end results may still come, or are kept.

    A provider's documents say how long it keeps them, and err on the short side: a plain refusal after that time is
    believed. A transient failure is not, nor is a file without a row of those that are counted, nor a refusal by
    another account than that of the create. A batch without any results may be slow to show them.
    """
    lasting = max(3 * at.retention, at.pacing.failed_download)
    if download.error is None:
        return {Lack.EVERYTHING: at.pacing.late_results, Lack.CONTENT: lasting}.get(lack, -math.inf)
    if download.answers == 0:  # what is lacking was not billed
        return -math.inf
    return at.retention if _is_gone(download.error) and not is_of_another_account(batch, at) else lasting


def _after_failed_download(batch: Batch, error: ProviderError, reason: str, at: DecisionLimits) -> Wait:
    """Repeat the download. A call that did not leave this machine says nothing of the provider, so it cannot be one of
    the last. If the account is refused the results, a person sets the right one."""
    is_elsewhere = _is_gone(error) and is_of_another_account(batch, at)
    if is_elsewhere:
        reason = f"{reason}; {_other_account(batch)}: set the earlier key, address and organisation again"
    counted = batch if error.is_sent else replace(batch, failures=min(batch.failures, DOWNLOADS // 2))
    after = _failed(counted, error, reason, at)
    needs_person = after.needs_person or is_elsewhere
    return Wait(replace(after, needs_person=needs_person), _if_new(batch, "download_again", reason))


def _is_gone(error: ProviderError) -> bool:
    return isinstance(error, RequestRefusedError) and error.status in GONE


def _end(batch: Batch, at: DecisionLimits) -> float:
    """Return when the batch ended, as far as our clock can tell: it may have been behind then, but no batch ends before
    it is sent, or before its run begins."""
    return max(batch.ended_at or 0.0, batch.submitted_at or 0.0, at.run_began)


def collected(
    decision: Collect,
    message: str | None,
    now: float,
    *,
    ends: Mapping[str, End],
    again: Collection[str] = (),
    charges: Sequence[RequestCost] = (),
    cut: Collection[str] = (),
    files: Sequence[FileDigest] = (),
    stated: CostTotals = NOTHING_STATED,
    events: Iterable[BatchEvent] = (),
    spent: Decimal = Decimal(0),
    unknown: Decimal = Decimal(0),
) -> Move:
    """The answers are filed, and every request has its outcome: ``ends``, by custom_id. ``message``: what the provider
    says of the batch as a whole. ``again``: the requests that go into another batch. ``charges``: what its answers
    cost; ``stated``: the same by the provider's books. ``cut``: the answers that ended at their output limit.
    ``files``: its raw results and answers. ``events``: what was odd. ``spent``: what is known of its cost, and
    ``unknown`` the most that its other requests may have cost, in USD.

    Raises AssertionError if not every request of the batch has an end.
    """
    batch = decision.after
    if len(ends) != batch.requests:
        raise AssertionError(f"batch {batch.id}: {batch.requests} requests, but {len(ends)} have an end")
    outcomes = ", ".join(f"{count} {outcome}" for (outcome, _), count in Counter(ends.values()).items())
    reason, error_class = decision.lacking or message, batch.error_class
    if any(end[1] is ErrorClass.ACCOUNT for end in ends.values()):
        error_class = ErrorClass.ACCOUNT
        events = (*events, ("account_refused", reason or ""))
    unanswered = sum(outcome is not RequestOutcome.SUCCEEDED for outcome, _ in ends.values())
    needs_person = batch.stopped_elsewhere and unanswered > 0
    if needs_person:
        reason = (
            f"it was cancelled at {batch.provider}, and not by this run; {unanswered} of {batch.requests} requests "
            "have no answer. `layton-batch retry` asks for them again, `layton-batch cancel` does without"
        )
        events = (*events, ("cancelled_elsewhere", reason))
    after = replace(
        batch, state=Lifecycle.COLLECTED, due_at=now, reason=reason, needs_person=needs_person, error_class=error_class,
        stated_usd=stated.usd, stated_input_tokens=stated.input_tokens, stated_output_tokens=stated.output_tokens,
        spent_usd=spent, unknown_usd=batch.unknown_usd + unknown,
    )  # fmt: skip
    events = (*decision.events, *events, ("collected", outcomes))
    return Move(after, events, ends=ends, again=again, charges=charges, cut=cut, files=files)


# ---- lost: a person decides ----------------------------------------------------------------------------------------


def adopted(batch: Batch, provider_id: str, status: str, at: DecisionLimits) -> Move:
    """A person says that the lost batch is this one at the provider, whose raw ``status`` word was read."""
    after = replace(
        batch, state=Lifecycle.IN_FLIGHT, provider_id=provider_id, provider_status=status,
        submitted_at=batch.submitting_at or at.now, due_at=at.now, deadline_at=at.now + at.deadline, failures=0,
        reason=None, account=at.account.key, organisation=at.account.organisation, unclear_since=None,
    )  # fmt: skip
    return Move(after, (("adopted", provider_id),))


def sent_again(batch: Batch, usd: Decimal, now: float) -> Move:
    """A person has the lost batch sent again. ``usd``: the most that the earlier create may have cost."""
    was_made = batch.provider_id is not None
    person = f"it was {batch.provider_id}: a person has it paid for once more"
    counted = replace(
        batch, given_up_creates=batch.given_up_creates + 1, extra_batches=batch.extra_batches + was_made,
        creates_usd=batch.creates_usd + usd,
    )  # fmt: skip
    detail = f"{person if was_made else 'a person has it sent again'}; {STAYS_RESERVED}"
    return Move(_as_if_new(counted, now), (("resubmit", detail),))


def never_made(batch: Batch, now: float, *, bound: Decimal) -> Move | Wait:
    """A person says that no create of the batch without an answer was carried out: none of them cost anything, and a
    lost batch is planned again. ``bound``: the most that one of them may have cost in USD."""
    closed = _closed(batch, "a person said that it was never made", bound)
    if batch.state is not Lifecycle.LOST:
        return closed
    return Move(_as_if_new(closed.after, now), (("never_made", "a person said so"), *closed.events))


def _as_if_new(batch: Batch, now: float) -> Batch:
    """Plan the lost batch again. Nothing that was known of its create holds for the new one."""
    return replace(
        batch, state=Lifecycle.PLANNED, due_at=now, failures=0, input_ref=None, reason=None, provider_id=None,
        provider_status=None, account=None, organisation=None, submitting_at=None, submitted_at=None, ended_at=None,
        deadline_at=None, unclear_since=None,
    )  # fmt: skip


def given_up(batch: Batch, now: float) -> Move:
    """A person gives the lost batch up. Nobody looks for it any more; its requests may have been billed."""
    was = f", which was {batch.provider_id}," if batch.provider_id else ""
    event = ("given_up", f"a person gave it up: the batch{was} may have been carried out and billed")
    return _ended_unsent(batch, BatchOutcome.FAILED, ErrorClass.OUT_OF_REACH, event, now, provider_id=None, failures=0)
