"""Cancel: stop paying. Nothing more is sent; what providers have is asked to stop and still collected."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.errors import ProviderError, StaleStateError
from layton_batch.records import Batch
from layton_batch.run import Run
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle


def cancel_run(run: Run) -> None:
    """Mark the run cancelled, withdraw what was not sent, and ask providers to stop the rest.

    A provider that cannot be reached leaves an event; cancelling again asks again.
    """
    run.store.set_cancelled(run.clock.now())
    _stop(run, run.store.batches({Lifecycle.PLANNED, Lifecycle.IN_FLIGHT}))


def stop_rest(run: Run) -> bool:
    """What another process had in hand when the run was cancelled, or was just being sent. Asks providers once each."""
    batches = run.store.batches({Lifecycle.PLANNED, Lifecycle.IN_FLIGHT})
    return _stop(run, [batch for batch in batches if not run.store.has_event(batch.id, "cancel_failed")])


def _stop(run: Run, batches: Sequence[Batch]) -> bool:
    moved = False
    for batch in batches:
        try:
            if batch.state is Lifecycle.PLANNED:
                _withdraw(run, batch)
            else:
                _ask_to_stop(run, batch)
            moved = True
        except StaleStateError:
            continue  # another process has it in hand: it drops what it had not sent, and sees the rest end
    return moved


def _withdraw(run: Run, batch: Batch) -> None:
    now = run.clock.now()
    run.store.move(
        batch,
        Lifecycle.ENDED,
        now,
        event="withdrawn",
        detail="never sent",
        outcome=BatchOutcome.CANCELLED,
        error_class=ErrorClass.NOT_EXECUTED,
        ended_at=now,
        due_at=now,
        reason="the run was cancelled before this was sent",
    )


def _ask_to_stop(run: Run, batch: Batch) -> None:
    now = run.clock.now()
    try:
        run.providers.get(batch.provider).cancel(str(batch.provider_id))
    except ProviderError as error:
        run.store.add_event(now, batch.id, "cancel_failed", str(error))
        return
    run.store.move(batch, Lifecycle.CANCELLING, now, event="cancelling", detail="asked for", due_at=now)
