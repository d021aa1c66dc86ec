"""What a run's store says that its jobs ask, as tables for tests to look at."""

from __future__ import annotations

import polars as pl
from sqlalchemy import func, select

from layton_batch.store import schema
from layton_batch.store.run_store import RunStore


def asked_requests(store: RunStore) -> pl.DataFrame:
    """Return the requests of a run: ``custom_id, job_id, role, item_id, model, judge, sample, fingerprint, retired,
    max_cost`` (the most that the last attempt at the first answer could cost: a further answer has more room)."""
    requests, jobs, attempts, answers = schema.requests, schema.jobs, schema.attempts, schema.answers
    known = {job.id: job for job in store.all_jobs()}
    query = (
        select(
            requests.c.custom_id, jobs.c.job_id, requests.c.item_id, requests.c.fingerprint, requests.c.retired,
            attempts.c.max_cost,
        )
        .join(jobs, jobs.c.key == requests.c.job)
        .join(answers, answers.c.fingerprint == func.coalesce(requests.c.fingerprint, requests.c.answer))
        .outerjoin(
            attempts, (attempts.c.batch == answers.c.batch) & (attempts.c.fingerprint == answers.c.fingerprint)
        )
        .where(jobs.c.run_id == store.run_id)
        .order_by(jobs.c.job_id, requests.c.custom_id)
    )  # fmt: skip
    rows = []
    with store.reading() as connection:
        for custom_id, job_id, item_id, fingerprint, retired, max_cost in connection.execute(query):
            job = known[job_id]
            judged = known[job.depends_on].spec.name if job.depends_on else None
            is_judge = str(job.role) != "predict"
            rows.append(
                {
                    "custom_id": custom_id,
                    "job_id": job_id,
                    "role": str(job.role),
                    "item_id": item_id,
                    "model": judged or (None if is_judge else job.spec.name),
                    "judge": job.spec.name if is_judge else None,
                    "sample": job.spec.sample,
                    "fingerprint": None if fingerprint is None else fingerprint.hex(),
                    "retired": bool(retired),
                    "max_cost": None if max_cost is None else format(max_cost, "f"),
                }
            )
    text = dict.fromkeys(("custom_id", "job_id", "role", "item_id", "model", "judge"), pl.String)
    schema_ = {**text, "sample": pl.Int64, "fingerprint": pl.String, "retired": pl.Boolean, "max_cost": pl.String}
    return pl.DataFrame(rows, schema=schema_)
