"""Retry: one more attempt, on demand, for every request that ended without an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import polars as pl

from layton_batch.batches.attempts import attempts_are_left, retired_requests, write_next
from layton_batch.errors import StaleStateError
from layton_batch.files import tables
from layton_batch.records import Batch
from layton_batch.run.context import Run
from layton_batch.states import PASSING, ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.store.reopening import RowKey, go_on, reopen


def retry_run(run: Run) -> int:
    """Plan another attempt for all requests without an answer, permanent errors included; returns how many there are.

    A cancelled run goes on. Predictions that come in this way go before a jury like any other. Raises StaleStateError
    where another process plans or writes tables just now: what it concludes from the answers so far must not stand.
    """
    with run.writer_lease() as ours:
        if not ours:
            raise StaleStateError(f"run {run.id}: another process is writing its tables; try again in a moment")
        return _retry(run)


def _retry(run: Run) -> int:
    batches = run.store.batches()
    again: list[Batch] = []
    repeated: Counter[RowKey] = Counter()
    for batch in batches:
        wanted = _without_answer(run, batch, batches)
        if not wanted.is_empty():
            reason = f"{wanted.height} requests of {batch.id} without an answer; a person asked for another attempt"
            ids = wanted["custom_id"].to_list()
            again.append(write_next(run, batch, ids, "p", reason))
            repeated.update(_keys(batch, wanted))
    _reopen(run, again, repeated)
    return sum(batch.requests for batch in again)


def ask_again(run: Run, job_id: str, wanted: Collection[str], retired: Collection[str]) -> None:
    """Another attempt for those of a job's requests that are known not to have been billed, and were given up while the
    manifest did not ask for them: for the ``retired`` ones, and for those with attempts left, which nothing else gives
    up than that the whole job was retired."""
    if not wanted:
        return
    batches = [batch for batch in run.store.batches() if batch.job_id == job_id]
    again: list[Batch] = []
    repeated: Counter[RowKey] = Counter()
    for batch in batches:
        passing = [str(cause) for cause in PASSING]
        rows = _unanswered(run, batch, batches)
        given_up = wanted if attempts_are_left(run, batch) else set(wanted).intersection(retired)
        rows = rows.filter(pl.col("custom_id").is_in(list(given_up)), pl.col("error_class").is_in(passing))
        if not rows.is_empty():
            reason = f"{rows.height} requests of {batch.id} are asked for again by the manifest"
            again.append(write_next(run, batch, rows["custom_id"].to_list(), "b", reason))
            repeated.update(_keys(batch, rows))
    if again:
        detail = f"{sum(batch.requests for batch in again)} requests without an answer are wanted again"
        reopen(run.store, again, repeated, run.clock.now(), detail=detail)


def _without_answer(run: Run, batch: Batch, batches: list[Batch]) -> pl.DataFrame:
    """Those of ``_unanswered`` that the manifest still asks for."""
    found = _unanswered(run, batch, batches)
    return found if found.is_empty() else found.filter(~pl.col("custom_id").is_in(list(retired_requests(run, batch))))


def _unanswered(run: Run, batch: Batch, batches: list[Batch]) -> pl.DataFrame:
    """``custom_id, outcome, error_class`` of a collected batch's requests that no later attempt has taken over."""
    empty = pl.DataFrame(schema={"custom_id": pl.String, "outcome": pl.String, "error_class": pl.String})
    parts = sorted((run.folder.tables / "responses" / batch.id).glob("*.parquet"))
    if batch.state is not Lifecycle.COLLECTED or not batch.path or not parts:
        return empty
    rows = pl.concat([tables.read_part(part, columns=empty.columns) for part in parts])
    taken = [run.folder.part("attempts", other.id) for other in batches if other.parent_id == batch.id]
    repeated = pl.concat([tables.read_part(part, columns=["custom_id"]) for part in taken]) if taken else empty
    open_rows = rows.filter(pl.col("outcome") != str(RequestOutcome.SUCCEEDED))
    return open_rows.join(repeated.select("custom_id"), on="custom_id", how="anti", maintain_order="left")


def _keys(batch: Batch, wanted: pl.DataFrame) -> Counter[RowKey]:
    pairs = zip(wanted["outcome"], wanted["error_class"], strict=True)
    return Counter((batch.id, RequestOutcome(outcome), ErrorClass(error_class)) for outcome, error_class in pairs)


def _reopen(run: Run, again: list[Batch], repeated: Counter[RowKey]) -> None:
    now = run.clock.now()
    row = run.store.row()
    if row is not None and row.cancelled:
        go_on(run.store, now)
    if not again:
        return
    reopened = {batch.job_id for batch in again}
    jobs = run.store.jobs()
    predicting = {job.id for job in jobs if job.id in reopened and job.role is Role.PREDICT}
    judging = {job.id for job in jobs if job.depends_on in predicting}
    detail = f"{sum(batch.requests for batch in again)} requests without an answer go again"
    reopen(run.store, again, repeated, now, detail=detail, ungraded=reopened, unplanned=judging)
