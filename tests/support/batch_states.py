"""Batches in their states, the moment of a decision, and what a decision changes."""

from __future__ import annotations

from dataclasses import fields, replace
from decimal import Decimal
from typing import Any

from layton_batch.batches.machine import DecisionLimits
from layton_batch.clock import Pacing
from layton_batch.errors import (
    RequestRefusedError,
    TransientProviderError,
)
from layton_batch.records import Batch, Collect, Move, Wait
from layton_batch.states import BatchOutcome, Lifecycle, is_legal
from tests.support.store_rows import NOW, batch

DAY = 86_400.0
PACING = Pacing()
LOOKS = len(PACING.looks)
AT = DecisionLimits(NOW, PACING, poll=30.0, deadline=2 * DAY, window=DAY, retention=29 * DAY)
UNLISTED = replace(AT, shows_absence=False)
COST = Decimal("0.50")
CHANGEABLE = {
    "state", "outcome", "error_class", "input_ref", "account", "organisation", "provider_id", "provider_status",
    "results_ref", "errors_ref", "reason", "due_at", "submitting_at", "submitted_at", "read_at", "ended_at",
    "deadline_at", "needs_person", "failures", "failed_status", "absent_looks", "short_downloads", "given_up_creates",
    "closed_creates", "extra_batches", "stopped_elsewhere", "spent_usd", "unknown_usd", "creates_usd", "unclear_since",
    "listed_at",
}  # fmt: skip


def planned(**changes: Any) -> Batch:
    return batch(0, **{"due_at": NOW, **changes})


def submitting(**changes: Any) -> Batch:
    known = {"state": Lifecycle.SUBMITTING, "submitting_at": NOW, "input_ref": "file-1", "due_at": NOW}
    return batch(0, **{**known, **changes})


def flying(**changes: Any) -> Batch:
    known = {"state": Lifecycle.IN_FLIGHT, "provider_id": "b-1", "submitted_at": NOW, "deadline_at": NOW + 2 * DAY}
    return batch(0, **{**known, "provider_status": "validating", **changes})


def ended(**changes: Any) -> Batch:
    known = {"state": Lifecycle.ENDED, "provider_id": "b-1", "ended_at": NOW, "outcome": BatchOutcome.COMPLETED}
    return batch(0, **{**known, **changes})


def refused(status: int) -> RequestRefusedError:
    return RequestRefusedError(f"status {status}", status=status)


NO_CREDIT = RequestRefusedError("HTTP 400: Your credit balance is too low to go on", status=400)
WRONG_KEY = RequestRefusedError("HTTP 400: Incorrect API key provided: ab***yz", status=400)
NO_QUOTA = TransientProviderError("HTTP 429: pay first", status=429, code="insufficient_quota")


def busy(retry_after: float | None = None) -> TransientProviderError:
    return TransientProviderError("status 429", status=429, retry_after=retry_after)


def unsent() -> TransientProviderError:
    return TransientProviderError("the network is unreachable; nothing was sent", is_sent=False)


def claim(before: Batch, decision: Move | Wait | Collect | None, *events: str, **changes: object) -> None:
    """Claim that a decision tells these events, and changes these columns and no others, apart from the reason."""
    assert isinstance(decision, Move | Wait)
    after = decision.after
    names = [field.name for field in fields(Batch) if field.name != "reason" or "reason" in changes]
    assert {name: getattr(after, name) for name in names if getattr(after, name) != getattr(before, name)} == changes
    assert changes.keys() <= CHANGEABLE
    assert told(decision) == [*events]
    assert is_legal(before.state, after.state) if isinstance(decision, Move) else after.state is before.state


def told(decision: Move | Wait | Collect) -> list[str]:
    return [kind for kind, _ in decision.events]
