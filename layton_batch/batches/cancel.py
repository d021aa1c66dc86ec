"""Cancel: stop paying. Nothing more is sent; what providers have is asked to stop and still collected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from layton_batch.batches import machine
from layton_batch.errors import ProviderError
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.runs.status import RunState, read_status
from layton_batch.states import Lifecycle


@dataclass(frozen=True, slots=True)
class CancelFailure:
    """A batch whose provider could not be asked to stop it, or refused to, and why."""

    batch: Batch
    reason: str


def cancel_run(run: Run) -> list[CancelFailure]:
    """Mark the run cancelled, withdraw what was not sent, and ask providers to stop the rest, side by side.

    Returns what goes on all the same: it is asked again each time it is looked at. A run that is done stays as it is
    (``is_done`` tells): there is nothing to cancel.
    """
    if is_done(run):
        return []
    run.store.set_cancelled(run.clock.now())
    not_stopped = [batch for batch in run.store.batches({Lifecycle.CANCELLING}) if batch.failures]
    stopped = _stop(run, run.store.batches({Lifecycle.PLANNED, Lifecycle.IN_FLIGHT}))
    groups: dict[str, list[Batch]] = defaultdict(list)
    for batch in (*not_stopped, *stopped):
        if batch.state is Lifecycle.CANCELLING:
            groups[batch.provider].append(batch)
    results = run.executor.map(lambda name: [_ask_to_stop(run, batch) for batch in groups[name]], groups)
    return [failure for group in results for failure in group if failure is not None]


def is_done(run: Run) -> bool:
    """Return whether the run has ended by itself."""
    return read_status(run.store).state is RunState.DONE


def is_cancelled(run: Run) -> bool:
    """Return whether a person has cancelled the run."""
    row = run.store.row()
    return row is not None and row.cancelled


def stop_rest(run: Run, thread: ProviderThread) -> bool:
    """Stop the thread's batches of a cancelled run that were not sent, or were sent while the run was cancelled: the
    next poll asks their provider."""
    batches = run.store.batches({Lifecycle.PLANNED, Lifecycle.IN_FLIGHT}, thread.provider)
    return bool(_stop(run, [batch for batch in batches if run.threads.of(batch) == thread]))


def _stop(run: Run, batches: Sequence[Batch]) -> list[Batch]:
    """Withdraw planned batches, and have those in flight cancelling. Return them as they are then."""
    now, reason = run.clock.now(), "the run was cancelled before this was sent"
    return [
        run.store.apply(
            batch,
            machine.withdrawn(batch, reason, now) if batch.state is Lifecycle.PLANNED else machine.to_stop(batch, now),
            now,
        )
        for batch in batches
    ]


def withdraw(run: Run, batch: Batch, reason: str) -> None:
    """A planned batch is over before it was sent."""
    now = run.clock.now()
    run.store.apply(batch, machine.withdrawn(batch, reason, now), now)


def _ask_to_stop(run: Run, batch: Batch) -> CancelFailure | None:
    if run.stopping.is_set():
        return CancelFailure(batch, "not asked: this program was stopped")
    try:
        run.providers.of(run.threads.of(batch)).cancel(str(batch.provider_id))
    except ProviderError as error:
        run.store.apply(batch, machine.not_stopped(batch, error), run.clock.now())
        return CancelFailure(batch, str(error))
    return None
