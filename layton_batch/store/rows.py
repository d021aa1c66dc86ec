"""Between database rows and records."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson
from sqlalchemy import RowMapping

from layton_batch.records import Batch, Facts, Job, ModelSpec, Reasoning
from layton_batch.states import BatchOutcome, ErrorClass, JobState, Lifecycle, Role
from layton_batch.store.schema import COUNTERS, FLAGS


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
    """How the table of jobs says in which state one is."""
    return {"planned": state is not JobState.NEW, "graded": state is JobState.GRADED}


def job_from(row: RowMapping) -> Job:
    return Job(
        id=row["job_id"],
        role=Role(row["role"]),
        spec=spec_from_json(row["spec"]),
        depends_on=row["depends_on"],
        requests=row["requests"],
        planned=row["planned"],
        graded=row["graded"],
        identity=row["identity"],
        retired=row["retired"],
    )


_FIXED = (
    "job_id", "shard_id", "provider", "model", "attempt", "tag", "requests", "path", "sha256", "size_bytes",
    "parent_id", "cause",
)  # fmt: skip
"""Columns of what names a batch: no decision changes them."""
_PLAIN = (
    "input_ref", "provider_id", "provider_status", "results_ref", "errors_ref", "reason", "due_at", "submitting_at",
    "submitted_at", "read_at", "ended_at", "deadline_at", "late_since", "needs_person", "failures",
)  # fmt: skip
_ENUMS = ("state", "outcome", "error_class")
_FACTS = (*COUNTERS, *FLAGS)


def batch_from(row: RowMapping) -> Batch:
    return Batch(
        id=row["batch_id"],
        state=Lifecycle(row["state"]),
        outcome=BatchOutcome(row["outcome"]) if row["outcome"] else None,
        error_class=ErrorClass(row["error_class"]) if row["error_class"] else ErrorClass.NONE,
        max_cost=row["max_cost"],
        facts=Facts(**{name: row[name] for name in _FACTS}),
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


ZERO = Decimal(0)
