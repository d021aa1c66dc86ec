"""What a batch's file holds: its requests in the order of its lines."""

from __future__ import annotations

import polars as pl

from layton_batch import tables
from layton_batch.records import Batch
from layton_batch.run import Run


def sent(run: Run, batch: Batch) -> pl.DataFrame:
    """``custom_id, item_id, max_cost`` (exact text, null: unknown) of every line of the batch's file, in its order."""
    requests = tables.read_part(
        run.folder.part("requests", batch.job_id), columns=["custom_id", "item_id", "shard_id", "max_cost"]
    )
    attempt = run.folder.part("attempts", batch.id)
    if not attempt.exists():
        return requests.filter(pl.col("shard_id") == batch.shard_id).drop("shard_id")
    repeated = tables.read_part(attempt)
    return repeated.join(requests.drop("shard_id", "max_cost"), on="custom_id", how="left", maintain_order="left")
