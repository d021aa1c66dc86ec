"""Between database rows and records."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Protocol

import orjson

from layton_batch.records import Batch, BatchFacts, Event, Job, ModelSpec, Reasoning
from layton_batch.states import BatchOutcome, ErrorClass, JobState, Lifecycle, Role

FLAGS = tuple(field.name for field in fields(BatchFacts) if isinstance(field.default, bool))
COUNTERS = tuple(field.name for field in fields(BatchFacts) if field.name not in FLAGS)
"""Columns of a batch for what is in its ``BatchFacts``."""

ZERO = Decimal(0)


class Row(Protocol):
    """Columns of one row, by name."""

    def __getitem__(self, column: str, /) -> Any: ...


# ---- the run, its money, what happened -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunRow:
    """Row of a run."""

    run_id: str
    identity: str
    manifest: str
    created_at: float
    cancelled: bool
    stopped_reason: str | None
    revision: str | None
    applied: str | None
    items: str | None
    agreed: bool = True
    was_agreed: bool = False

    @property
    def is_revised(self) -> bool:
        """Return whether the jobs are those of the manifest's latest revision."""
        return self.revision in (None, self.applied)


def run_from(row: Row) -> RunRow:
    return RunRow(**{field.name: row[field.name] for field in fields(RunRow)})


@dataclass(frozen=True, slots=True)
class RunMoney:
    """A run's money in USD: what is known to be spent, what is set aside for open batches, and what may have been spent
    at most on requests whose cost cannot be told."""

    spent: Decimal
    reserved: Decimal
    unknown_cost: Decimal = ZERO

    @property
    def committed(self) -> Decimal:
        """USD that no budget can spend a second time."""
        return self.spent + self.reserved + self.unknown_cost


def reserve(state: Lifecycle, max_cost: Decimal | None) -> Decimal:
    """Return the USD set aside for a batch in this state: its maximum cost from the intent to pay to its collection."""
    return ZERO if state in (Lifecycle.PLANNED, Lifecycle.COLLECTED) or max_cost is None else max_cost


def event_from(row: Row) -> Event:
    return Event(row["seq"], row["at"], row["batch_id"], row["kind"], row["detail"])


# ---- jobs ----------------------------------------------------------------------------------------------------------


def spec_json(spec: ModelSpec) -> str:
    """A model spec as canonical JSON."""
    content = {
        "name": spec.name,
        "provider": spec.provider,
        "model": spec.model,
        "family": spec.family,
        "max_output_tokens": spec.max_output_tokens,
        "reasoning": {"effort": spec.reasoning.effort, "budget_tokens": spec.reasoning.budget_tokens},
        "params": dict(spec.params),
    }
    if spec.sample != 1:
        content["sample"] = spec.sample
    if spec.hints is not None:
        content["hints"] = spec.hints
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode()


def spec_from_json(text: str) -> ModelSpec:
    """The inverse of :func:`spec_json`."""
    content = orjson.loads(text)
    reasoning = Reasoning(**content.pop("reasoning"))
    return ModelSpec(**content, reasoning=reasoning)


def job_columns(state: JobState) -> dict[str, bool]:
    """Return the columns of a job in this state."""
    return {"planned": state is not JobState.NEW, "graded": state is JobState.GRADED}


def job_from(row: Row) -> Job:
    return Job(
        id=row["job_id"],
        role=Role(row["role"]),
        spec=spec_from_json(row["spec"]),
        depends_on=row["depends_on"],
        planned=row["planned"],
        graded=row["graded"],
        identity=row["identity"],
        retired=row["retired"],
        news=row["news"],
        is_stale=row["graded"] and row["news"] != row["graded_news"],
    )


# ---- batches -------------------------------------------------------------------------------------------------------

_FIXED = (
    "job_id", "shard_id", "provider", "model", "attempt", "tag", "requests", "path", "sha256", "size_bytes",
    "parent_id", "cause", "reask",
)  # fmt: skip
"""Columns of what names a batch: no decision changes them."""
_PLAIN = (
    "input_ref", "account", "organisation", "provider_id", "provider_status", "results_ref", "errors_ref", "reason",
    "due_at", "submitting_at", "submitted_at", "read_at", "ended_at", "deadline_at", "needs_person", "failures",
    "failed_status", "expected_usd", "spent_usd", "unknown_usd", "creates_usd", "stated_usd", "stated_input_tokens",
    "stated_output_tokens", "unclear_since", "listed_at",
)  # fmt: skip
_ENUMS = ("state", "outcome", "error_class")
_FACTS = (*COUNTERS, *FLAGS)


def batch_from(row: Row) -> Batch:
    return Batch(
        id=row["batch_id"],
        state=Lifecycle(row["state"]),
        outcome=BatchOutcome(row["outcome"]) if row["outcome"] else None,
        error_class=ErrorClass(row["error_class"]) if row["error_class"] else ErrorClass.NONE,
        max_cost=row["max_cost"],
        facts=BatchFacts(**{name: row[name] for name in _FACTS}),
        **{name: row[name] for name in (*_FIXED, *_PLAIN)},
    )


def batch_values(batch: Batch) -> dict[str, Any]:
    """Column values of a batch about to be inserted."""
    values: dict[str, Any] = {name: getattr(batch, name) for name in _FIXED}
    return values | {"batch_id": batch.id, "max_cost": batch.max_cost} | _changeable(batch)


def changed(before: Batch, after: Batch) -> dict[str, Any]:
    """Column values in which the batch after a decision differs from the one before."""
    old = _changeable(before)
    return {name: value for name, value in _changeable(after).items() if value != old[name]}


def _changeable(batch: Batch) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(batch, name) for name in _PLAIN}
    values |= {name: None if getattr(batch, name) is None else str(getattr(batch, name)) for name in _ENUMS}
    return values | {name: getattr(batch.facts, name) for name in _FACTS}
