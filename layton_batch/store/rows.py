"""Between database rows and records."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson
from sqlalchemy import RowMapping

from layton_batch.records import Batch, Job, ModelSpec, Reasoning
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, Role


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
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode()


def spec_from_json(text: str) -> ModelSpec:
    """The inverse of :func:`spec_json`."""
    content = orjson.loads(text)
    reasoning = Reasoning(**content.pop("reasoning"))
    return ModelSpec(**content, reasoning=reasoning)


def job_from(row: RowMapping) -> Job:
    return Job(
        id=row["job_id"],
        role=Role(row["role"]),
        spec=spec_from_json(row["spec"]),
        depends_on=row["depends_on"],
        requests=row["requests"],
        planned=row["planned"],
        graded=row["graded"],
    )


_PLAIN = (
    "job_id", "shard_id", "provider", "model", "attempt", "tag", "requests", "path", "sha256", "size_bytes",
    "input_ref", "provider_id", "provider_status", "results_ref", "errors_ref", "reason", "parent_id", "cause",
    "due_at", "submitting_at", "submitted_at", "ended_at", "deadline_at", "late_since", "needs_person", "failures",
)  # fmt: skip


def batch_from(row: RowMapping) -> Batch:
    return Batch(
        id=row["batch_id"],
        state=Lifecycle(row["state"]),
        outcome=BatchOutcome(row["outcome"]) if row["outcome"] else None,
        error_class=ErrorClass(row["error_class"]) if row["error_class"] else ErrorClass.NONE,
        max_cost=row["max_cost"],
        **{name: row[name] for name in _PLAIN},
    )


def batch_values(batch: Batch) -> dict[str, Any]:
    """Column values of a batch about to be inserted."""
    values: dict[str, Any] = {name: getattr(batch, name) for name in _PLAIN}
    values["batch_id"] = batch.id
    values["state"] = str(batch.state)
    values["outcome"] = str(batch.outcome) if batch.outcome else None
    values["error_class"] = str(batch.error_class)
    values["max_cost"] = batch.max_cost
    return values


ZERO = Decimal(0)
