"""The schema, column by column: later edits of ``schema.py`` must not change what this revision makes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _runs()
    _jobs()
    _requests()
    _batches()
    _files()
    _provider_batches()
    _orders()
    _ledger()
    _events()
    if op.get_bind().dialect.name == "sqlite":
        _copies()


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(128), primary_key=True),
        sa.Column("identity", sa.String(64), nullable=False),
        sa.Column("manifest", sa.Text, nullable=False),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("cancelled", sa.Boolean, nullable=False),
        sa.Column("stopped_reason", sa.Text),
        *(sa.Column(name, sa.String(64)) for name in ("asked", "applied", "items", "host")),
        sa.Column("folder", sa.Text),
        sa.Column("prices", sa.String(8)),
        sa.Column("driver", sa.String(256)),
        sa.Column("driver_host", sa.String(64)),
        sa.Column("driver_since", sa.Float),
        sa.Column("driver_until", sa.Float),
        sa.Column("driver_token", sa.Integer, nullable=False),
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(128), nullable=False),
        sa.Column("job_id", sa.String(256), nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("provider", sa.String(64), nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("depends_on", sa.String(256)),
        sa.Column("planned", sa.Boolean, nullable=False),
        sa.Column("graded", sa.Boolean, nullable=False),
        sa.Column("identity", sa.String(64), nullable=False),
        sa.Column("retired", sa.Boolean, nullable=False),
        sa.Column("news", sa.Integer, nullable=False),
        sa.Column("graded_news", sa.Integer, nullable=False),
        sa.UniqueConstraint("run_id", "job_id", name="one_job"),
    )


def _requests() -> None:
    """Make the tables of what jobs want, what is bought, and in which batches it was asked for."""
    op.create_table(
        "requests",
        sa.Column("job", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("custom_id", sa.String(64), primary_key=True),
        sa.Column("item_id", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(32)),
        sa.Column("answer", sa.LargeBinary(32), nullable=False),
        sa.Column("reask", sa.Integer, nullable=False),
        sa.Column("doublings", sa.Integer, nullable=False),
        sa.Column("retired", sa.Boolean, nullable=False),
    )
    op.create_index("requests_by_answer", "requests", ["answer"])
    op.create_table(
        "answers",
        sa.Column("fingerprint", sa.LargeBinary(32), primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("batch", sa.Integer),
    )
    wanted = sa.text("state = 'wanted'")
    op.create_index("wanted_answers", "answers", ["state"], sqlite_where=wanted, postgresql_where=wanted)
    op.create_table(
        "attempts",
        sa.Column("batch", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("fingerprint", sa.LargeBinary(32), primary_key=True),
        sa.Column("line", sa.Integer, nullable=False),
        sa.Column("custom_id", sa.String(64), nullable=False),
        sa.Column("max_cost", sa.String(40)),
        sa.Column("is_open", sa.Boolean, nullable=False),
        sa.Column("outcome", sa.String(16)),
        sa.Column("error_class", sa.String(32)),
        *(sa.Column(name, sa.Integer) for name in ("input_tokens", "cached_input_tokens", "output_tokens")),
        *(sa.Column(name, sa.Integer) for name in ("reasoning_tokens", "cache_write_tokens")),
        *(sa.Column(name, sa.String(40)) for name in ("cost_usd", "unbatched_usd")),
        sa.Column("price_source", sa.Text()),
        sa.Column("price_date", sa.String(10)),
        sa.Column("unknown_cost", sa.String(32)),
    )
    unknown = sa.text("unknown_cost IS NOT NULL")
    op.create_index("unknown_costs", "attempts", ["batch"], sqlite_where=unknown, postgresql_where=unknown)
    is_open = sa.text("is_open")
    op.create_index(
        "one_open_attempt", "attempts", ["fingerprint"], unique=True, sqlite_where=is_open, postgresql_where=is_open
    )


def _batches() -> None:
    op.create_table(
        "batches",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(128), nullable=False),
        sa.Column("batch_id", sa.String(256), nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("job_id", sa.String(256), nullable=False),
        sa.Column("shard_id", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("provider", sa.String(64), nullable=False),
        sa.Column("model", sa.String(256), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("outcome", sa.String(16)),
        sa.Column("tag", sa.String(128), nullable=False),
        sa.Column("requests", sa.Integer, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("max_cost", sa.String(40)),
        sa.Column("input_ref", sa.Text),
        *(sa.Column(name, sa.String(32)) for name in ("account", "organisation")),
        *(sa.Column(name, sa.Text) for name in ("provider_id", "provider_status")),
        *(sa.Column(name, sa.Text) for name in ("results_ref", "errors_ref")),
        sa.Column("error_class", sa.String(32)),
        sa.Column("reason", sa.Text),
        sa.Column("parent_id", sa.String(256)),
        sa.Column("cause", sa.Text),
        sa.Column("reask", sa.Integer, nullable=False),
        sa.Column("due_at", sa.Float, nullable=False),
        *(sa.Column(name, sa.Float) for name in ("submitting_at", "submitted_at", "read_at", "ended_at")),
        sa.Column("deadline_at", sa.Float),
        sa.Column("needs_person", sa.Boolean, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("failed_status", sa.Integer),
        sa.Column("stated_usd", sa.String(40)),
        sa.Column("stated_input_tokens", sa.BigInteger),
        sa.Column("stated_output_tokens", sa.BigInteger),
        *(sa.Column(name, sa.Integer, nullable=False) for name in _COUNTERS),
        *(sa.Column(name, sa.Boolean, nullable=False) for name in _FLAGS),
        sa.UniqueConstraint("run_id", "batch_id", name="one_batch"),
    )
    op.create_index("batches_by_state", "batches", ["run_id", "state"])
    op.create_index("batches_by_job", "batches", ["run_id", "job_id"])


_COUNTERS = (
    "absent_looks", "unsure_looks", "failed_calls", "not_found", "short_downloads", "absent_creates", "resent",
)  # fmt: skip


_FLAGS = ("stopped_elsewhere", "stop_refused", "other_account_told", "expiry_warned")


def _files() -> None:
    op.create_table(
        "files",
        sa.Column("run_id", sa.String(128), primary_key=True),
        sa.Column("name", sa.String(512), primary_key=True),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("earlier_sha256", sa.String(195)),
    )


def _provider_batches() -> None:
    op.create_table(
        "provider_batches",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(128), nullable=False, index=True),
        sa.Column("batch_id", sa.String(256), nullable=False),
        sa.Column("provider_id", sa.Text, nullable=False),
    )


def _orders() -> None:
    op.create_table(
        "orders",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("batch_id", sa.String(256)),
        sa.Column("argument", sa.Text),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_index("ix_orders_run_id", "orders", ["run_id"])


def _ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(128), nullable=False),
        sa.Column("batch_id", sa.String(256), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("usd", sa.String(40), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_index("ix_ledger_run_id", "ledger", ["run_id"])


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(128), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("batch_id", sa.String(256)),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("ix_events_run_id", "events", ["run_id"])


def _copies() -> None:
    """Make an index of all columns of each table: SQLite compares rows with it."""
    made = sa.inspect(op.get_bind())
    for table in (
        "runs", "jobs", "requests", "answers", "attempts", "batches", "files", "provider_batches", "orders", "ledger",
        "events",
    ):  # fmt: skip
        op.create_index(f"copy_of_{table}", table, [column["name"] for column in made.get_columns(table)])
