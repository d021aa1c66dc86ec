"""Between database rows and records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from itertools import islice
from typing import Any, Protocol, TypeVar

from sqlalchemy import BindParameter, bindparam

from layton_batch.records import Batch, Event, Job
from layton_batch.states import JobState, Lifecycle
from layton_batch.store import schema

ZERO = Decimal(0)
RUN: BindParameter[str] = bindparam("run")
"""The run that a query is about."""
IN_CHUNK: BindParameter[Any] = bindparam("chunk", expanding=True)
"""Names or fingerprints that a query is about, at most ``CHUNK``."""
CHUNK = 500
"""The number of values that one SQL statement names: SQLite takes 999 in its older versions."""

Value = TypeVar("Value")


def chunks(values: Sequence[Value]) -> Iterator[list[Value]]:
    rest = iter(values)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


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
    prices: str | None = None
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


def job_columns(state: JobState) -> dict[str, bool]:
    """Return the columns of a job in this state."""
    return {"planned": state is not JobState.NEW, "graded": state is JobState.GRADED}


def job_from(row: Row) -> Job:
    return Job(
        id=row["job_id"],
        role=row["role"],
        spec=row["spec"],
        depends_on=row["depends_on"],
        planned=row["planned"],
        graded=row["graded"],
        identity=row["identity"],
        retired=row["retired"],
        news=row["news"],
        is_stale=row["graded"] and row["news"] != row["graded_news"],
    )


# ---- batches -------------------------------------------------------------------------------------------------------

_KEPT = [field.name for field in fields(Batch) if field.name in schema.batches.c]
"""Fields of a batch that are columns of the same name: all but its id and content."""


def batch_from(row: Row) -> Batch:
    return Batch(id=row["batch_id"], **{name: row[name] for name in _KEPT})


def batch_values(batch: Batch) -> dict[str, Any]:
    """Column values of a batch about to be inserted."""
    return {"batch_id": batch.id} | {name: getattr(batch, name) for name in _KEPT}


def changed(before: Batch, after: Batch) -> dict[str, Any]:
    """Column values in which the batch after a decision differs from the one before."""
    return {name: getattr(after, name) for name in _KEPT if getattr(after, name) != getattr(before, name)}
