"""Admission: which planned batches are sent now. What would break a limit or the budget is held back with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from layton_batch.batches import machine
from layton_batch.clock import Pacing, is_due, utc
from layton_batch.providers.protocol import Limits
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.states import OPEN, Lifecycle
from layton_batch.store.standing import HOUR, ProviderLoad
from layton_batch.text import money

BYTES_PER_TOKEN = 4
"""Bytes of a batch file that count as a token of a provider's queue: an upper guess for text in most languages."""
QUICK_REPEATS = 2
"""After so many given-up creates, the next one waits until the list can prove that the earlier ones were not made."""
_MAY_RELEASE = OPEN - {Lifecycle.PLANNED, Lifecycle.LOST}
"""States of a batch whose reserve is released in time, by itself."""


# ---- reasons to hold a batch back ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchWait:
    """Reason why a planned batch is not sent now. ``until``: when it can be (epoch seconds); None: not known."""

    reason: str
    until: float | None = None


def provider_wait(batch: Batch, load: ProviderLoad, limits: Limits) -> BatchWait | None:
    """Hold the batch back if a limit of its provider would be exceeded by it, in addition to ``load``."""
    name, at_once, hourly = batch.provider, limits.max_concurrent_batches, limits.max_creates_per_hour
    if at_once is not None and load.running >= at_once:
        return BatchWait(f"{name} runs {at_once} batches at once")
    if hourly is not None and load.creates >= hourly:
        free = (load.oldest_create or 0.0) + HOUR
        return BatchWait(f"{name} takes {hourly} batches an hour; the next one from {utc(free):%H:%M} UTC", free)
    queued, most = load.queued_bytes.get(batch.model, 0), limits.max_enqueued_tokens
    if most is None or queued == 0 or (queued + batch.size_bytes) // BYTES_PER_TOKEN <= most:
        return None  # a batch that alone is over the limit goes when nothing else is queued: the provider then says it
    return BatchWait(f"about {queued // BYTES_PER_TOKEN} of {most} tokens that {name} queues are taken")


def outage_wait(batch: Batch, load: ProviderLoad, now: float, pacing: Pacing) -> BatchWait | None:
    """Hold the batch back after unclear creates at its provider: each may have been billed. Nothing is sent for 1, 2,
    4 … 30 minutes, then one batch, and the others wait for what becomes of it."""
    unclear = load.unclear
    if unclear is None:
        return None
    words = machine.answer_words(unclear.status)
    reason = f"{batch.provider}: creates {words} since {utc(unclear.since):%H:%M} UTC"
    if load.sending:
        return BatchWait(f"{reason}; another batch is tried first")
    pause = pacing.first_outage * 2.0 ** min(max(unclear.number - 1, 0), 16)
    until = unclear.last + min(pause, pacing.longest_outage)
    if batch.given_up_creates >= QUICK_REPEATS:
        until = max(until, (batch.submitting_at or 0.0) + pacing.closing)
    return None if is_due(until, now) else BatchWait(f"{reason}; next try {utc(until):%H:%M} UTC", until)


def budget_wait(batch: Batch, committed: Decimal, budget: Decimal) -> BatchWait | None:
    """Hold the batch back if the budget does not allow it in addition to what is committed, in USD."""
    if batch.max_cost is None:
        return BatchWait(
            f"{batch.provider} {batch.model} has no known price: give one in [[prices]], or drop the budget"
        )
    if committed + batch.max_cost <= budget:
        return None
    needed = f"batch {batch.id} needs {money(batch.max_cost)} set aside"
    return BatchWait(f"{needed}; {money(committed)} of the budget of ${budget} is spent or set aside")


# ---- the batches that are sent -------------------------------------------------------------------------------------


def admitted(run: Run, due: Sequence[Batch], planned: Sequence[Batch], sending: Sequence[Batch]) -> list[Batch]:
    """Return those of the ``due`` batches that can be sent now, together; the store gets why the others cannot.

    ``planned``: every planned batch but those ``sending``, which threads are about to send and which count as sent.
    A batch that waits for a person comes last: it is perhaps not sent, and must not take the room of one that is.
    Before it comes what no list showed so far, after what was not sent yet.
    """
    due = sorted(due, key=lambda batch: (batch.needs_person, batch.given_up_creates))
    return _within_limits(run, _affordable(run, due, planned, sending), sending)


def _affordable(run: Run, due: Sequence[Batch], planned: Sequence[Batch], sending: Sequence[Batch]) -> list[Batch]:
    """Return the due batches that cannot break the budget even if every request costs its upper bound.

    The run is stopped by its budget if nothing planned, due or not, fits in addition to what is spent and reserved
    already, and no batch is at a provider, whose reserve may be released. A batch that waits for a person does not
    count: it is not sent whatever fits. A batch that has to wait for others is held back, which stops nothing.
    """
    budget, now = run.manifest.budget.max_usd, run.clock.now()
    if budget is None:
        run.store.set_stopped(None, now)
        return list(due)
    committed = run.store.money().committed + sum((batch.max_cost or Decimal(0) for batch in sending), Decimal(0))
    waits = [budget_wait(batch, committed, budget) for batch in planned if not batch.needs_person]
    stops = bool(waits) and all(waits) and not sending and not run.store.batches(_MAY_RELEASE)
    run.store.set_stopped(waits[0].reason if stops and waits[0] else None, now)
    allowed = []
    for batch in due:
        if not _is_held(run, batch, budget_wait(batch, committed, budget), now):
            committed += batch.max_cost or Decimal(0)
            allowed.append(batch)
    return allowed


def _within_limits(run: Run, planned: Sequence[Batch], sending: Sequence[Batch]) -> list[Batch]:
    """Return the batches that could all be sent now without breaking a limit of their providers."""
    now = run.clock.now()
    loads: dict[str, ProviderLoad] = {}
    allowed = []
    for batch in planned:
        if batch.provider not in loads:
            loads[batch.provider] = run.store.load(batch.provider, now)
            for sent in (sent for sent in sending if sent.provider == batch.provider):
                loads[batch.provider] = loads[batch.provider].plus(sent, now)
        load, limits = loads[batch.provider], run.providers.dialect(batch.provider).limits
        wait = outage_wait(batch, load, now, run.pacing) or provider_wait(batch, load, limits)
        if not _is_held(run, batch, wait, now):
            loads[batch.provider] = load.plus(batch, now)
            allowed.append(batch)
    return allowed


def _is_held(run: Run, batch: Batch, wait: BatchWait | None, now: float) -> bool:
    """Record why the batch is held back, if it is."""
    if wait is not None:
        run.store.apply(batch, machine.held_back(batch, wait.reason, wait.until), now)
    return wait is not None
