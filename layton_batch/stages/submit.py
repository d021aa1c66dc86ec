"""Submit: from planned batches to batches the provider has, each paid for once.

The order per batch: bring the file to the provider (free), commit the intent and the money set aside for it, send the
one paid call, commit the provider's id. Whatever ends between intent and id leaves the batch `submitting`, and the
next pass looks for it by its tag before anything is sent again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from layton_batch.batches import machine
from layton_batch.batches.admission import admitted, outage_wait
from layton_batch.batches.batch_file import check_file
from layton_batch.batches.cancel import stop_rest
from layton_batch.batches.decisions import at, carry_out, step_each
from layton_batch.batches.reconcile import reconcile, sent_already, submission
from layton_batch.batches.tick import NoAnswer, Tick
from layton_batch.clock import is_due
from layton_batch.errors import BatchWaitError, FileError, ProviderError, SentElsewhereError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.states import Lifecycle
from layton_batch.store.standing import ProviderLoad


def submit(run: Run, tick: Tick, thread: ProviderThread, batches: Sequence[Batch]) -> bool:
    """Settle what this thread was sending when the program stopped, then send what may be sent (see ``to_send``)."""
    stopped = False
    if tick.is_cancelled:
        stopped = stop_rest(run, thread)
        batches = [batch for batch in batches if batch.state is Lifecycle.SUBMITTING]
    return stopped | _submit_group(run, tick, thread, batches)


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
    if not tick.is_cancelled and row is not None and row.agreed:
        ready += admitted(run, due(unsent), unsent, sending)
    groups: dict[ProviderThread, list[Batch]] = defaultdict(list)
    for batch in ready:
        groups[run.threads.of(batch)].append(batch)
    return groups


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
        return reconcile(run, provider, batch)


# ---- sending -------------------------------------------------------------------------------------------------------


def _send(run: Run, tick: Tick, provider: Provider, batch: Batch) -> bool:
    """Send a batch. Its file must be as planned and at the provider, and a complete list of the provider's batches must
    show that the batch does not exist yet.
    """
    try:
        check_file(run, batch)
        input_ref = _uploaded(run, provider, batch)
    except FileError as error:
        return carry_out(run, batch, machine.for_person(batch, "file_changed", str(error)))
    except ProviderError as error:
        return carry_out(run, batch, machine.after_upload(batch, error, at(run, batch)), error)
    if input_ref is not None and not _is_as_planned(run, batch):
        # the provider may have the damaged file, and takes no other one under its name
        reason = f"its file {batch.path} was changed while it was uploaded: its requests are planned again"
        now = run.clock.now()
        return carry_out(run, batch, machine.withdrawn(batch, reason, now, event="file_changed", plan_again=True))
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
