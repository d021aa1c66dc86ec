"""A person's word on a run as a whole: what ended without an answer is asked again, and a cancelled run goes on."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import update

from layton_batch.states import JobState
from layton_batch.store import request_rows, schema
from layton_batch.store.orders import Order, is_pending
from layton_batch.store.run_store import RunStore


def reopen(
    store: RunStore, jobs: Collection[str], answers: Collection[bytes], at: float, detail: str, order: Order | None
) -> None:
    """Have ``answers`` be asked for again that brought nothing, and the ``jobs`` that want them graded again. What was
    collected waits for a person no more.

    Nothing happens where a cancel took the ``order`` of it back.
    """
    with store.writing() as writing:
        if order is not None and not is_pending(writing, order):
            return
        request_rows.take_turn(writing.connection)
        request_rows.want_again(writing.connection, answers)
        store.move_jobs(writing, jobs, JobState.GRADED, JobState.PLANNED)
        store.end_waits(writing)
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
