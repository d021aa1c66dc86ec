"""Limits kept from our side: what would break one is held back, and the batch's ``reason`` says why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from layton_batch.batches import machine
from layton_batch.clock import utc
from layton_batch.errors import StaleStateError
from layton_batch.providers.protocol import Limits
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.store.standing import HOUR, Gate, HeldBack, ProviderLoad

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


def gate(run: Run) -> Gate:
    """What weighs a batch about to be sent, in the same transaction that claims it: limits, then budget."""
    budget = run.manifest.budget.max_usd

    def weigh(batch: Batch, standing: ProviderLoad) -> HeldBack | None:
        if not (run.folder.root / batch.path).is_file():
            reason = f"its file {batch.path} is not in {run.folder.root}: put it back, or share the run's folder"
            return HeldBack(f"{machine.WAITS}{reason}", needs_person=True)
        held = over_limit(batch, standing, run.providers.dialect(batch.provider).limits)
        if held is None and budget is not None:
            total = standing.committed_usd + (batch.max_cost or 0)
            if batch.max_cost is None or total > budget:
                spent = f"${standing.committed_usd:.2f} of the budget of ${budget} is spent or set aside"
                held = HeldBack(f"{HELD}{spent}")
        return held

    return weigh


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


def within_limits(run: Run, planned: Sequence[Batch]) -> list[Batch]:
    """The batches that could all be sent now; the others are held back, their reason written down.

    Money is not weighed here: ``submit`` has done it for all of them together.
    """
    now = run.clock.now()
    standings: dict[str, ProviderLoad] = {}
    allowed = []
    for batch in planned:
        standing = standings.get(batch.provider) or run.store.load(batch.provider, now)
        held = over_limit(batch, standing, run.providers.dialect(batch.provider).limits)
        if held is None:
            standing = standing.plus(batch, now)
            allowed.append(batch)
        else:
            run.store.hold_back(batch, held)
        standings[batch.provider] = standing
    return allowed


def warn_of_retention(run: Run, batches: Iterable[Batch]) -> None:
    """Write an event, once a batch, where results not yet here will not be kept much longer at the provider."""
    now = run.clock.now()
    for batch in batches:
        retention = run.providers.dialect(batch.provider).limits.retention_seconds
        warning = machine.expiring(batch, retention, now)
        if warning is not None:
            with suppress(StaleStateError):  # another process has it in hand, and warns
                run.store.apply(batch, warning, now)
