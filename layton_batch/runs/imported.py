"""Jobs of a run that have their answers from a file: they are in the store, and in no manifest."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256

from layton_batch.records import Batch, Job
from layton_batch.states import Role

SHARD = "imported"
"""The shard of requests whose answers came from a file, and the first word of a later file's: it has no batch file, so
nothing of it is ever sent."""


FROM_FILE = "imported from "
"""Beginning of the reason of such a batch; the file's name follows."""


def is_imported(batch: Batch) -> bool:
    """Return whether the batch's answers came from a file."""
    return batch.shard_id.split("-")[0] == SHARD and not batch.path


def imported_answer(mark: str, custom_id: str) -> bytes:
    """Return what an imported answer is known by. Nobody was asked: it answers no question of another job."""
    return sha256(f"imported\x1f{mark}\x1f{custom_id}".encode()).digest()


def imported_models(jobs: Collection[Job], batches: Collection[Batch]) -> list[Job]:
    """Return the predict jobs of models whose answers came from a file. No other model is asked in their place:
    an answer that the file lacks is missing.
    """
    theirs = {batch.job_id for batch in batches if is_imported(batch)}
    return [job for job in jobs if job.role is Role.PREDICT and job.id in theirs]
