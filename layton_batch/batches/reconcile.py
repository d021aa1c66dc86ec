"""Reconcile: find out whether a create whose reply is missing was carried out, before anything is sent again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layton_batch.batches.backoff import NoAnswer
from layton_batch.batches.doubt import NOT_CREATED, given_up, set_down
from layton_batch.batches.intent import back_to_planned, in_flight, submission
from layton_batch.batches.late import is_late
from layton_batch.errors import DamagedTableError, ProviderError, RequestRefusedError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Found, Submission
from layton_batch.run.context import Run
from layton_batch.states import Lifecycle

PAUSES = (20.0, 20.0, 20.0, 40.0, 80.0, 160.0, 320.0)
"""Seconds between looks at a list that does not have the batch: eleven minutes, a minute more than any SDK waits for a
reply (600 s at most), since what a gateway still holds after that has nobody to answer. Lists are late, too."""
LOOKED, UNSURE = "looking", "unsure"
"""Events: a list without the batch; a look that told nothing."""
BEGUN = ("submitting", "create_unclear")
"""Events from which looks are counted: those before are of an earlier create, or came while the call was under way."""
UNTOLD_SECONDS = 2 * 86_400.0
"""After the provider's window: a candidate that has not shown by then whose it is never will."""
REFUSED_SECONDS = 3600.0
"""How long a provider may refuse to list its batches before a person is asked."""


def reconcile(run: Run, provider: Provider, batch: Batch) -> bool:
    """One look for the batch. True where that ends the search: it is found, was never made, or is `lost`."""
    try:
        found = provider.find(replace(submission(run, batch), asked_at=run.clock.now()))
    except ProviderError as error:
        ended = _no_look(run, provider, batch, error)
        NoAnswer.check(error)
        return ended
    candidates = _not_taken(run, found)
    certain = [one for one in candidates if one.certain]
    if certain:
        return take_found(run, provider, batch, certain)
    if candidates:
        return _unsure(run, provider, batch, candidates)
    if not provider.capabilities.certain_find:
        return _lost(run, batch, f"{batch.provider} cannot list batches: look in its console, then `resolve`")
    return _absent(run, batch)


def take_found(run: Run, provider: Provider, batch: Batch, certain: Sequence[Found]) -> bool:
    """What carries the batch's marks is the batch; two of them are a person's to tell apart, and so is one that the
    list does not name."""
    if len(certain) > 1:
        return _lost(
            run, batch, f"more than one batch carries its marks: {_names(certain)}; `resolve` says which is ours"
        )
    if not certain[0].provider_id:
        return _unsure(run, provider, batch, certain)
    in_flight(run, provider, batch, certain[0].provider_id, "found")
    return True


def sent_already(run: Run, provider: Provider, batch: Batch) -> Sequence[Found]:
    """Batches that are surely this one, though the store knows of none: of a copy of this run that went on elsewhere,
    or of this one before an older copy of it was put back.

    Our tag tells that, or custom_ids with the run's mark. Raises ProviderError where the list cannot be read to its
    end: then nothing is to be sent.
    """
    asked = replace(submission(run, batch), not_before=run.born)
    return _surely(run, provider, asked) if provider.capabilities.tag or asked.marked else []


def surely_ours(run: Run, provider: Provider, batch: Batch) -> Sequence[Found]:
    """Batches at the provider that are surely this one, whose create was intended. Raises ProviderError where the list
    cannot be read to its end."""
    return _surely(run, provider, submission(run, batch))


def _surely(run: Run, provider: Provider, asked: Submission) -> Sequence[Found]:
    """Nothing where the API has no list that could tell."""
    if not provider.capabilities.certain_find:
        return []
    found = provider.find(replace(asked, asked_at=run.clock.now()))
    return [one for one in _not_taken(run, found) if one.certain]


def _names(found: Sequence[Found]) -> str:
    return ", ".join(one.provider_id or "one that the list shows without an id" for one in found)


def _not_taken(run: Run, found: Sequence[Found]) -> Sequence[Found]:
    """Those that are no other batch of this run, each once: lists that grow while they are read repeat rows."""
    taken = run.store.provider_ids()
    return list({one.provider_id: one for one in found if one.provider_id not in taken}.values())


def _absent(run: Run, batch: Batch) -> bool:
    """The list does not have it. It is believed when it has been looked at for as long as a create can take."""
    looks = run.store.events_since(batch.id, BEGUN, LOOKED)
    if looks < len(PAUSES):
        _look_again(run, batch, LOOKED, "not in the provider's list; looking again", PAUSES[looks])
        return False
    reason = f"not in the list of {batch.provider} after {looks + 1} looks"
    if run.store.events_since(batch.id, (), NOT_CREATED):
        reason = f"{reason}, for the second time: what both creates may have cost is kept from the budget"
        return _lost(run, batch, f"{reason}; look in {batch.provider}'s console, then `resolve`")
    try:
        money = given_up(run, batch)
    except DamagedTableError as error:
        return _lost(run, batch, f"{reason}, and what it may have cost cannot be set down: {error}; then `resolve`")
    reason = f"not created: {reason}; what it may have cost all the same is kept from the budget"
    back_to_planned(run, batch, reason, 0.0, event=NOT_CREATED, money=money)
    set_down(run, batch)
    return True


def _no_look(run: Run, provider: Provider, batch: Batch, error: ProviderError) -> bool:
    """The provider did not list its batches. A person is asked where it never does."""
    patience = provider.limits.window_seconds + UNTOLD_SECONDS
    if isinstance(error, RequestRefusedError):
        patience = REFUSED_SECONDS
    looks = run.store.events_since(batch.id, BEGUN, UNSURE)
    if looks >= len(PAUSES) and is_late(run, batch, (batch.submitting_at or 0.0) + patience):
        return _lost(run, batch, f"cannot be looked for: {error}; look in {batch.provider}'s console, then `resolve`")
    _look_again(run, batch, UNSURE, f"cannot look for it yet: {error}", _pause(looks))
    return False


def _pause(looks: int) -> float:
    return PAUSES[min(looks, len(PAUSES) - 1)]


def _unsure(run: Run, provider: Provider, batch: Batch, candidates: Sequence[Found]) -> bool:
    """Wait for batches that may be ours to show whose they are, as long as they can; then a person has to say."""
    names = _names(candidates)
    last = (batch.submitting_at or 0.0) + provider.limits.window_seconds + UNTOLD_SECONDS
    looks = run.store.events_since(batch.id, BEGUN, UNSURE)
    may_tell = any(one.may_tell for one in candidates)
    if looks >= len(PAUSES) and (not may_tell or is_late(run, batch, last)):
        return _lost(run, batch, f"may be {names}, and nothing there tells; `resolve` says which is ours")
    _look_again(run, batch, UNSURE, f"may be {names}; looking until that tells", _pause(looks))
    return False


def _look_again(run: Run, batch: Batch, event: str, reason: str, pause: float) -> None:
    now = run.clock.now()
    run.store.note(batch, now, event=event, detail=reason, due_at=now + pause, reason=reason)


def _lost(run: Run, batch: Batch, reason: str) -> bool:
    run.store.move(batch, Lifecycle.LOST, run.clock.now(), event="lost", detail=reason, reason=reason)
    return True
