"""Poll: one reading of every batch that is due, until each has ended; and what creates cost that were given up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from layton_batch.batches import machine
from layton_batch.batches.decisions import at, carry_out, step_each
from layton_batch.batches.reconcile import look_later
from layton_batch.batches.tick import Tick
from layton_batch.clock import is_due
from layton_batch.errors import ManifestError, MissingKeyError, ProviderError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Snapshot
from layton_batch.runs.context import Run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.states import AT_PROVIDER, Lifecycle


def poll(run: Run, tick: Tick, thread: ProviderThread, batches: Sequence[Batch]) -> bool:
    """Read the state of the thread's batches that are at the provider and due, one after another. ``batches``: those
    that were sent and are not collected."""
    now = run.clock.now()
    due = [batch for batch in batches if batch.state in AT_PROVIDER and is_due(batch.due_at, now)]
    if not due:
        return False
    provider = run.providers.of(thread)
    return step_each(run, tick, f"poll {thread.provider}", due, lambda batch: _read(run, tick, provider, batch))


def _read(run: Run, tick: Tick, provider: Provider, batch: Batch) -> bool:
    """Read the status of the batch at its provider, which is asked to stop it if that is due."""
    reply: Snapshot | ProviderError
    error = stop_error = None
    try:
        reply = provider.snapshot(str(batch.provider_id))
    except ProviderError as problem:
        reply = error = problem
    if machine.is_to_stop(batch, reply):
        try:
            provider.cancel(str(batch.provider_id))
        except ProviderError as problem:
            stop_error = problem
    if isinstance(reply, Snapshot) and reply.state is Lifecycle.ENDED:
        tick.ended[batch.id] = reply
    return carry_out(run, batch, machine.after_snapshot(batch, reply, at(run, batch), stop_error), error)


def to_close(run: Run) -> Mapping[ProviderThread, Sequence[Batch]]:
    """Return by thread the batches for whose given-up creates a list is to be searched now."""
    groups: dict[ProviderThread, list[Batch]] = defaultdict(list)
    for batch in run.store.batches():
        if batch.given_up_creates and _is_due(run, batch):
            thread = run.threads.of(batch)
            if not run.threads.is_busy(thread):
                groups[thread].append(batch)
    return groups


def _is_due(run: Run, batch: Batch) -> bool:
    try:
        return machine.is_to_look_later(batch, at(run, batch))
    except ManifestError:  # the manifest does not say any more where its provider is
        return False


def close(run: Run, tick: Tick, thread: ProviderThread, batches: Sequence[Batch]) -> None:
    """Look for the given-up creates of the thread's batches. Without a key the bill stays as it is: all answers of the
    run may be here."""
    if not batches:
        return
    try:
        provider = run.providers.of(thread)
        if provider.capabilities.shows_ours:
            step_each(run, tick, f"list {thread.provider}", batches, lambda batch: _look(run, provider, batch))
    except MissingKeyError:
        return


def _look(run: Run, provider: Provider, batch: Batch) -> bool:
    now = run.store.batch(batch.id)  # it may have moved in this tick
    return _is_due(run, now) and look_later(run, provider, now)
