"""Another attempt for the requests that got no answer: the same lines, in a batch of their own."""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256

import polars as pl

from layton_batch import atomic, tables
from layton_batch.records import Batch, Job, Response
from layton_batch.run import Run
from layton_batch.stages.names import tag
from layton_batch.stages.outcomes import Tally
from layton_batch.states import PASSING, Lifecycle, RequestOutcome


def next_attempt(run: Run, job: Job, batch: Batch, tally: Tally) -> tuple[Batch | None, frozenset[str]]:
    """The batch that repeats what got no answer (None: nothing to repeat, or no attempts left), and its custom_ids.

    Its file is on disk when this returns; doing it again gives the same file.
    """
    row = run.store.row()
    if batch.attempt >= run.manifest.policy.attempts or (row is not None and row.cancelled):
        return None, frozenset()
    again = [custom_id for custom_id, response in tally.responses.items() if worth_repeating(response)]
    if not again:
        return None, frozenset()
    return _write(run, job, batch, list(tally.responses), again), frozenset(again)


def worth_repeating(response: Response) -> bool:
    """Whether the same request may get an answer next time; what was answered never goes again."""
    return response.outcome is not RequestOutcome.SUCCEEDED and response.error_class in PASSING


def _write(run: Run, job: Job, batch: Batch, sent: list[str], again: list[str]) -> Batch:
    attempt = batch.attempt + 1
    child_id = f"{job.id}.{batch.shard_id}.a{attempt}"
    path = run.folder.request_file(job.id, f"{batch.shard_id}.a{attempt}")
    digest, size, wanted = sha256(), 0, set(again)
    with (run.folder.root / batch.path).open("rb") as parent, atomic.writing(path) as handle:
        for custom_id, line in zip(sent, parent, strict=True):  # a file's lines are in the order of its requests
            if custom_id in wanted:
                handle.write(line)
                digest.update(line)
                size += len(line)
    tables.write(
        run.folder.part("attempts", child_id), tables.frame("attempts", [{"custom_id": name} for name in again])
    )
    return Batch(
        id=child_id,
        job_id=job.id,
        shard_id=batch.shard_id,
        provider=batch.provider,
        model=batch.model,
        attempt=attempt,
        state=Lifecycle.PLANNED,
        tag=tag(run.tag_prefix, job.id, batch.shard_id, attempt),
        requests=len(again),
        path=path.relative_to(run.folder.root).as_posix(),
        sha256=digest.hexdigest(),
        size_bytes=size,
        max_cost=_max_cost(run, job, wanted),
        reason=f"{len(again)} of {batch.requests} requests of attempt {batch.attempt} got no answer",
        parent_id=batch.id,
    )


def _max_cost(run: Run, job: Job, wanted: set[str]) -> Decimal | None:
    requests = pl.read_parquet(run.folder.part("requests", job.id), columns=["custom_id", "max_cost"])
    costs = [cost for name, cost in requests.iter_rows() if name in wanted]
    if any(cost is None for cost in costs):
        return None
    return sum((Decimal(cost) for cost in costs), Decimal(0))
