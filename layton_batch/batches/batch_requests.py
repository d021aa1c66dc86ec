"""What a batch's file holds: its requests in the order of its lines."""

from __future__ import annotations

import hashlib

import polars as pl

from layton_batch.errors import DamagedTableError
from layton_batch.files import tables
from layton_batch.records import Batch
from layton_batch.run.context import Run


def batch_requests(run: Run, batch: Batch) -> pl.DataFrame:
    """``custom_id, item_id, max_cost`` (exact text, null: unknown) of every line of the batch's file, in its order."""
    requests = tables.read_part(
        run.folder.part("requests", batch.job_id), columns=["custom_id", "item_id", "shard_id", "max_cost"]
    )
    attempt = run.folder.part("attempts", batch.id)
    if not attempt.exists():
        return requests.filter(pl.col("shard_id") == batch.shard_id).drop("shard_id")
    repeated = tables.read_part(attempt)
    return repeated.join(requests.drop("shard_id", "max_cost"), on="custom_id", how="left", maintain_order="left")


def check_file(run: Run, batch: Batch) -> None:
    """Raises DamagedTableError where the batch file is not what was planned: what is paid for must be what was asked,
    also when lines of it go again."""
    path = run.folder.root / batch.path
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DamagedTableError(f"its file {path} cannot be read: {error.strerror}", path) from error
    if found != batch.sha256:
        raise DamagedTableError(f"its file {path} was changed since it was planned: put it back", path)
