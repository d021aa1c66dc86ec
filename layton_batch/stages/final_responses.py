"""The response that counts for each request of a job, over all its attempts."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from layton_batch import tables
from layton_batch.records import Response
from layton_batch.run import Run
from layton_batch.states import ErrorClass, FinishReason, RequestOutcome


def final_responses(run: Run, job_id: str) -> pl.DataFrame:
    """The job's requests with the response that counts: the answer, else what the last attempt said."""
    requests = pl.read_parquet(run.folder.part("requests", job_id))
    best = (
        _responses(run, job_id)
        .with_columns(answered=pl.col("outcome") == str(RequestOutcome.SUCCEEDED))
        .sort("answered", "attempt", descending=True, maintain_order=True)
        .unique("custom_id", keep="first", maintain_order=True)
        .drop("answered", "job_id")
    )
    return requests.join(best, on="custom_id", how="left", maintain_order="left")


def last_responses(run: Run, job_id: str) -> pl.DataFrame:
    """What the last attempt at each request of the job said, an answer or not, in no order."""
    newest_first = _responses(run, job_id).reverse().sort("attempt", descending=True, maintain_order=True)
    return newest_first.unique("custom_id", keep="first")


def _responses(run: Run, job_id: str) -> pl.DataFrame:
    """Every response of the job, in the order in which their batches were entered."""
    parts = [
        pl.read_parquet(part)
        for batch in run.store.batches()
        if batch.job_id == job_id
        for part in sorted((run.folder.tables / "responses" / batch.id).glob("*.parquet"))
    ]
    return pl.concat(parts) if parts else tables.frame("responses", [])


def response_from(row: Mapping[str, object]) -> Response:
    """A response as the tables have it; a request nothing is known of is MISSING."""
    return Response(
        custom_id=str(row["custom_id"]),
        outcome=RequestOutcome(_text(row["outcome"]) or "missing"),
        text=_text(row["text"]),
        finish_reason=FinishReason(str(row["finish_reason"])) if row["finish_reason"] else None,
        raw_finish_reason=_text(row["raw_finish_reason"]),
        refusal=_text(row["refusal"]),
        error_class=ErrorClass(_text(row["error_class"]) or "none"),
        error_code=_text(row["error_code"]),
        error_message=_text(row["error_message"]),
        served_model=_text(row["served_model"]),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
