"""Poll: one reading of every batch that is due, until each has ended. Every batch has a deadline."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.batches import machine
from layton_batch.batches.admission import warn_of_results
from layton_batch.batches.decisions import StageDecision, at, carry_out, step_each
from layton_batch.batches.tick import Tick
from layton_batch.clock import is_due
from layton_batch.errors import ProviderError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Move, Snapshot, Wait
from layton_batch.runs.context import Run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.states import AT_PROVIDER, Lifecycle


def poll(run: Run, tick: Tick, thread: ProviderThread, batches: Sequence[Batch]) -> bool:
    """Read the state of the thread's batches that are at the provider and due, one after another. ``batches``: those
    that were sent and are not collected."""
    now = run.clock.now()
    warn_of_results(run, batches)
    due = [batch for batch in batches if batch.state in AT_PROVIDER and is_due(batch.due_at, now)]
    if not due:
        return False
    provider = run.providers.of(thread)

    def step(batch: Batch) -> bool:
        return carry_out(run, batch, _read(run, tick, provider, batch))

    return step_each(run, tick, f"poll {thread.provider}", due, step)


def _read(run: Run, tick: Tick, provider: Provider, batch: Batch) -> StageDecision:
    """Read the status of the batch at its provider, and ask for its stop where that is decided."""
    snapshot: Snapshot | ProviderError
    try:
        snapshot = provider.snapshot(str(batch.provider_id))
    except ProviderError as error:
        snapshot = error
    decision = machine.after_snapshot(batch, snapshot, at(run, batch))
    if decision.stop:
        decision = _stopped(provider, batch, decision)
    if isinstance(snapshot, ProviderError):
        return StageDecision(decision, snapshot)
    if snapshot.state is Lifecycle.ENDED:
        tick.ended.add(batch, snapshot)
    return StageDecision(decision)


def _stopped(provider: Provider, batch: Batch, decision: Move | Wait) -> Move | Wait:
    """Ask the provider to stop the batch, and return the decision with the outcome."""
    try:
        provider.cancel(str(batch.provider_id))
    except ProviderError as error:
        return machine.not_stopped(decision, f"cancel failed: {error}")
    return decision
