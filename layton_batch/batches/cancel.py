"""Cancel: stop paying. Nothing more is sent; what providers have is asked to stop and still collected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from layton_batch.batches import machine
from layton_batch.batches.decisions import at
from layton_batch.clock import is_due
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
    """Mark the run cancelled, withdraw what was not sent, and ask providers to stop the rest.

    Returns what goes on all the same: it is asked again each time it is looked at. A run that is done stays as it is
    (``is_done`` tells): there is nothing to cancel.
    """
    if is_done(run):
        return []
    run.store.set_cancelled(run.clock.now())
    _withdraw_planned(run)
    return _stop(run, run.store.batches({Lifecycle.IN_FLIGHT}))


def is_done(run: Run) -> bool:
    """Return whether the run has ended by itself."""
    return read_status(run.store).state is RunState.DONE


def is_cancelled(run: Run) -> bool:
    """Return whether a person has cancelled the run."""
    row = run.store.row()
    return row is not None and row.cancelled


def stop_rest(run: Run, thread: ProviderThread) -> bool:
    """Stop the thread's batches that were not sent, or not stopped, when the run was cancelled.

    A provider is asked again whenever the batch is due to be looked at, and the batch is looked at as well: it may have
    ended, which is why a provider refuses to cancel it. Looking sets when it is due next, later each time that fails.
    """
    moved = _withdraw_planned(run, thread)
    now = run.clock.now()
    in_flight = run.store.batches({Lifecycle.IN_FLIGHT}, thread.provider)
    due = [batch for batch in in_flight if run.threads.of(batch) == thread and is_due(batch.due_at, now)]
    return None in [_ask_to_stop(run, batch) for batch in due] or moved


def _withdraw_planned(run: Run, thread: ProviderThread | None = None) -> bool:
    """Withdraw the thread's planned batches, or all of them."""
    planned = run.store.batches({Lifecycle.PLANNED})
    to_withdraw = [batch for batch in planned if thread is None or run.threads.of(batch) == thread]
    for batch in to_withdraw:
        withdraw(run, batch, "the run was cancelled before this was sent")
    return bool(to_withdraw)


def withdraw(run: Run, batch: Batch, reason: str) -> None:
    """A planned batch is over before it was sent."""
    now = run.clock.now()
    run.store.apply(batch, machine.withdrawn(batch, reason, now), now)


def _stop(run: Run, batches: Sequence[Batch]) -> list[CancelFailure]:
    """Ask for each batch's end, providers side by side; those of which that did not come through."""
    groups: dict[str, list[Batch]] = defaultdict(list)
    for batch in batches:
        groups[batch.provider].append(batch)
    results = run.executor.map(lambda name: [_ask_to_stop(run, batch) for batch in groups[name]], groups)
    return [failure for group in results for failure in group if failure is not None]


def _ask_to_stop(run: Run, batch: Batch) -> CancelFailure | None:
    if run.stopping.is_set():
        return CancelFailure(batch, "not asked: this program was stopped")
    problem: ProviderError | None = None
    try:
        run.providers.of(run.threads.of(batch)).cancel(str(batch.provider_id))
    except ProviderError as error:
        problem = error
    run.store.apply(batch, machine.after_cancel(batch, problem, at(run, batch)), run.clock.now())
    return None if problem is None else CancelFailure(batch, str(problem))
