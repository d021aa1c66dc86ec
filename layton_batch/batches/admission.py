"""Limits kept from our side: what would break one is held back, and the batch's ``reason`` says why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from layton_batch.batches import machine
from layton_batch.clock import utc
from layton_batch.providers.protocol import Limits
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.store.standing import HOUR, HeldBack, ProviderLoad

HELD = "held back: "
"""How the reason of a batch begins that a limit holds back, for people; the store has columns of it."""
BYTES_PER_TOKEN = 4
"""Of a batch file, when counting the tokens a provider has queued; an upper guess for text in most languages."""

_CUSTOM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def custom_id_problem(custom_id: str) -> str | None:
    """Why a request's name would be refused: what every provider here takes is 1 to 64 of ``A-Za-z0-9_-``."""
    if _CUSTOM_ID.fullmatch(custom_id):
        return None
    return f"custom_id {custom_id[:80]!r} is not 1 to 64 of A-Z a-z 0-9 _ -"


def with_files(run: Run, planned: Sequence[Batch]) -> list[Batch]:
    """The batches whose files are here; the others are held back until a person has put theirs back."""
    found = []
    for batch in planned:
        if (run.folder.workspace.root / batch.path).is_file():
            found.append(batch)
        else:
            reason = f"its file {batch.path} is not in {run.folder.workspace.root}: put it back, or share that folder"
            run.store.hold_back(batch, HeldBack(f"{machine.WAITS}{reason}", needs_person=True))
    return found


def over_limit(batch: Batch, standing: ProviderLoad, limits: Limits) -> HeldBack | None:
    """Which of the provider's limits sending this batch now would break."""
    name, at_once, hourly = batch.provider, limits.max_concurrent_batches, limits.max_creates_per_hour
    if at_once is not None and standing.running >= at_once:
        return HeldBack(f"{HELD}{name} runs {at_once} batches at once")
    if hourly is not None and standing.creates >= hourly:
        free = (standing.oldest_create or 0.0) + HOUR
        return HeldBack(f"{HELD}{name} takes {hourly} batches an hour; the next one from {utc(free):%H:%M} UTC", free)
    return _over_queue(batch, standing, limits.max_enqueued_tokens)


def _over_queue(batch: Batch, standing: ProviderLoad, most: int | None) -> HeldBack | None:
    """A batch that alone is over the limit goes when nothing else is queued: the provider then says itself."""
    queued = standing.queued_bytes.get(batch.model, 0)
    if most is None or queued == 0 or (queued + batch.size_bytes) // BYTES_PER_TOKEN <= most:
        return None
    return HeldBack(f"{HELD}about {queued // BYTES_PER_TOKEN} of {most} tokens that {batch.provider} queues are taken")


def within_limits(run: Run, planned: Sequence[Batch], sending: Sequence[Batch] = ()) -> list[Batch]:
    """The batches that could all be sent now; the others are held back, their reason written down.

    ``sending``: planned batches that lanes at work are about to send; they count as sent. Money is not weighed here.
    """
    now = run.clock.now()
    loads: dict[str, ProviderLoad] = {}
    allowed = []
    for batch in planned:
        load = loads.get(batch.provider)
        if load is None:
            load = run.store.load(batch.provider, now)
            for other in sending:
                load = load.plus(other, now) if other.provider == batch.provider else load
        held = over_limit(batch, load, run.providers.dialect(batch.provider).limits)
        if held is None:
            load = load.plus(batch, now)
            allowed.append(batch)
        else:
            run.store.hold_back(batch, held)
        loads[batch.provider] = load
    return allowed


def warn_of_retention(run: Run, batches: Iterable[Batch]) -> None:
    """Write an event, once a batch, where results not yet here will not be kept much longer at the provider."""
    now = run.clock.now()
    for batch in batches:
        retention = run.providers.dialect(batch.provider).limits.retention_seconds
        warning = machine.expiring(batch, retention, now)
        if warning is not None:
            run.store.apply(batch, warning, now)
