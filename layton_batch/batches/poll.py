"""Poll: one reading of every batch that is due, until each has ended."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.batches import machine
from layton_batch.batches.steps import Tick, at, carry_out, step_each
from layton_batch.clock import is_due
from layton_batch.errors import ProviderError
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
