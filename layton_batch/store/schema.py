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
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

from layton_batch.store.rows import COUNTERS, FLAGS

metadata = MetaData()
VERSION = 3
"""Version of these tables. It changes with them: a database of another version is refused."""


class UsdColumn(TypeDecorator[Decimal]):
    """US dollars as exact text: SQLite has no decimal type, and a float would lose cents."""

    impl = String(40)
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> str | None:
        return None if value is None else format(value, "f")

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(value)


schema_version = Table("schema_version", metadata, Column("version", Integer, nullable=False))

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
    Column("revision", String(64)),  # digest of what the latest revision asks
    Column("applied", String(64)),  # the one that the jobs were made from
    Column("agreed", Boolean, nullable=False, default=True),  # what is planned may be sent
    Column("was_agreed", Boolean, nullable=False, default=False),  # a person, or a budget, agreed to a revision of it
    Column("items", String(64)),  # digest of the items that the jobs were planned with
    Column("prices", String(8)),  # of the manifest: changed | applied (to what is not sent yet) | NULL: as they were
)

jobs = Table(
    "jobs",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=True),  # what rows of requests name the job by
    Column("run_id", String(128), nullable=False),
    Column("job_id", String(256), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("provider", String(64), nullable=False),
    Column("spec", Text, nullable=False),
    Column("depends_on", String(256)),
    Column("planned", Boolean, nullable=False, default=False),
    Column("graded", Boolean, nullable=False, default=False),
    Column("identity", String(64), nullable=False, default=""),
    Column("retired", Boolean, nullable=False, default=False),
    Column("news", Integer, nullable=False, default=0),  # grows with each batch entered or collected for its requests
    Column("graded_news", Integer, nullable=False, default=0),  # what it was when the job was graded last
    UniqueConstraint("run_id", "job_id", name="one_job"),
)

requests = Table(
    "requests",  # what a job wants of its model
    metadata,
    Column("job", Integer, primary_key=True, autoincrement=False),
    Column("custom_id", String(64), primary_key=True),
    Column("item_id", Text, nullable=False),
    Column("fingerprint", LargeBinary(32)),  # of what it asks; NULL: its answer came from a file
    Column("answer", LargeBinary(32), nullable=False),  # the one that it wants: the first, or a later one to the same
    Column("without_limit", LargeBinary(32)),  # of what it asks without its output limit
    Column("room", Integer),  # its output limit in tokens; NULL: the provider's
    Column("reask", Integer, nullable=False, default=0),  # how often it was answered, and asked again all the same
    Column("doublings", Integer, nullable=False, default=0),  # of the room for its answer
    Column("retired", Boolean, nullable=False, default=False),  # the manifest does not ask for it any more
    Index("requests_by_answer", "answer"),
)

answers = Table(
    "answers",  # what is bought, once in the whole database
    metadata,
    Column("fingerprint", LargeBinary(32), primary_key=True),
    Column("state", String(16), nullable=False),  # see states.AnswerState
    Column("batch", Integer),  # the one that has it, asks for it, or asked last for it or for the answer before it
    Index("wanted_answers", "state", sqlite_where=text("state = 'wanted'"), postgresql_where=text("state = 'wanted'")),
)

attempts = Table(
    "attempts",  # an answer that a batch asks for
    metadata,
    Column("batch", Integer, primary_key=True, autoincrement=False),
    Column("fingerprint", LargeBinary(32), primary_key=True),
    Column("line", Integer, nullable=False),  # of the batch file, from 0
    Column("custom_id", String(64), nullable=False),
    Column("max_cost", UsdColumn),  # upper bound in USD; NULL: not known
    Column("is_open", Boolean, nullable=False, default=False),  # it may be billed, and has not come to its end
    Column("outcome", String(16)),
    Column("error_class", String(32)),
    Column("input_tokens", Integer),  # of an answer, and what it cost
    Column("cached_input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("cache_write_tokens", Integer),
    Column("hour_write_tokens", Integer),
    Column("cost_usd", UsdColumn),
    Column("unbatched_usd", UsdColumn),
    Column("price_source", Text),
    Column("price_date", String(10)),
    Column("is_cut", Boolean, nullable=False, default=False),  # the answer ended at its output limit
    Column("unknown_cost", String(32)),  # why nobody can tell what it cost; NULL: known, or nothing was billed
    Index(
        "one_open_attempt", "fingerprint", unique=True, sqlite_where=text("is_open"), postgresql_where=text("is_open")
    ),
)

batches = Table(
    "batches",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=True),  # what rows of attempts name the batch by
    Column("run_id", String(128), nullable=False),
    Column("batch_id", String(256), nullable=False),
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
    Column("max_cost", UsdColumn),
    Column("expected_usd", UsdColumn),
    Column("spent_usd", UsdColumn, nullable=False, default=Decimal(0)),
    Column("unknown_usd", UsdColumn, nullable=False, default=Decimal(0)),
    Column("creates_usd", UsdColumn, nullable=False, default=Decimal(0)),
    Column("input_ref", Text),
    Column("account", String(32)),  # digest of the key and address that the create was intended for; never the key
    Column("organisation", String(32)),  # digest of the one that replies named then
    Column("provider_id", Text),
    Column("provider_status", Text),
    Column("results_ref", Text),
    Column("errors_ref", Text),
    Column("error_class", String(32)),
    Column("reason", Text),
    Column("parent_id", String(256)),
    Column("cause", Text),
    Column("reask", Integer, nullable=False, default=0),
    Column("due_at", Float, nullable=False, default=0.0),
    Column("submitting_at", Float),
    Column("unclear_since", Float),  # when the first of its last creates was not answered clearly
    Column("listed_at", Float),  # when a list was last searched for its given-up creates
    Column("submitted_at", Float),
    Column("read_at", Float),
    Column("ended_at", Float),
    Column("deadline_at", Float),
    Column("needs_person", Boolean, nullable=False, default=False),  # what its reason names is to be mended
    Column("failures", Integer, nullable=False, default=0),
    Column("failed_status", Integer),
    Column("stated_usd", UsdColumn),  # by the provider's books
    Column("stated_input_tokens", BigInteger),
    Column("stated_output_tokens", BigInteger),
    *(Column(name, Integer, nullable=False, default=0) for name in COUNTERS),
    *(Column(name, Boolean, nullable=False, default=False) for name in FLAGS),
    UniqueConstraint("run_id", "batch_id", name="one_batch"),
    Index("batches_by_state", "run_id", "state"),
    Index("batches_by_job", "run_id", "job_id"),
)

files = Table(
    "files",  # of a run: raw results, answers, items, copies of inputs, snapshots of boards
    metadata,
    Column("run_id", String(128), primary_key=True),
    Column("name", String(512), primary_key=True),  # its path in the workspace
    Column("size_bytes", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
)

provider_batches = Table(
    "provider_batches",  # every one that was ever known to be the run's, also where a person said otherwise since
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(128), nullable=False, index=True),
    Column("batch_id", String(256), nullable=False),
    Column("provider_id", Text, nullable=False),
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
