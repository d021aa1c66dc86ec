"""What becomes of a batch whose create was intended: what the call says of it, and how it turned out."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from layton_batch.batches.names import has_mark
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Submission
from layton_batch.run.context import Run
from layton_batch.states import Lifecycle
from layton_batch.store import Entry


def submission(run: Run, batch: Batch) -> Submission:
    """What a dialect needs to know of a batch."""
    return Submission(
        batch_id=batch.id,
        tag=batch.tag,
        path=run.folder.root / batch.path,
        file_name=f"{batch.tag}.jsonl",
        sha256=batch.sha256,
        requests=batch.requests,
        model=batch.model,
        input_ref=batch.input_ref,
        not_before=batch.submitting_at,
        marked=_is_marked(run, batch),
    )


def _is_marked(run: Run, batch: Batch) -> bool:
    try:
        with (run.folder.root / batch.path).open("rb") as lines:
            return has_mark(run.mark, lines.read(_FIRST))
    except OSError:
        return False  # the file is gone; nothing is sent without it


_FIRST = 1024
"""Bytes of a batch file in which its first custom_id stands."""


def in_flight(run: Run, provider: Provider, batch: Batch, provider_id: str, event: str) -> None:
    """The provider has the batch: keep its id."""
    now = run.clock.now()
    run.store.move(
        batch,
        Lifecycle.IN_FLIGHT,
        now,
        event=event,
        detail=provider_id,
        provider_id=provider_id,
        submitted_at=now,
        due_at=now + min(run.poll_seconds or provider.limits.poll_seconds, 5.0),
        deadline_at=now + deadline_seconds(run, provider),
        failures=0,
        reason=None,
    )


def deadline_seconds(run: Run, provider: Provider) -> float:
    """How long the provider may take: as long as the manifest says, else its own window and a day."""
    hours = run.manifest.policy.deadline_hours
    return hours * 3600 if hours is not None else provider.limits.window_seconds + 86_400


def back_to_planned(
    run: Run,
    batch: Batch,
    reason: str,
    pause: float,
    *,
    event: str = "not_created",
    failures: int = 0,
    upload_again: bool = False,
    money: Sequence[Entry] | None = None,
) -> None:
    """The batch is sent again after ``pause``. The create certainly did nothing, and nothing is set aside for it any
    more, unless ``money`` says what becomes of it."""
    now = run.clock.now()
    run.store.move(
        batch,
        Lifecycle.PLANNED,
        now,
        event=event,
        detail=reason,
        money=[Entry(batch.id, "released", batch.max_cost or Decimal(0))] if money is None else money,
        due_at=now + pause,
        failures=failures,
        input_ref=None if upload_again else batch.input_ref,
        reason=reason,
    )
