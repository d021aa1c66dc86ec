"""The truth about one run's jobs and batches.

Every change of a batch's state is one UPDATE that names the old state and must hit exactly one row, in one transaction
with the event that tells of it, the money it moves and the rows it makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Engine, func, select, update

from layton_batch.errors import IllegalMoveError, StaleStateError, StoreError
from layton_batch.records import Batch, Event, Job, RowCount
from layton_batch.states import ErrorClass, Lifecycle, RequestOutcome, is_legal
from layton_batch.store import schema
from layton_batch.store.engine import READING
from layton_batch.store.rows import ZERO, batch_from, batch_values, job_from, spec_json


@dataclass(frozen=True, slots=True)
class RunRow:
    """What the store knows of a run as a whole."""

    run_id: str
    identity: str
    manifest: str
    created_at: float
    cancelled: bool
    stopped_reason: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the money ledger: reserved before a paid call, released and made actual when it is over."""

    batch_id: str
    kind: str
    usd: Decimal


@dataclass(slots=True)
class RunStore:
    """One run in an open store. Safe to use from several threads: each call is one transaction of its own."""

    engine: Engine
    run_id: str

    # ---- the run -----------------------------------------------------------------------------------------------

    def create(self, identity: str, manifest: str, version: str, at: float) -> None:
        """Enter the run, or, where it exists, take over the parts of its manifest that may change (budget …)."""
        known = self.row()
        with self.engine.begin() as connection:
            if known is None:
                values = {"identity": identity, "manifest": manifest, "version": version, "created_at": at}
                connection.execute(schema.runs.insert().values(run_id=self.run_id, cancelled=False, **values))
                self._event(connection, at, None, "run_created", f"identity {identity[:8]}")
            elif known.identity != identity:
                raise StoreError(
                    f"run {self.run_id}: the stored manifest asks for something else (identity {known.identity[:8]}, "
                    f"now {identity[:8]}); give the new manifest another name"
                )
            elif known.manifest != manifest:
                connection.execute(self._this_run().values(manifest=manifest))
                self._event(connection, at, None, "manifest_changed", "budget, gold, scoring, policy or prices")

    def row(self) -> RunRow | None:
        """The run, or None where the store has none of this id."""
        with self._reading() as connection:
            found = (
                connection.execute(select(schema.runs).where(schema.runs.c.run_id == self.run_id)).mappings().first()
            )
        if found is None:
            return None
        names = ("run_id", "identity", "manifest", "created_at", "cancelled", "stopped_reason")
        return RunRow(**{name: found[name] for name in names})

    def set_cancelled(self, at: float) -> None:
        """Nothing more is to be sent for this run."""
        with self.engine.begin() as connection:
            connection.execute(self._this_run().values(cancelled=True))
            self._event(connection, at, None, "run_cancelled", "a person asked for it")

    def set_stopped(self, reason: str | None, at: float) -> None:
        """Why the run cannot go on (None: it can). An event is written where this changes."""
        known = self.row()
        if known is None or known.stopped_reason == reason:
            return
        with self.engine.begin() as connection:
            connection.execute(self._this_run().values(stopped_reason=reason))
            self._event(connection, at, None, "run_stopped" if reason else "run_goes_on", reason or "")

    def _reading(self) -> Connection:
        return self.engine.connect().execution_options(**{READING: True})

    def _this_run(self) -> Any:
        return update(schema.runs).where(schema.runs.c.run_id == self.run_id)

    # ---- jobs --------------------------------------------------------------------------------------------------

    def add_jobs(self, jobs: Sequence[Job], at: float) -> None:
        """Enter all jobs at once; the order is the order in which they are shown."""
        rows = [
            {
                "run_id": self.run_id,
                "job_id": job.id,
                "seq": seq,
                "role": str(job.role),
                "provider": job.spec.provider,
                "spec": spec_json(job.spec),
                "depends_on": job.depends_on,
                "requests": job.requests,
                "planned": job.planned,
                "graded": job.graded,
            }
            for seq, job in enumerate(jobs)
        ]
        with self.engine.begin() as connection:
            connection.execute(schema.jobs.insert(), rows)
            self._event(connection, at, None, "jobs_planned", f"{len(jobs)} jobs")

    def jobs(self) -> list[Job]:
        """All jobs in order."""
        query = select(schema.jobs).where(schema.jobs.c.run_id == self.run_id).order_by(schema.jobs.c.seq)
        with self._reading() as connection:
            return [job_from(row) for row in connection.execute(query).mappings()]

    def plan_job(self, job: Job, batches: Sequence[Batch], at: float, counts: Sequence[RowCount] = ()) -> None:
        """The job's batch files are on disk: enter its batches (``counts``: of requests that are never sent)."""
        requests = sum(batch.requests for batch in batches)
        with self.engine.begin() as connection:
            changed = connection.execute(
                self._one_job(job.id).where(schema.jobs.c.planned.is_(False)).values(planned=True, requests=requests)
            )
            if changed.rowcount != 1:
                raise StaleStateError(f"job {job.id} of run {self.run_id} was planned by another process")
            self._insert_batches(connection, batches)
            self._insert_counts(connection, counts)
            self._event(connection, at, None, "job_planned", f"{job.id}: {requests} requests, {len(batches)} batches")

    def set_graded(self, job_id: str, at: float) -> None:
        """The job's responses were turned into predictions or verdicts."""
        with self.engine.begin() as connection:
            connection.execute(self._one_job(job_id).values(graded=True))
            self._event(connection, at, None, "job_graded", job_id)

    def _one_job(self, job_id: str) -> Any:
        return update(schema.jobs).where(schema.jobs.c.run_id == self.run_id, schema.jobs.c.job_id == job_id)

    # ---- batches -----------------------------------------------------------------------------------------------

    def batches(self, states: Collection[Lifecycle] | None = None) -> list[Batch]:
        """Batches in order of entry, of these states or all."""
        query = select(schema.batches).where(schema.batches.c.run_id == self.run_id).order_by(schema.batches.c.seq)
        if states is not None:
            query = query.where(schema.batches.c.state.in_([str(state) for state in states]))
        with self._reading() as connection:
            return [batch_from(row) for row in connection.execute(query).mappings()]

    def batch(self, batch_id: str) -> Batch:
        """One batch. Raises StoreError where there is none."""
        for batch in self.batches():
            if batch.id == batch_id:
                return batch
        raise StoreError(f"run {self.run_id} has no batch {batch_id!r}; `layton-batch status` lists them")

    def move(
        self,
        batch: Batch,
        new: Lifecycle,
        at: float,
        *,
        event: str,
        detail: str = "",
        money: Iterable[Entry] = (),
        counts: Sequence[RowCount] = (),
        children: Sequence[Batch] = (),
        **changes: object,
    ) -> None:
        """``batch.state → new`` with everything that belongs to it, in one transaction.

        Raises IllegalMoveError (not in the table of moves), StaleStateError (another process moved it first).
        """
        if not is_legal(batch.state, new):
            raise IllegalMoveError(f"batch {batch.id}: {batch.state} → {new} is not a legal move")
        with self.engine.begin() as connection:
            self._change(connection, batch, {"state": str(new), **changes})
            self._enter_money(connection, money, at)
            self._insert_counts(connection, counts)
            self._insert_batches(connection, children)
            self._event(connection, at, batch.id, event, detail)

    def note(self, batch: Batch, at: float, *, event: str | None = None, detail: str = "", **changes: object) -> None:
        """Change a batch's columns while its state stays. Raises StaleStateError where the state is another by now."""
        with self.engine.begin() as connection:
            self._change(connection, batch, changes)
            if event:
                self._event(connection, at, batch.id, event, detail)

    def _change(self, connection: Connection, batch: Batch, changes: Mapping[str, object]) -> None:
        table = schema.batches
        values = {
            name: str(value) if name in _ENUMS and value is not None else value for name, value in changes.items()
        }
        result = connection.execute(
            update(table)
            .where(table.c.run_id == self.run_id, table.c.batch_id == batch.id, table.c.state == str(batch.state))
            .values(**values)
        )
        if result.rowcount != 1:
            raise StaleStateError(f"batch {batch.id} is no longer {batch.state}: another process moved it")

    def _insert_batches(self, connection: Connection, batches: Sequence[Batch]) -> None:
        if not batches:
            return
        table = schema.batches
        query = select(func.coalesce(func.max(table.c.seq), -1)).where(table.c.run_id == self.run_id)
        first = int(connection.execute(query).scalar_one()) + 1
        rows = [{"run_id": self.run_id, "seq": first + n, **batch_values(batch)} for n, batch in enumerate(batches)]
        connection.execute(table.insert(), rows)

    # ---- outcomes, money, events -------------------------------------------------------------------------------

    def _insert_counts(self, connection: Connection, counts: Sequence[RowCount]) -> None:
        rows = [
            {
                "run_id": self.run_id,
                "batch_id": row.batch_id,
                "outcome": str(row.outcome),
                "error_class": str(row.error_class),
                "count": row.count,
                "resubmitted": row.resubmitted,
            }
            for row in counts
        ]
        if rows:
            connection.execute(schema.row_counts.insert(), rows)

    def row_counts(self) -> list[RowCount]:
        """How the requests of every collected batch ended."""
        query = select(schema.row_counts).where(schema.row_counts.c.run_id == self.run_id)
        with self._reading() as connection:
            return [
                RowCount(
                    batch_id=row["batch_id"],
                    outcome=RequestOutcome(row["outcome"]),
                    error_class=ErrorClass(row["error_class"]),
                    count=row["count"],
                    resubmitted=row["resubmitted"],
                )
                for row in connection.execute(query).mappings()
            ]

    def _enter_money(self, connection: Connection, money: Iterable[Entry], at: float) -> None:
        for entry in money:
            values = {"run_id": self.run_id, "batch_id": entry.batch_id, "kind": entry.kind, "usd": entry.usd, "at": at}
            connection.execute(schema.ledger.insert().values(**values))

    def money(self) -> tuple[Decimal, Decimal]:
        """(spent, reserved) in USD: what collected batches cost, and what open ones may cost at most."""
        query = select(schema.ledger.c.kind, schema.ledger.c.usd).where(schema.ledger.c.run_id == self.run_id)
        sums = {"actual": ZERO, "reserved": ZERO, "released": ZERO}
        with self._reading() as connection:
            for kind, usd in connection.execute(query):
                sums[kind] += usd
        return sums["actual"], sums["reserved"] - sums["released"]

    def add_event(self, at: float, batch_id: str | None, kind: str, detail: str) -> None:
        """Write down something that moved no state."""
        with self.engine.begin() as connection:
            self._event(connection, at, batch_id, kind, detail)

    def _event(self, connection: Connection, at: float, batch_id: str | None, kind: str, detail: str) -> None:
        values = {"run_id": self.run_id, "at": at, "batch_id": batch_id, "kind": kind, "detail": detail[:2000]}
        connection.execute(schema.events.insert().values(**values))

    def events(self, after: int = 0) -> list[Event]:
        """What happened, in order, after event number ``after``."""
        table = schema.events
        query = select(table).where(table.c.run_id == self.run_id, table.c.seq > after).order_by(table.c.seq)
        with self._reading() as connection:
            rows = connection.execute(query).mappings()
            return [Event(row["seq"], row["at"], row["batch_id"], row["kind"], row["detail"]) for row in rows]


_ENUMS = frozenset({"state", "outcome", "error_class"})
