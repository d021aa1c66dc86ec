"""Send: from planned batches to batches the provider has, each paid for once.

The order per batch: bring the file to the provider (free), commit the intent and the money set aside for it, send the
one paid call, commit the provider's id. Whatever ends between intent and id leaves the batch `submitting`, and the
next pass looks for it by its tag before anything is sent again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from layton_batch.batches import machine
from layton_batch.batches.batch_file import check_file
from layton_batch.batches.look import look, sent_already, submission
from layton_batch.batches.person import stop_rest
from layton_batch.batches.steps import NoAnswer, Tick, at, carry_out, step_each
from layton_batch.clock import Pacing, is_due, utc
from layton_batch.errors import BatchWaitError, FileError, ProviderError, SentElsewhereError
from layton_batch.providers.protocol import Limits, Provider
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.states import OPEN, Lifecycle
from layton_batch.store.standing import HOUR, ProviderLoad
from layton_batch.text import money

BYTES_PER_TOKEN = 4
"""Bytes of a batch file that count as a token of a provider's queue: an upper guess for text in most languages."""
QUICK_REPEATS = 2
"""After so many given-up creates, the next one waits until the list can prove that the earlier ones were not made."""
_MAY_RELEASE = OPEN - {Lifecycle.PLANNED, Lifecycle.LOST}
"""States of a batch whose reserve is released in time, by itself."""


def send(run: Run, tick: Tick, thread: ProviderThread, batches: Sequence[Batch]) -> bool:
    """Settle what this thread was sending when the program stopped, then send what may be sent (see ``to_send``)."""
    stopped = False
    if tick.is_cancelled:
        stopped = stop_rest(run, thread)
        batches = [batch for batch in batches if batch.state is Lifecycle.SUBMITTING]
    return stopped | _submit_group(run, tick, thread, batches)


def _submit_group(run: Run, tick: Tick, thread: ProviderThread, batches: Sequence[Batch]) -> bool:
    """Settle or send one thread's batches, one after another."""
    if not batches:
        return False
    provider = run.providers.of(thread)

    def step(batch: Batch) -> bool:
        is_unclear = batch.state is Lifecycle.SUBMITTING
        return _look_for(run, provider, batch) if is_unclear else _send(run, tick, provider, batch)

    return step_each(run, tick, _stage(thread.provider), batches, step)


def _stage(provider: str) -> str:
    return f"send {provider}"


def _look_for(run: Run, provider: Provider, batch: Batch) -> bool:
    with run.threads.turn(batch.provider):
        run.heed_stop()
        return look(run, provider, batch)


# ---- sending -------------------------------------------------------------------------------------------------------


def _send(run: Run, tick: Tick, provider: Provider, batch: Batch) -> bool:
    """Send a batch. Its file must be as planned and at the provider, and a complete list of the provider's batches must
    show that the batch does not exist yet.
    """
    input_ref: str | None = None
    trouble: ProviderError | None = None
    try:
        check_file(run, batch)
        input_ref = _uploaded(run, provider, batch)
    except FileError as error:
        return carry_out(run, batch, machine.for_person(batch, "file_changed", str(error)))
    except ProviderError as error:
        trouble = error
    if (trouble or input_ref) is not None and not _is_as_planned(run, batch):
        # the provider may have the damaged file, and takes no other one under its name; or it refused that one
        reason = f"its file {batch.path} was changed while it was uploaded: its requests are planned again"
        now = run.clock.now()
        return carry_out(run, batch, machine.withdrawn(batch, reason, now, event="file_changed", plan_again=True))
    if trouble is not None:
        return carry_out(run, batch, machine.after_upload(batch, trouble, at(run, batch)), trouble)
    with run.threads.turn(batch.provider):
        run.heed_stop()
        if tick.responsiveness.is_silent(_stage(batch.provider)):
            return False  # another create got no answer meanwhile: this one would wait as long
        return _list_and_create(run, tick, provider, batch, input_ref)


def _uploaded(run: Run, provider: Provider, batch: Batch) -> str | None:
    """Return the provider's name of the batch file, if it has one. Raises FileError, ProviderError."""
    if batch.input_ref is not None and not machine.is_of_another_account(batch, at(run, batch)):
        return batch.input_ref  # another account does not have it
    return provider.upload(submission(run, batch))


def _is_as_planned(run: Run, batch: Batch) -> bool:
    try:
        check_file(run, batch)
    except FileError:
        return False
    return True


def _list_and_create(run: Run, tick: Tick, provider: Provider, batch: Batch, input_ref: str | None) -> bool:
    """Read the provider's list, state the intent, and send the one paid call: one batch of a provider at a time."""

    def check(load: ProviderLoad) -> None:
        if wait := outage_wait(batch, load, run.clock.now(), run.pacing):
            raise BatchWaitError(wait.reason, wait.until)

    try:
        check(run.store.load(batch.provider, run.clock.now()))
        matches = sent_already(run, tick.lists, provider, batch, input_ref)
        if copies := [match for match in matches if match.of_a_copy]:
            return carry_out(run, batch, machine.after_copies(batch, copies))
        now = at(run, batch)
        batch = run.store.apply(batch, machine.before_create(batch, input_ref, now), now.now, check)
    except BatchWaitError as wait:
        return carry_out(run, batch, machine.held_back(batch, str(wait), wait.until))
    except ProviderError as error:
        return carry_out(run, batch, machine.after_unread_list(batch, error, at(run, batch)), error)
    except SentElsewhereError as error:
        return carry_out(run, batch, machine.withdrawn(batch, str(error), run.clock.now(), plan_again=True))
    if matches:
        return carry_out(run, batch, machine.after_certain(batch, matches, at(run, batch)))
    try:
        return _create(run, provider, batch)
    except NoAnswer:
        tick.responsiveness.set_silent(_stage(batch.provider))  # before the next one has its turn
        raise


def _create(run: Run, provider: Provider, batch: Batch) -> bool:
    """Send the one paid call, unless the intent to pay is too old."""
    if (stale := machine.before_call(batch, at(run, batch))) is not None:
        return carry_out(run, batch, stale)
    reply: str | ProviderError | FileError
    error: ProviderError | None = None
    try:
        if batch.input_ref is None:
            check_file(run, batch)  # again: its list may have taken long, and the call itself carries the requests
        reply = provider.create(submission(run, batch))
    except FileError as problem:
        reply = problem
    except ProviderError as problem:
        reply = error = problem
    return carry_out(run, batch, machine.after_create(batch, reply, at(run, batch)), error)


# ---- the batches that may be sent --------------------------------------------------------------------------------


def to_send(run: Run, tick: Tick, waiting: Sequence[Batch]) -> Mapping[ProviderThread, Sequence[Batch]]:
    """Return by thread which of the submitting and planned batches are to be settled or sent now, without the threads
    that are busy. They are weighed together, for all share one budget and the limits of their providers. A job that is
    to be planned again may not want all of a planned batch any more, so that is not sent yet. Nothing planned is sent
    before a person agreed to the manifest's latest revision."""
    to_plan = {
        job.id for job in run.store.jobs() if not (job.planned or {job.id, job.depends_on} & run.engine.trouble.keys())
    }
    planned = [batch for batch in waiting if batch.state is Lifecycle.PLANNED and batch.job_id not in to_plan]
    sending_now, row = run.threads.sending, run.store.row()
    sending = [batch for batch in planned if batch.id in sending_now]
    unsent = [batch for batch in planned if batch.id not in sending_now]
    now = run.clock.now()

    def due(batches: Sequence[Batch]) -> list[Batch]:
        return [
            batch for batch in batches if is_due(batch.due_at, now) and not run.threads.is_busy(run.threads.of(batch))
        ]

    ready = due([batch for batch in waiting if batch.state is Lifecycle.SUBMITTING])
    if not tick.is_cancelled and row.agreed:
        ready += admitted(run, due(unsent), unsent, sending)
    groups: dict[ProviderThread, list[Batch]] = defaultdict(list)
    for batch in ready:
        groups[run.threads.of(batch)].append(batch)
    return groups


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
