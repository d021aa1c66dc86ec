"""Resolve: a person's word on a lost batch."""

from __future__ import annotations

from decimal import Decimal

from layton_batch.errors import ManifestError
from layton_batch.records import Batch
from layton_batch.run import Run
from layton_batch.stages.intent import deadline_seconds
from layton_batch.states import Lifecycle
from layton_batch.store import Entry


def adopt_batch(run: Run, batch_id: str, provider_id: str) -> None:
    """The batch is this one at the provider. Raises ManifestError where ours is not lost, or that one cannot be it;
    ProviderError where the provider does not know that id."""
    batch = _lost(run, batch_id)
    for other in run.store.batches():
        if other.provider_id == provider_id and other.id != batch.id:
            raise ManifestError(f"{provider_id} is batch {other.id} of this run: adopt another, or --resubmit")
    provider = run.providers.get(batch.provider)
    snapshot = provider.snapshot(provider_id)
    if snapshot.total not in (None, 0, batch.requests):
        raise ManifestError(
            f"{provider_id} holds {snapshot.total} requests, batch {batch.id} {batch.requests}: it is another one"
        )
    now = run.clock.now()
    run.store.move(
        batch,
        Lifecycle.IN_FLIGHT,
        now,
        event="adopted",
        detail=provider_id,
        provider_id=provider_id,
        provider_status=snapshot.provider_status,
        submitted_at=batch.submitting_at or now,
        due_at=now,
        deadline_at=now + deadline_seconds(run, provider),
        failures=0,
        reason=None,
    )


def send_again(run: Run, batch_id: str) -> None:
    """The batch was never made: plan it again. Raises ManifestError where it is not lost."""
    batch = _lost(run, batch_id)
    now = run.clock.now()
    run.store.move(
        batch,
        Lifecycle.PLANNED,
        now,
        event="resubmit",
        detail="a person said that it was never made",
        money=[Entry(batch.id, "released", batch.max_cost or Decimal(0))],
        due_at=now,
        failures=0,
        input_ref=None,
        reason=None,
    )


def _lost(run: Run, batch_id: str) -> Batch:
    batch = run.store.batch(batch_id)
    if batch.state is not Lifecycle.LOST:
        raise ManifestError(f"batch {batch_id} of run {run.id} is {batch.state}, not lost: there is nothing to resolve")
    return batch
