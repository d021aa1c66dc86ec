"""The tables behind a run: what we intended, what the provider has, what it cost, what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any, get_args, get_type_hints

import orjson
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

from layton_batch.records import Batch, ModelSpec, Reasoning, RequestCost
from layton_batch.states import AnswerState, ErrorClass, RequestOutcome, Role

metadata = MetaData()
VERSION = 5
"""Version of these tables. It changes with them: a database of another version is refused."""


class UsdColumn(TypeDecorator[Decimal]):
    """US dollars as exact text: SQLite has no decimal type, and a float would lose cents."""

    impl = String(40)
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> str | None:
        return None if value is None else format(value, "f")

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(value)


class StateColumn(TypeDecorator[StrEnum]):
    """A state, an outcome, or another value of an enumeration, as text."""

    impl = String(32)
    cache_ok = True

    def __init__(self, states: Callable[[str], StrEnum]) -> None:
        super().__init__()
        self.states = states

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> StrEnum | None:
        return None if value is None else self.states(value)


class SpecColumn(TypeDecorator[ModelSpec]):
    """A model as canonical JSON, with what differs from one job to another: how it is asked, not how fast."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: ModelSpec | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        content = {
            "name": value.name,
            "provider": value.provider,
            "model": value.model,
            "family": value.family,
            "max_output_tokens": value.max_output_tokens,
            "reasoning": {"effort": value.reasoning.effort, "budget_tokens": value.reasoning.budget_tokens},
            "params": dict(value.params),
        }
        if value.sample != 1:
            content["sample"] = value.sample
        if value.hints is not None:
            content["hints"] = value.hints
        return orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> ModelSpec | None:
        return None if value is None else _spec(value)


@lru_cache(1024)
def _spec(text: str) -> ModelSpec:
    content = orjson.loads(text)
    reasoning = Reasoning(**content.pop("reasoning"))
    return ModelSpec(**content, reasoning=reasoning)


_TYPES: dict[type, Any] = {
    str: Text, bool: Boolean, int: BigInteger, float: Float, Decimal: UsdColumn,
}  # fmt: skip


def _columns(record: type, *, without: tuple[str, ...]) -> Iterator[Column[Any]]:
    """Yield a column for each field of a record, ``without`` some. A field is null where its type takes None."""
    hints = get_type_hints(record)
    for field in fields(record):
        if field.name in without:
            continue
        kinds = get_args(hints[field.name]) or (hints[field.name],)
        kind = kinds[0]
        column_type = StateColumn(kind) if issubclass(kind, StrEnum) else _TYPES[kind]
        yield Column(field.name, column_type, nullable=type(None) in kinds)


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
    Column("role", StateColumn(Role), nullable=False),
    Column("provider", String(64), nullable=False),
    Column("spec", SpecColumn, nullable=False),
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
    Column("state", StateColumn(AnswerState), nullable=False),
    Column("batch", Integer),  # the one that has it, asks for it, or asked last for it or for the answer before it
    Index("wanted_answers", "state", sqlite_where=text("state = 'wanted'"), postgresql_where=text("state = 'wanted'")),
    sqlite_with_rowid=False,  # else each row is stored, and its key once more beside it
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
    Column("outcome", StateColumn(RequestOutcome)),
    Column("error_class", StateColumn(ErrorClass)),
    Column("is_cut", Boolean, nullable=False, default=False),  # the answer ended at its output limit
    *_columns(RequestCost, without=("custom_id",)),
    Index(
        "one_open_attempt", "fingerprint", unique=True, sqlite_where=text("is_open"), postgresql_where=text("is_open")
    ),
    sqlite_with_rowid=False,
)

batches = Table(
    "batches",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=True),  # what rows of attempts name the batch by
    Column("run_id", String(128), nullable=False),
    Column("batch_id", String(256), nullable=False),
    Column("seq", Integer, nullable=False),
    *_columns(Batch, without=("id", "content")),
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
