"""Opening a run again: more attempts for rows that had already ended, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import update

from layton_batch.errors import StaleStateError
from layton_batch.records import Batch, RowCount
from layton_batch.states import ErrorClass, JobState, RequestOutcome
from layton_batch.store import schema
from layton_batch.store.orders import Order, is_pending
from layton_batch.store.run_store import RunStore

RowKey = tuple[str, RequestOutcome, ErrorClass]
"""Batch, outcome and error class: the key of one row count."""


def reopen(
    store: RunStore,
    batches: Sequence[Batch],
    resubmitted: Mapping[RowKey, int],
    at: float,
    *,
    detail: str,
    ungraded: Collection[str] = (),
    unplanned: Collection[str] = (),
    counts: Sequence[RowCount] = (),
    order: Order | None = None,
) -> None:
    """Enter ``batches``, count the rows they repeat as resubmitted, and take back what was concluded from the old ones.

    ``ungraded`` jobs are graded again when their batches are over; ``unplanned`` ones are planned again: judges', for
    predictions they were not asked about, and those that wait for another job's answers. ``counts``: how the rows of
    those batches ended that are over already. ``order``: the order of it; nothing happens where a cancel took
    that back. Raises StaleStateError, and nothing of it happens, where some of the rows are repeated already.
    """
    known = schema.row_counts
    with store.writing() as writing:
        if order is not None and not is_pending(writing, order):
            return
        connection = writing.connection
        for (batch_id, outcome, error_class), number in resubmitted.items():
            changed = connection.execute(
                update(known)
                .where(
                    known.c.run_id == store.run_id,
                    known.c.batch_id == batch_id,
                    known.c.outcome == str(outcome),
                    known.c.error_class == str(error_class),
                    known.c.resubmitted + number <= known.c.count,
                )
                .values(resubmitted=known.c.resubmitted + number)
            )
            if changed.rowcount != 1:
                raise StaleStateError(f"requests of {batch_id} go again already")
        store._insert_batches(connection, batches)
        store._insert_counts(connection, counts)
        store.move_jobs(writing, ungraded, JobState.GRADED, JobState.PLANNED)
        store.plan_again(writing, unplanned)
        writing.event(at, None, "reopened", detail)


def go_on(store: RunStore, at: float, order: Order | None = None) -> None:
    """Let a cancelled run send again. ``order``: the order of it; nothing changes where a cancel took that back."""
    with store.writing() as writing:
        if order is not None and not is_pending(writing, order):
            return
        writing.connection.execute(
            update(schema.runs).where(schema.runs.c.run_id == store.run_id).values(cancelled=False, stopped_reason=None)
        )
        writing.event(at, None, "run_goes_on", "a person asked for it")
