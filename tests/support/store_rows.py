"""Rows to put into a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

from layton_batch.records import Batch, Job, ModelSpec, Move, NewRequest, Wait
from layton_batch.states import Lifecycle, Role
from layton_batch.store.engine import open_engine
from layton_batch.store.run_store import RunStore

SPEC = ModelSpec(name="m", provider="openai", model="m-1", family="openai")
JOB = Job("predict-m", Role.PREDICT, SPEC)
RUN = "lab-0123abcd"
NOW = 1_800_000_000.0
NOTHING: Sequence[NewRequest] = ()
"""A job asks nothing beside what it asked before."""


def batch(number: int, **changes: Any) -> Batch:
    fields: dict[str, Any] = {
        "id": f"predict-m.s{number:04d}.a1",
        "job_id": JOB.id,
        "shard_id": f"s{number:04d}",
        "provider": "openai",
        "model": "m-1",
        "attempt": 1,
        "state": Lifecycle.PLANNED,
        "tag": f"lb-{number}",
        "requests": 3,
        "path": f"requests/predict-m/s{number:04d}.jsonl",
        "sha256": "0" * 64,
        "size_bytes": 400,
        "max_cost": Decimal("0.50"),
    }
    return Batch(**{**fields, **changes})


def moved(
    before: Batch, state: Lifecycle, event: str = "moved", *, detail: str = "", **changes: Any,
) -> Move:  # fmt: skip
    """A decision that takes the batch to ``state``."""
    after = replace(before, state=state, **changes)
    return Move(after, ((event, detail),))


def noted(before: Batch, event: str, detail: str = "", **changes: Any) -> Wait:
    """A decision that leaves the batch in its state."""
    return Wait(replace(before, **changes), ((event, detail),))


def store_on(engine: Any) -> RunStore:
    """The run on an open database for another process."""
    return RunStore(engine, RUN)


@contextmanager
def opened(url: str, count: int = 1, jobs: Sequence[Job] = (JOB,), **changes: Any) -> Iterator[RunStore]:
    """A store with ``jobs``, of which the first is planned, with ``count`` batches."""
    engine = open_engine(url)
    try:
        store = store_on(engine)
        store.enter("0123abcd" * 8, "{}", "0", NOW)
        store.add_jobs(jobs, NOW)
        store.plan_job(JOB, [batch(number, **changes) for number in range(count)], NOW, NOTHING, ())
        yield store
    finally:
        engine.dispose()
