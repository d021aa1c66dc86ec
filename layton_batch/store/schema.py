"""The tables behind a run: what we intended, what the provider has, what it cost, what happened."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

from layton_batch.store.rows import COUNTERS, FLAGS

metadata = MetaData()


class Money(TypeDecorator[Decimal]):
    """US dollars as exact text: SQLite has no decimal type, and a float would lose cents."""

    impl = String(40)
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> str | None:
        return None if value is None else format(value, "f")

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(value)


runs = Table(
    "runs",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("identity", String(64), nullable=False),
    Column("manifest", Text, nullable=False),
    Column("version", String(32), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("cancelled", Boolean, nullable=False, default=False),
    Column("stopped_reason", Text),  # over budget, needs a person: what the last tick stopped at
    Column("asked", String(64)),  # digest of what the latest revision asks
    Column("applied", String(64)),  # the one that the jobs were made from
    Column("items", String(64)),  # digest of the items that the jobs were planned with
    Column(
        "host", String(64)
    ),  # where the run was opened last, and its folder there: other runs look for answers in it
    Column("folder", Text),
    Column("prices", String(8)),  # of the manifest: changed | applied (to what is not sent yet) | NULL: as they were
    # the driver lease: which process moves the run, until when, and a number that grows with each change (driver.py)
    Column("driver", String(256)),
    Column("driver_host", String(64)),
    Column("driver_since", Float),
    Column("driver_until", Float),
    Column("driver_token", Integer, nullable=False, default=0),
)

jobs = Table(
    "jobs",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("job_id", String(256), primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("provider", String(64), nullable=False),
    Column("spec", Text, nullable=False),
    Column("depends_on", String(256)),
    Column("requests", Integer, nullable=False, default=0),
    Column("planned", Boolean, nullable=False, default=False),
    Column("graded", Boolean, nullable=False, default=False),
    Column("identity", String(64), nullable=False, default=""),
    Column("retired", Boolean, nullable=False, default=False),
    Column("retired_ends", Text),  # JSON: how the requests ended that the manifest does not ask for any more
)

batches = Table(
    "batches",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("batch_id", String(256), primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("job_id", String(256), nullable=False),
    Column("shard_id", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("provider", String(64), nullable=False),
    Column("model", String(256), nullable=False),
    Column("state", String(16), nullable=False),
    Column("outcome", String(16)),
    Column("tag", String(128), nullable=False),
    Column("requests", Integer, nullable=False),
    Column("path", Text, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("max_cost", Money),
    Column("input_ref", Text),
    Column("provider_id", Text),
    Column("provider_status", Text),
    Column("results_ref", Text),
    Column("errors_ref", Text),
    Column("error_class", String(32)),
    Column("reason", Text),
    Column("parent_id", String(256)),
    Column("cause", Text),
    Column("due_at", Float, nullable=False, default=0.0),
    Column("submitting_at", Float),
    Column("submitted_at", Float),
    Column("read_at", Float),
    Column("ended_at", Float),
    Column("deadline_at", Float),
    Column("needs_person", Boolean, nullable=False, default=False),  # of a planned batch
    Column("failures", Integer, nullable=False, default=0),
    Column("failed_status", Integer),
    *(Column(name, Integer, nullable=False, default=0) for name in COUNTERS),
    *(Column(name, Boolean, nullable=False, default=False) for name in FLAGS),
    Index("batches_by_state", "run_id", "state"),
    Index("batches_by_job", "run_id", "job_id"),
)

provider_batches = Table(
    "provider_batches",  # every one that was ever known to be the run's, also where a person said otherwise since
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(128), nullable=False, index=True),
    Column("batch_id", String(256), nullable=False),
    Column("provider_id", Text, nullable=False),
)

orders = Table(
    "orders",  # of a person, given while a process drives the run: the driver carries them out and deletes them
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(128), nullable=False, index=True),
    Column("kind", String(16), nullable=False),  # retry | adopt | resubmit
    Column("batch_id", String(256)),
    Column("argument", Text),
    Column("at", Float, nullable=False),
)

row_counts = Table(
    "row_counts",
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("batch_id", String(256), primary_key=True),
    Column("outcome", String(16), primary_key=True),
    Column("error_class", String(32), primary_key=True),
    Column("count", Integer, nullable=False),
    Column("resubmitted", Integer, nullable=False, default=0),
)

ledger = Table(
    "ledger",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(128), nullable=False, index=True),
    Column("batch_id", String(256), nullable=False),
    Column("kind", String(16), nullable=False),  # reserved | released | actual | untold
    Column("usd", Money, nullable=False),
    Column("at", Float, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(128), nullable=False, index=True),
    Column("at", Float, nullable=False),
    Column("batch_id", String(256)),
    Column("kind", String(64), nullable=False),
    Column("detail", Text, nullable=False),
)
