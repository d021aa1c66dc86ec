"""Every decision about a batch: what a reply, a list, a snapshot, a download or a person makes of it.

READ after ``states.py``. Nothing here calls a provider, reads or writes. A stage fetches, one of these functions
decides, and the store applies the decision in one transaction. No other module builds a decision: ``Wait`` (the batch
stays in its state), ``Move`` (it goes to another) or ``Collect`` (what is on disk is filed). ``batch`` is the batch as
the store has it.

The sections follow the life of a batch: before the create, the create, is it there, at the provider, its results, a
person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from layton_batch.batches.batch_results import DownloadResult, Lack
from layton_batch.clock import LONGEST_PAUSE, Pacing, is_due, utc
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
from layton_batch.providers.protocol import Limits
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
from layton_batch.states import AT_PROVIDER, TO_SEND, BatchOutcome, ErrorClass, Lifecycle, RequestOutcome
from layton_batch.store.standing import HOUR, ProviderLoad
from layton_batch.text import money, plural

HELD = "held back: "
"""Beginning of the reason of a planned batch that a limit or the budget holds back. For people only."""
STALE_SECONDS = 60.0
"""The longest time between the intent to create a batch and the call that does."""
PAYLOAD_TOO_LARGE, NOT_FOUND, FORBIDDEN = 413, 404, 403
FILE_REFUSALS = frozenset({400, PAYLOAD_TOO_LARGE, 415, 422})
"""Statuses by which the provider refuses the uploaded file itself, so that its requests have an outcome."""
TRIES = 4
"""The number of creates that may be refused with 404 before the refusal is final. A file that was uploaded a moment ago
can be late in becoming visible; one that was uploaded long ago may be deleted."""
MOST_REPEATS = 5
"""The number of creates for one answer that may be given up because no list shows them, before a person decides."""
QUICK_REPEATS = 2
"""After so many, the next create waits until the list can prove that the earlier ones were not made."""
REFUSED_CALLS, FAILED_CALLS = 16, 300
"""After so many failed calls, with growing pauses, a person is told: after some two hours of refusals, or three days of
other errors."""
RETENTION_SHARE = 0.75
"""The share of the provider's retention after which results that are not downloaded yet are worth a warning."""
BYTES_PER_TOKEN = 4
"""Bytes of a batch file that count as a token of a provider's queue: an upper guess for text in most languages."""
DOWNLOADS, DOWNLOADS_UNCOUNTED = 10, 7
"""The number of downloads that come short of the provider's count, or only of our requests, with pauses that add up to
36 and to 5 minutes."""
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


# ---- before the create ---------------------------------------------------------------------------------------------


def held_back(batch: Batch, reason: str, until: float | None = None) -> Wait:
    """The planned batch is not sent now. ``until``: the moment when it can be (epoch seconds); None: not known."""
    due = batch.due_at if until is None else until
    return Wait(replace(batch, reason=f"{HELD}{reason}", needs_person=False, due_at=due))


def without_file(batch: Batch, folder: Path) -> Wait:
    """The file of the planned batch is not in the workspace ``folder``: a person has to put it back."""
    reason = f"its file {batch.path} is not in {folder}: put it back, or share that folder"
    return Wait(replace(batch, reason=reason, needs_person=True))


def beside_a_copy(batch: Batch, unknown: Sequence[MatchingBatch]) -> Wait:
    """The list shows batches with the run's mark that the database does not know: the workspace is an older copy of the
    one that sent them, or is used elsewhere, too. The planned batch waits: its requests may have been paid for."""
    shown = ", ".join(map(str, unknown))
    reason = (
        f"{batch.provider} has {shown} of this run, which this workspace does not know: a newer copy of it sent "
        f"them. Go on with that copy; to pay here as well, `layton-batch resolve {batch.id} --ignore`"
    )
    if batch.needs_person and reason == batch.reason:
        return Wait(batch)
    return Wait(replace(batch, reason=reason, needs_person=True), (("sent_by_a_copy", shown),))


def after_ignoring(batch: Batch, now: float) -> Wait:
    """A person says that what a copy of the workspace sent does not matter: the planned batch is sent."""
    return Wait(replace(batch, reason=None, needs_person=False, due_at=now), (("copy_ignored", "by a person"),))


def over_limit(batch: Batch, load: ProviderLoad, limits: Limits) -> Wait | None:
    """Hold the batch back where a limit of its provider would be exceeded by it, beside ``load``."""
    name, at_once, hourly = batch.provider, limits.max_concurrent_batches, limits.max_creates_per_hour
    if at_once is not None and load.running >= at_once:
        return held_back(batch, f"{name} runs {at_once} batches at once")
    if hourly is not None and load.creates >= hourly:
        free = (load.oldest_create or 0.0) + HOUR
        return held_back(batch, f"{name} takes {hourly} batches an hour; the next one from {utc(free):%H:%M} UTC", free)
    queued, most = load.queued_bytes.get(batch.model, 0), limits.max_enqueued_tokens
    if most is None or queued == 0 or (queued + batch.size_bytes) // BYTES_PER_TOKEN <= most:
        return None  # a batch that alone is over the limit goes when nothing else is queued: the provider then says it
    return held_back(batch, f"about {queued // BYTES_PER_TOKEN} of {most} tokens that {name} queues are taken")


def paused(batch: Batch, load: ProviderLoad, now: float, pacing: Pacing) -> Wait | None:
    """Hold the batch back after unclear creates at its provider. Nothing is sent for 1, 2, 4 … 30 minutes, then one
    batch, and the others wait for what becomes of it. None: the batch may be sent."""
    unclear = load.unclear
    if unclear is None:
        return None
    reason = f"{batch.provider}: creates {_answer(unclear.status)} since {utc(unclear.since):%H:%M} UTC"
    if load.sending:
        return held_back(batch, f"{reason}; another batch is tried first")
    pause = pacing.first_outage * 2.0 ** min(max(unclear.number - 1, 0), 16)
    until = unclear.last + min(pause, pacing.longest_outage)
    if batch.facts.absent_creates >= QUICK_REPEATS:
        until = max(until, (batch.submitting_at or 0.0) + pacing.closing)
    return None if is_due(until, now) else held_back(batch, f"{reason}; next try {utc(until):%H:%M} UTC", until)


def _answer(status: int | None) -> str:
    return "not answered" if status is None else f"answered with HTTP {status}"


def unaffordable(batch: Batch, committed: Decimal, budget: Decimal) -> str | None:
    """Return why the budget does not allow the batch beside what is committed, in USD."""
    if batch.max_cost is None:
        return f"{batch.provider} {batch.model} has no known price: give one in [[prices]], or drop the budget"
    if committed + batch.max_cost <= budget:
        return None
    return (
        f"batch {batch.id} needs {money(batch.max_cost)} set aside; {money(committed)} of the budget of "
        f"${budget} is spent or set aside"
    )


def after_file_trouble(batch: Batch, error: FileError) -> Wait:
    """The batch file is not what was planned. The batch stays due, so that it is sent when the file is repaired."""
    if batch.needs_person and str(error) == batch.reason:
        return Wait(batch)
    return Wait(replace(batch, reason=str(error), needs_person=True), (("file_changed", str(error)),))


def after_upload(batch: Batch, error: ProviderError, at: DecisionLimits) -> Move | Wait:
    """The upload failed, and nothing was paid. Only a refusal of the file itself ends the batch."""
    if isinstance(error, RequestRefusedError) and error.status in FILE_REFUSALS and not _is_of_account(error):
        return _refused(batch, f"the upload was refused: {error}", error, at)
    failure = "does not take its file" if error.is_sent else "cannot be reached"
    reason = f"not sent: {batch.provider} {failure}: {error}"
    return _not_sent(batch, error, "upload_failed", reason, at)


def after_unread_list(batch: Batch, error: ProviderError, at: DecisionLimits) -> Wait:
    """The provider's list, which must be read before a create, could not be read."""
    reason = f"not sent: whether {batch.provider} has it already cannot be told, for its list cannot be read: {error}"
    return _not_sent(batch, error, "not_looked_for", reason, at)


def _not_sent(batch: Batch, error: ProviderError, event: str, reason: str, at: DecisionLimits) -> Wait:
    """A free call before the create failed. This is no outcome of a request: the call is repeated with growing pauses,
    and a person is told in the end."""
    failed = batch.facts.failed_calls + 1
    is_refused = isinstance(error, RequestRefusedError | LookUpRefusedError) or _is_of_account(error)
    needs_person = failed >= (REFUSED_CALLS if is_refused else FAILED_CALLS)
    due = at.now + at.pacing.backoff(batch.failures, getattr(error, "retry_after", None))
    after = replace(
        _with(batch, failed_calls=failed), due_at=due, failures=batch.failures + 1, failed_status=error.status,
        reason=reason, needs_person=needs_person,
    )  # fmt: skip
    return Wait(after, ((event, str(error)),))


def withdrawn(batch: Batch, reason: str, now: float, *, plan_again: bool = False) -> Move:
    """The planned batch is over before it was sent. ``plan_again``: others ask for some of its answers, and its job is
    to see which."""
    after = replace(
        batch, state=Lifecycle.ENDED, outcome=BatchOutcome.CANCELLED, error_class=ErrorClass.NOT_EXECUTED,
        ended_at=now, due_at=now, reason=reason,
    )  # fmt: skip
    return Move(after, (("withdrawn", "never sent"),), plan_again=plan_again)


def damaged_in_upload(batch: Batch, now: float) -> Move:
    """The batch file was changed while it was uploaded. The provider may have the damaged file, and takes no other one
    under its name: the requests go into another batch."""
    reason = f"its file {batch.path} was changed while it was uploaded: its requests are planned again"
    return replace(withdrawn(batch, reason, now, plan_again=True), events=(("file_changed", reason),))


# ---- the create ----------------------------------------------------------------------------------------------------


def before_create(batch: Batch, input_ref: str | None, at: DecisionLimits) -> Move:
    """State the intent to pay: from here on its maximum cost is set aside, and looks are counted."""
    after = replace(
        batch, state=Lifecycle.SUBMITTING, input_ref=input_ref, account=at.account.key,
        organisation=at.account.organisation, submitting_at=at.now, due_at=at.now, reason=None, needs_person=False,
        facts=replace(batch.facts, absent_looks=0, unsure_looks=0),
    )  # fmt: skip
    return Move(after, (("submitting", f"tag {batch.tag}"),))


def before_call(batch: Batch, at: DecisionLimits) -> Wait | None:
    """Return None where the intent is fresh. One that is too old, or later than now, may not be acted upon: the process
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
    if isinstance(reply, str):
        return _in_flight(batch, reply, "submitted", at)
    if isinstance(reply, FileError):  # gone this very moment, before a byte was sent
        return _planned_again(replace(batch, failures=0), str(reply), "not_created", 0.0, at)
    if isinstance(reply, RequestRefusedError):
        if not _may_pass(batch, reply):
            return _refused(batch, f"the create was refused: {reply}", reply, at)
        not_found = batch.facts.not_found + (reply.status == NOT_FOUND)
        return _not_created(_with(batch, not_found=not_found), reply, f"refused_{reply.status}", at)
    if isinstance(reply, TransientProviderError):
        return _not_created(batch, reply, "not_created", at)
    after = replace(
        _unclear(batch, str(reply)), due_at=at.now + at.pacing.looks[0], failed_status=reply.status,
        unclear_since=at.now if batch.unclear_since is None else batch.unclear_since,
    )  # fmt: skip
    return Wait(after, (("create_unclear", str(reply)),))


def _unclear(batch: Batch, reason: str) -> Batch:
    """Begin to look for the batch: nobody knows whether its create was carried out."""
    return replace(batch, reason=reason, failures=0, facts=replace(batch.facts, absent_looks=0, unsure_looks=0))


def _not_created(batch: Batch, error: ProviderError, event: str, at: DecisionLimits) -> Move:
    """The create certainly did nothing. A refusal of the account lasts until a person mends it, and is told one in the
    end; with 400, 403 or 404 the provider may mean that it does not find the file."""
    refused = batch.facts.failed_calls + _is_of_account(error)
    needs_person = _is_of_account(error) and refused >= REFUSED_CALLS
    after = replace(
        _with(batch, failed_calls=refused), failures=batch.failures + 1, failed_status=error.status,
        input_ref=None if error.status in (400, FORBIDDEN, NOT_FOUND) else batch.input_ref, needs_person=needs_person,
    )  # fmt: skip
    pause = at.pacing.backoff(batch.failures, getattr(error, "retry_after", None))
    return _planned_again(after, f"not created: {error}", event, pause, at)


def _planned_again(batch: Batch, reason: str, event: str, pause: float, at: DecisionLimits) -> Move:
    """The create certainly did nothing: the batch is sent again, and its reserve is released."""
    after = replace(batch, state=Lifecycle.PLANNED, reason=reason, due_at=at.now + pause, unclear_since=None)
    return Move(after, ((event, reason),))


def _may_pass(batch: Batch, error: RequestRefusedError) -> bool:
    """Return whether the same create may be accepted later."""
    return _is_of_account(error) or (error.status == NOT_FOUND and batch.facts.not_found + 1 < TRIES)


def _is_of_account(error: ProviderError) -> bool:
    """Return whether a call was refused to the account, whatever it asked: that says nothing of a request. A call, in
    contrast to a row, is answered with 403 for no other reason."""
    return error.status == FORBIDDEN or concerns_account(error.status, error.code, str(error))


def _refused(batch: Batch, reason: str, error: ProviderError, at: DecisionLimits) -> Move:
    """The provider will never accept this batch: it is over, and nothing was paid."""
    error_class = ErrorClass.TOO_LARGE if error.status == PAYLOAD_TOO_LARGE else ErrorClass.INVALID_REQUEST
    after = replace(
        batch, state=Lifecycle.ENDED, outcome=BatchOutcome.FAILED, error_class=error_class, ended_at=at.now,
        due_at=at.now, reason=reason, failures=0, unclear_since=None,
    )  # fmt: skip
    return Move(after, (("refused", reason),))


def _in_flight(batch: Batch, provider_id: str, event: str, at: DecisionLimits) -> Move:
    after = replace(
        batch, state=Lifecycle.IN_FLIGHT, provider_id=provider_id, submitted_at=at.now,
        due_at=at.now + min(at.poll, at.pacing.first_poll), deadline_at=at.now + at.deadline, failures=0,
        reason=None, unclear_since=None, facts=replace(batch.facts, failed_calls=0),
    )  # fmt: skip
    return Move(after, ((event, provider_id),))


def is_of_another_account(batch: Batch, at: DecisionLimits) -> bool:
    """Return whether the create was intended for another key, address or organisation than calls go out with now."""
    pairs = ((batch.account, at.account.key), (batch.organisation, at.account.organisation))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _other_account(batch: Batch) -> str:
    account = "with another key, at another address or for another organisation"
    return f"it was created {account} than {batch.provider} is called with now"


# ---- is it there: whether a create without a reply was carried out ---------------------------------------------------


def after_look(
    batch: Batch,
    candidates: Sequence[MatchingBatch] | ProviderError,
    at: DecisionLimits,
    *,
    bound: Decimal,
    absent_creates: int = 0,
) -> Move | Wait:
    """Decide from the provider's list whether an unconfirmed create was carried out.

    ``candidates``: batches in the list that may be this one, and are no other batch of the run. ``bound``: the most
    that a create of the batch can cost in USD. ``absent_creates``: how many for one of its answers, of whichever batch,
    were given up because no list showed them. Under another account than that of the create the list tells nothing of
    the batch: a second create would be paid for beside the first.
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
    if candidates:
        return _unsure(batch, candidates, at)
    return _absent(batch, at, bound, absent_creates)


def after_certain(batch: Batch, certain: Sequence[MatchingBatch], at: DecisionLimits) -> Move | Wait:
    """A batch at the provider that carries this batch's marks is this batch. Between two of them a person decides. One
    that the list shows without an id may get one."""
    if len(certain) > 1:
        marked = ", ".join(map(str, certain))
        return lost(batch, f"more than one batch carries its marks: {marked}; `resolve` says which is ours")
    if not certain[0].provider_id:
        return _unsure(batch, certain, at)
    return _in_flight(batch, certain[0].provider_id, "found", at)


def _absent(batch: Batch, at: DecisionLimits, bound: Decimal, absent_creates: int) -> Move | Wait:
    """The list does not show the batch. This is believed after looks for as long as a create can take, where the list
    shows every batch: the batch is sent again. After too many creates for an answer that no list shows, it is
    `lost`."""
    looks = batch.facts.absent_looks
    if looks < len(at.pacing.looks):
        sent = f"its create was {_answer(batch.failed_status)}; " if batch.unclear_since is not None else ""
        reason = f"{sent}not in the list of {batch.provider} yet; looking again"
        counted = _with(batch, absent_looks=looks + 1)
        return Wait(replace(counted, due_at=at.now + at.pacing.looks[looks], reason=reason), (("looking", reason),))
    reason = f"not in the list of {batch.provider} after {looks + 1} looks"
    if not at.shows_absence:
        reason = f"{reason}, which proves nothing, for that list may be incomplete"
        return lost(batch, f"{reason}: look in {batch.provider}'s console, then `resolve`")
    if absent_creates >= MOST_REPEATS:
        reason = f"{reason}, as after {absent_creates} creates for the same answers before"
        return lost(batch, f"{reason}; look in {batch.provider}'s console, then `resolve`")
    reason = f"not created: {reason}; its maximum cost stays reserved because the provider may have billed it"
    after = replace(
        _with(batch, absent_creates=batch.facts.absent_creates + 1), state=Lifecycle.PLANNED, reason=reason,
        due_at=at.now, failures=0, creates_usd=batch.creates_usd + bound,
    )  # fmt: skip
    return Move(after, (("not_in_list", reason),))


def _list_unread(batch: Batch, error: ProviderError, at: DecisionLimits) -> Move | Wait:
    """The provider did not list its batches. If this key may never read the list (a plain 403), a person decides; the
    account's trouble a person mends, and the batch is looked for again."""
    is_of_account = concerns_account(error.status, error.code, str(error))
    is_refused = isinstance(error, RequestRefusedError) and not is_of_account
    patience = at.pacing.refused_list if is_refused else at.window + at.pacing.may_tell
    if batch.facts.unsure_looks >= len(at.pacing.looks) and at.is_after((batch.submitting_at or 0.0) + patience):
        return lost(batch, f"cannot be looked for: {error}; look in {batch.provider}'s console, then `resolve`")
    needs_person = is_of_account and batch.facts.unsure_looks + 1 >= REFUSED_CALLS
    return _look_again(replace(batch, needs_person=needs_person), f"cannot look for it yet: {error}", at)


def _unsure(batch: Batch, candidates: Sequence[MatchingBatch], at: DecisionLimits) -> Move | Wait:
    """Wait until the candidates show whose they are, as long as they can. After that a person decides."""
    names = ", ".join(map(str, candidates))
    if batch.facts.unsure_looks >= len(at.pacing.looks):
        last = (batch.submitting_at or 0.0) + at.window + at.pacing.may_tell
        if at.is_after(last) or not any(candidate.may_tell for candidate in candidates):
            return lost(
                batch,
                f"{names} may be this batch, but the provider shows no proof. Run `layton-batch resolve` to choose",
            )
    return _look_again(batch, f"{names} may be this batch; looking again until the provider shows proof", at)


def _look_again(batch: Batch, reason: str, at: DecisionLimits) -> Wait:
    looks = batch.facts.unsure_looks
    pause = at.pacing.looks[min(looks, len(at.pacing.looks) - 1)]
    counted = _with(batch, unsure_looks=looks + 1)
    return Wait(replace(counted, due_at=at.now + pause, reason=reason), (("unsure", reason),))


def lost(batch: Batch, reason: str) -> Move:
    """Nothing shows whether the batch exists, or how it ended: a person decides."""
    return Move(replace(batch, state=Lifecycle.LOST, reason=reason), (("lost", reason),))


# ---- what given-up creates cost, by a later list ---------------------------------------------------------------------


def is_to_look_later(batch: Batch, at: DecisionLimits) -> bool:
    """Return whether a list is to be searched once more for given-up creates of the batch: an hour after the last one,
    which closes the bill, and then once a day for as long as the provider keeps results."""
    sent = batch.submitting_at
    if not batch.facts.given_up_creates or sent is None or batch.state is Lifecycle.SUBMITTING:
        return False
    if is_of_another_account(batch, at) or at.now >= sent + at.retention:
        return False
    pause = at.pacing.closing if batch.facts.creates_of_unknown_cost else at.pacing.reopening
    last = max(sent, batch.listed_at or 0.0)
    return not last <= at.now < last + pause  # before the last one: our clock was set


def after_later_look(
    batch: Batch, candidates: Sequence[MatchingBatch] | ProviderError, at: DecisionLimits, *, bound: Decimal
) -> Wait:
    """Decide from a later list what given-up creates of the batch cost: nothing where it lacks them, or up to ``bound``
    USD each where it shows that they were carried out after all. A batch that is to be sent is that create itself: it
    is found when it is sent."""
    batch = replace(batch, listed_at=at.now)
    if isinstance(candidates, ProviderError):
        return Wait(batch)
    batch_ids = tuple(match.provider_id for match in candidates if match.certain and match.provider_id)
    if batch_ids and batch.state not in TO_SEND | {Lifecycle.LOST}:
        return _made_after_all(batch, batch_ids, bound)
    is_long_ago = at.now >= (batch.submitting_at or at.now) + at.pacing.closing
    if candidates or not (at.shows_absence and is_long_ago):
        return Wait(batch)
    return _closed(batch, f"the list of {batch.provider} does not show it {_minutes(at.pacing.closing)} later", bound)


def _minutes(seconds: float) -> str:
    return plural(round(seconds / 60), "minute")


def _made_after_all(batch: Batch, batch_ids: tuple[str, ...], bound: Decimal) -> Wait:
    """The provider carried out creates that were given up: their cost is unknown, also where it was closed."""
    extra = batch.facts.extra_batches + len(batch_ids)
    open_creates = max(batch.facts.creates_of_unknown_cost, extra)
    new = open_creates - batch.facts.creates_of_unknown_cost
    after = replace(
        _with(batch, extra_batches=extra, closed_creates=batch.facts.given_up_creates - open_creates),
        creates_usd=batch.creates_usd + new * bound,
    )  # fmt: skip
    detail = f"{batch.provider} made {', '.join(batch_ids)} of a create that was given up, and may bill it besides"
    return Wait(after, (("made_after_all", detail),), extra_ids=batch_ids)


def _closed(batch: Batch, reason: str, bound: Decimal) -> Wait:
    """Given-up creates of the batch cost nothing, but for those that are known to have been carried out."""
    extra = batch.facts.extra_batches
    if batch.facts.creates_of_unknown_cost <= extra:
        return Wait(batch)
    usd = min(batch.creates_usd, extra * bound) if extra else Decimal(0)
    after = replace(
        _with(batch, closed_creates=batch.facts.given_up_creates - extra), creates_usd=usd,
    )  # fmt: skip
    detail = f"a create that was given up cost nothing: {reason}; {money(batch.creates_usd - usd)} less is unknown"
    return Wait(after, (("create_closed", detail),))


# ---- at the provider -----------------------------------------------------------------------------------------------


def after_snapshot(batch: Batch, reply: Snapshot | ProviderError, at: DecisionLimits) -> Move | Wait:
    """Decide from one snapshot, or from the error in its place. A batch past its deadline is asked to stop."""
    batch = replace(batch, needs_person=False)
    if isinstance(reply, ProviderError):
        return _no_snapshot(batch, reply, at)
    if reply.state is Lifecycle.ENDED:
        return _ended(batch, reply, at)
    if at.is_after(batch.deadline_at):
        return _past_deadline(batch, reply.provider_status, at)
    return _goes_on(batch, reply, at)


def _no_snapshot(batch: Batch, error: ProviderError, at: DecisionLimits) -> Move | Wait:
    """An unknown status word shows that the batch is there. Other errors say nothing of the batch: it is read again as
    long as results are kept."""
    is_past = at.is_after(batch.deadline_at)
    if isinstance(error, UnknownStatusError):
        status = error.code or "unknown"
        return _past_deadline(batch, status, at) if is_past else _unreadable(batch, str(error), status, error, at)
    if not isinstance(error, NotFoundError):
        return _unreadable(batch, str(error), None, error, at)
    if is_past:
        return _lost_there(batch, f"{error} (is the key of another project?)", at)
    reason = f"{error} (not shown there yet; asking again)" if batch.read_at is None else str(error)
    return _unreadable(batch, reason, None, error, at)


def _ended(batch: Batch, snapshot: Snapshot, at: DecisionLimits) -> Move:
    """The provider is done. A cancel that this run did not ask for is a person's."""
    outcome = snapshot.outcome or BatchOutcome.COMPLETED
    was_asked = batch.state is Lifecycle.CANCELLING or batch.facts.stop_refused or at.is_after(batch.deadline_at)
    stopped_elsewhere = outcome is BatchOutcome.CANCELLED and not was_asked
    after = replace(
        batch, state=Lifecycle.ENDED, outcome=outcome, provider_status=snapshot.provider_status,
        results_ref=snapshot.results_ref, errors_ref=snapshot.errors_ref, error_class=failure_class(snapshot),
        read_at=at.now, ended_at=at.now, due_at=at.now, failures=0, reason=snapshot.message,
        facts=replace(batch.facts, short_downloads=0, stopped_elsewhere=stopped_elsewhere),
    )  # fmt: skip
    return Move(after, (("ended", f"{outcome} ({snapshot.provider_status}) {snapshot.message or ''}".strip()),))


def _goes_on(batch: Batch, snapshot: Snapshot, at: DecisionLimits) -> Wait:
    after = replace(
        batch, due_at=at.now + min(at.poll, LONGEST_PAUSE), provider_status=snapshot.provider_status, failures=0,
        reason=None, read_at=at.now,
    )  # fmt: skip
    is_new = snapshot.provider_status != batch.provider_status
    events = (("status", snapshot.provider_status),) if is_new else ()
    return Wait(after, events, stop=snapshot.state is Lifecycle.IN_FLIGHT and batch.state is Lifecycle.CANCELLING)


def _unreadable(batch: Batch, reason: str, status: str | None, error: ProviderError, at: DecisionLimits) -> Move | Wait:
    if batch.deadline_at is not None and at.is_after(batch.deadline_at + at.retention):
        return _lost_there(batch, f"cannot be asked about any more: {reason}", at)
    needs_person = _is_of_account(error) and batch.failures + 1 >= REFUSED_CALLS
    after = replace(
        batch, due_at=at.now + at.pacing.backoff(batch.failures, getattr(error, "retry_after", None)),
        failures=batch.failures + 1, failed_status=error.status, reason=reason, needs_person=needs_person,
        provider_status=status or batch.provider_status,
    )  # fmt: skip
    events = (("unclear", reason),) if reason != batch.reason else ()
    return Wait(after, events, stop=status is not None and batch.state is Lifecycle.CANCELLING)


def _past_deadline(batch: Batch, status: str, at: DecisionLimits) -> Move:
    """Ask the provider to stop the batch, and give it time to. A batch that never ends may still be answered and
    billed: a person decides whether its requests go again."""
    reason = f"past its deadline, {batch.provider} still says {status!r}"
    if batch.state is Lifecycle.CANCELLING:
        return _lost_there(batch, reason, at)
    after = replace(
        batch, state=Lifecycle.CANCELLING, reason=reason, deadline_at=at.now + at.pacing.stopping,
        due_at=at.now + min(at.poll, LONGEST_PAUSE),
    )  # fmt: skip
    return Move(after, (("deadline", reason),), stop=True)


def _lost_there(batch: Batch, reason: str, at: DecisionLimits) -> Move:
    reason = f"{reason}; look at {batch.provider_id} in the console of {batch.provider}, then `resolve`"
    return lost(replace(batch, due_at=at.now), reason)


def expiring(batch: Batch, retention: float, now: float) -> Wait | None:
    """Warn once that the provider will not keep results much longer that are not downloaded. None: no warning is due.

    The age counts from the create: when the batch ended is known only since we looked again.
    """
    if batch.state not in AT_PROVIDER | {Lifecycle.ENDED} or batch.submitted_at is None or batch.provider_id is None:
        return None
    age = now - batch.submitted_at
    if age < retention * RETENTION_SHARE or batch.facts.expiry_warned:
        return None
    days, limit = age / 86_400, retention / 86_400
    fate = "may be gone already" if age >= retention else "will be gone soon"
    warning = f"the run slept too long: {batch.provider} keeps results {limit:.1f} days, these {fate} ({days:.1f} days)"
    return Wait(_with(batch, expiry_warned=True), (("results_expiring", warning),))


def under_another_account(batch: Batch, at: DecisionLimits) -> Wait | None:
    """Say once that the batch is asked about, or downloaded, with another key or at another address than it was paid
    with: an error may only mean that. None: there is nothing to say."""
    is_there = batch.state in AT_PROVIDER | {Lifecycle.ENDED} and batch.provider_id is not None
    if not is_there or batch.facts.other_account_told or not is_of_another_account(batch, at):
        return None
    warning = f"{_other_account(batch)}: replies about it may be wrong until the earlier ones are set again"
    return Wait(_with(batch, other_account_told=True), (("other_account", warning),))


# ---- its results ---------------------------------------------------------------------------------------------------


def after_download(batch: Batch, download: DownloadResult, at: DecisionLimits) -> Wait | Collect:
    """Decide whether the rows on disk are all. A download that failed, or came short, is repeated while that may
    help."""
    shortfall = download.shortfall
    if shortfall is None:
        return Collect(batch)
    if download.error is not None:
        return _after_failed_download(batch, download.error, download.answers, at)
    if download.grew:
        return _download_again(_with(batch, short_downloads=0), shortfall.reason, at, event="download_short")
    counted = _with(batch, short_downloads=batch.facts.short_downloads + 1)
    downloads, seconds = _patience(shortfall.lack, at)
    is_early = seconds > 0 and not at.is_after(_end(batch, at) + seconds)
    if is_early or counted.facts.short_downloads < downloads:
        return _download_again(counted, shortfall.reason, at, event="download_short")
    return _give_up(batch, shortfall.reason, billed=True) if shortfall.billed else Collect(batch)


def _patience(lack: Lack, at: DecisionLimits) -> tuple[int, float]:
    """Return how many downloads may add nothing, and how many seconds after the batch's end, before a shortfall is
    believed. The first download that adds rows is not counted."""
    match lack:
        case Lack.ROWS:
            return DOWNLOADS_UNCOUNTED - 1, 0.0
        case Lack.ANSWERS:
            return DOWNLOADS - 1, 0.0
        case Lack.EVERYTHING:
            return DOWNLOADS, at.pacing.late_results
        case Lack.CONTENT:
            return DOWNLOADS, _transient_patience(at)


def _transient_patience(at: DecisionLimits) -> float:
    return max(3 * at.retention, at.pacing.failed_download)


def _after_failed_download(
    batch: Batch, error: ProviderError, answers: int | None, at: DecisionLimits
) -> Wait | Collect:
    """Retry while the provider may still keep the results, which were paid for; if the account is refused them, a
    person mends it, or sets the right one. ``answers``: the number that the provider counts."""
    reason = f"download failed: {error}"
    if not _may_be_kept(batch, error, answers, at):
        return _give_up(batch, reason, billed=answers != 0)
    if is_elsewhere := _is_refused(error) and is_of_another_account(batch, at):
        reason = f"{reason}; {_other_account(batch)}: set the earlier key, address and organisation again"
    needs_person = is_elsewhere or (_is_of_account(error) and batch.failures + 1 >= REFUSED_CALLS)
    tried = replace(_cap_failures(batch, error), needs_person=needs_person)
    return _download_again(tried, reason, at, error)


def _may_be_kept(batch: Batch, error: ProviderError, answers: int | None, at: DecisionLimits) -> bool:
    """Return whether the provider may still have results that are worth another download.

    Its documents say how long, and err on the short side. A plain refusal after that time is believed, a transient
    failure is not, and neither is believed at the first few tries: a run may have slept for weeks. A refusal by another
    account than that of the create says as little as a failure. A provider that was not reached, because there is no
    network, has not failed.
    """
    if not error.is_sent:
        return True
    if batch.failures < DOWNLOADS:
        return True
    if answers == 0:  # what is lacking was not billed
        return False
    is_believed = _is_refused(error) and not is_of_another_account(batch, at)
    return not at.is_after(_end(batch, at) + (at.retention if is_believed else _transient_patience(at)))


def _is_refused(error: ProviderError) -> bool:
    return isinstance(error, RequestRefusedError) and error.status in GONE


def _end(batch: Batch, at: DecisionLimits) -> float:
    """When the batch ended, as far as our clock can tell: it may have been behind then, but no batch ends before it is
    sent, or before its run begins."""
    return max(batch.ended_at or 0.0, batch.submitted_at or 0.0, at.run_began)


def _cap_failures(batch: Batch, error: ProviderError) -> Batch:
    """Bound the failures of the batch where the call did not leave this machine: they say nothing of the provider."""
    return batch if error.is_sent else replace(batch, failures=min(batch.failures, DOWNLOADS // 2))


def _give_up(batch: Batch, reason: str, *, billed: bool) -> Collect:
    """Go on with what is on disk; where the rest may have been ``billed``, it is out of reach."""
    return Collect(batch, reason if billed else None, (("download_given_up", reason),))


def _download_again(
    batch: Batch, reason: str, at: DecisionLimits, error: ProviderError | None = None, event: str | None = None
) -> Wait:
    due = at.now + at.pacing.backoff(batch.failures, getattr(error, "retry_after", None))
    event = event or ("download_again" if reason != batch.reason else None)
    status = None if error is None else error.status
    after = replace(batch, due_at=due, failures=batch.failures + 1, failed_status=status, reason=reason)
    return Wait(after, ((event, reason),) if event else ())


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

    Raises AssertionError where not every request of the batch has an end.
    """
    batch = decision.after
    if len(ends) != batch.requests:
        raise AssertionError(f"batch {batch.id}: {batch.requests} requests, but {len(ends)} have an end")
    outcomes = ", ".join(f"{count} {outcome}" for (outcome, _), count in Counter(ends.values()).items())
    reason, is_of_account = decision.lacking or message, any(end[1] is ErrorClass.ACCOUNT for end in ends.values())
    if is_of_account:
        events = (*events, ("account_refused", reason or ""))
    unanswered = sum(outcome is not RequestOutcome.SUCCEEDED for outcome, _ in ends.values())
    needs_person = batch.facts.stopped_elsewhere and unanswered > 0
    if needs_person:
        reason = (
            f"it was cancelled at {batch.provider}, and not by this run; {unanswered} of {batch.requests} requests "
            "have no answer. `layton-batch retry` asks for them again, `layton-batch cancel` does without"
        )
        events = (*events, ("cancelled_elsewhere", reason))
    after = replace(
        batch, state=Lifecycle.COLLECTED, due_at=now, reason=reason, needs_person=needs_person,
        error_class=ErrorClass.ACCOUNT if is_of_account else batch.error_class, stated_usd=stated.usd,
        stated_input_tokens=stated.input_tokens, stated_output_tokens=stated.output_tokens, spent_usd=spent,
        unknown_usd=batch.unknown_usd + unknown,
    )  # fmt: skip
    return Move(
        after,
        (*decision.events, *events, ("collected", outcomes)),
        ends=ends,
        again=again,
        charges=charges,
        cut=cut,
        files=files,
    )


@dataclass(frozen=True, slots=True)
class AttemptWait:
    """The wait before the next attempt at a batch's requests: seconds, why, and whether a person has to end it."""

    pause: float = 0.0
    reason: str | None = None
    needs_person: bool = False


AT_ONCE = AttemptWait()


def wait_before_next(batch: Batch, turned_away: int, pacing: Pacing) -> AttemptWait:
    """Return the wait before the next attempt at the batch's requests: none, unless the batch failed as a whole, or the
    account was refused. ``turned_away``: the attempts before it that the provider carried out nothing of."""
    is_of_account = batch.error_class is ErrorClass.ACCOUNT
    if batch.outcome is not BatchOutcome.FAILED and not is_of_account:
        return AT_ONCE
    pause = max(pacing.backoff(turned_away or batch.attempt), pacing.no_room if turned_away else 0.0)
    if not is_of_account:
        return AttemptWait(pause)
    return AttemptWait(pause, f"{batch.provider} refused {batch.id}: {batch.reason}", turned_away >= REFUSED_CALLS)


# ---- a person ------------------------------------------------------------------------------------------------------


def after_cancel(batch: Batch, error: ProviderError | None, at: DecisionLimits) -> Move | Wait:
    """The provider was asked to stop the batch. It will; or it did not confirm, and is asked again until the batch
    ends."""
    if error is None:
        return Move(replace(batch, state=Lifecycle.CANCELLING, due_at=at.now), (("cancelling", "asked for"),))
    return not_stopped(Wait(batch), f"{error}; asked again until it ends")


def not_stopped(decision: Move | Wait, problem: str) -> Move | Wait:
    """Add to a decision that the provider did not confirm that it stops the batch. An event says so once."""
    after = decision.after
    if isinstance(decision, Move):  # past its deadline
        reason = f"{after.reason}; {problem}"
        return replace(decision, after=replace(after, reason=reason), events=(("deadline", reason),))
    if after.facts.stop_refused:
        return decision
    events = (("cancel_failed", problem), *decision.events)
    return replace(decision, after=_with(after, stop_refused=True), events=events)


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
    person = "a person has it sent again"
    if batch.provider_id:
        person = f"it was {batch.provider_id}: a person has it paid for once more"
    extra = batch.facts.extra_batches + (batch.provider_id is not None)
    counted = _with(batch, resent=batch.facts.resent + 1, extra_batches=extra)
    detail = f"{person}; its maximum cost stays reserved because the provider may have billed it"
    return Move(_as_if_new(replace(counted, creates_usd=batch.creates_usd + usd), now), (("resubmit", detail),))


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
        deadline_at=None, unclear_since=None, facts=replace(batch.facts, failed_calls=0, not_found=0),
    )  # fmt: skip


def may_arrive_until(batch: Batch, at: DecisionLimits) -> float | None:
    """When (epoch seconds) the lost batch's create can no more reach its provider, if it still may: a person who looks
    before that may not see the batch yet. None: it is there, or would be there by now."""
    if batch.provider_id is not None or batch.submitting_at is None:
        return None
    longest = sum(at.pacing.looks)
    return batch.submitting_at + longest if abs(at.now - batch.submitting_at) < longest else None


def given_up(batch: Batch, now: float) -> Move:
    """A person gives the lost batch up. Nobody looks for it any more; its requests may have been billed."""
    was = f", which was {batch.provider_id}," if batch.provider_id else ""
    reason = f"a person gave it up: the batch{was} may have been carried out and billed"
    after = replace(
        batch, state=Lifecycle.ENDED, outcome=BatchOutcome.FAILED, error_class=ErrorClass.OUT_OF_REACH,
        provider_id=None, ended_at=now, due_at=now, failures=0, reason=reason,
    )  # fmt: skip
    return Move(after, (("given_up", reason),))


def _with(batch: Batch, **facts: Any) -> Batch:
    return replace(batch, facts=replace(batch.facts, **facts))
