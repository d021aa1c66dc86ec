"""Poll: one reading of every batch that is due, until each has ended. Every batch has a deadline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from layton_batch.batches import machine
from layton_batch.batches.admission import warn_of_retention
from layton_batch.batches.decisions import Answering, NoAnswer, Readings, Step, at, carry_out
from layton_batch.clock import is_due
from layton_batch.errors import ProviderError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Move, Snapshot, Wait
from layton_batch.runs.context import Run
from layton_batch.runs.lanes import Lane
from layton_batch.states import AT_PROVIDER, Lifecycle


def poll(run: Run, lane: Lane) -> bool:
    """Read the state of the lane's due batches, one after another."""
    now = run.clock.now()
    of_all = run.store.batches(AT_PROVIDER | {Lifecycle.ENDED}, lane.provider)
    its = [batch for batch in of_all if run.seats.lane(batch) == lane]
    warn_of_retention(run, its)
    due = [batch for batch in its if batch.state in AT_PROVIDER and is_due(batch.due_at, now)]
    return bool(due) and _poll_group(run, lane, due)


def _poll_group(run: Run, lane: Lane, batches: Sequence[Batch]) -> bool:
    provider = run.providers.of(lane)
    answering: Answering = run.kept.setdefault(Answering, Answering())
    moved = False
    for batch in batches:
        if run.stopping.is_set():
            break
        try:
            came = answering.ask(f"poll {lane.provider}", partial(_poll_one, run, provider, batch))
        except NoAnswer:
            break  # each of the others would wait as long for nothing, and the other providers' with it
        if came is None:
            break
        moved |= came
    return moved


def _poll_one(run: Run, provider: Provider, batch: Batch) -> bool:
    return carry_out(run, batch, _read(run, provider, batch))


def _read(run: Run, provider: Provider, batch: Batch) -> Step:
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
        return Step(decision, snapshot)
    if snapshot.state is Lifecycle.ENDED:
        run.kept.setdefault(Readings, Readings()).keep(batch, snapshot)
    return Step(decision)


def _stopped(provider: Provider, batch: Batch, decision: Move | Wait) -> Move | Wait:
    """The decision, once the provider was asked to stop the batch."""
    try:
        provider.cancel(str(batch.provider_id))
    except ProviderError as error:
        return machine.not_stopped(decision, f"cancel failed: {error}")
    return decision
