"""Schemas: an older one is brought up with its rows, a newer one is refused, and nothing stops half way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, inspect, text

from layton_batch import store as package
from layton_batch.errors import StoreError
from layton_batch.records import Facts
from layton_batch.states import Lifecycle
from layton_batch.store import schema
from layton_batch.store.engine import HEAD, open_engine
from layton_batch.store.run_store import RunStore
from tests.store.rows import NOW, RUN, moved

MIGRATIONS = Path(package.__file__).parent / "migrations"


def config() -> Config:
    found = Config()
    found.set_main_option("script_location", str(MIGRATIONS))
    return found


def at_revision(url: str, revision: str) -> Engine:
    """A database as an older version of the program left it."""
    engine = create_engine(url)
    with engine.begin() as connection:
        upgrading = config()
        upgrading.attributes["connection"] = connection
        command.upgrade(upgrading, revision)
    return engine


def insert_old_rows(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("INSERT INTO runs VALUES (:run, :hash, '{}', '0', :now, :no, NULL)"),
            {"run": RUN, "hash": "0" * 64, "now": NOW, "no": False},
        )
        columns = "run_id, batch_id, seq, job_id, shard_id, attempt, provider, model, state, tag, requests, path, "
        columns += "sha256, size_bytes, max_cost, provider_id, due_at, failures"
        values = ":run, :id, :seq, 'j', 's', 1, 'openai', 'm', :state, 't', 3, 'p', 'h', 9, '0.10', :there, :now, 0"
        for seq, (state, there) in enumerate([("planned", None), ("submitting", None), ("in_flight", "batch_1")]):
            row = {"run": RUN, "id": f"b{seq}", "seq": seq, "state": state, "there": there, "now": NOW}
            connection.execute(text(f"INSERT INTO batches ({columns}) VALUES ({values})"), row)


def test_the_schema_in_code_is_the_one_that_the_migrations_make(url: str) -> None:
    assert ScriptDirectory.from_config(config()).get_current_head() == HEAD
    engine = open_engine(url)
    found = inspect(engine)
    for table in schema.metadata.sorted_tables:
        made = {column["name"]: column["nullable"] for column in found.get_columns(table.name)}
        assert made == {column.name: bool(column.nullable) for column in table.columns}
    engine.dispose()


def test_an_older_schema_is_brought_up_with_its_rows_in_nobodys_hands(url: str) -> None:
    old = at_revision(url, "0001")
    insert_old_rows(old)
    old.dispose()
    engine = open_engine(url)
    store = RunStore(engine, RUN)
    assert [(one.id, str(one.state), one.provider_id) for one in store.batches()] == [
        ("b0", "planned", None),
        ("b1", "submitting", None),
        ("b2", "in_flight", "batch_1"),
    ]
    claimed = store.claim(NOW, states=[Lifecycle.PLANNED, Lifecycle.SUBMITTING, Lifecycle.IN_FLIGHT])
    assert len(claimed) == 3
    store.apply(claimed[2], moved(claimed[2], Lifecycle.ENDED, "ended"), NOW)
    engine.dispose()


def test_what_events_told_of_a_run_is_in_its_columns_when_an_older_schema_is_brought_up(url: str) -> None:
    old = at_revision(url, "0003")
    insert_old_rows(old)
    told = [
        ("b0", "not_looked_for"), ("b0", "resubmit"), ("b0", "not_looked_for"), ("b0", "refused_403"),
        ("b1", "looking"), ("b1", "submitting"), ("b1", "looking"), ("b1", "looking"), ("b1", "unsure"),
        ("b1", "not_in_list"), ("b2", "submitted"), ("b2", "ended"), ("b2", "download_short"),
        ("b2", "results_expiring"), ("b2", "cancel_failed"), (None, "prices_changed"), (None, "repriced"),
    ]  # fmt: skip
    with old.begin() as connection:
        for batch_id, kind in told:
            row = {"run": RUN, "now": NOW, "id": batch_id, "kind": kind, "detail": "batch_1"}
            values = "(run_id, at, batch_id, kind, detail) VALUES (:run, :now, :id, :kind, :detail)"
            connection.execute(text(f"INSERT INTO events {values}"), row)
    old.dispose()
    engine = open_engine(url)
    store = RunStore(engine, RUN)
    assert [one.facts for one in store.batches()] == [
        Facts(unread_lists=1, forbidden=1, resent=1),
        Facts(absent_looks=2, unsure_looks=1, absent_creates=1),
        Facts(short_downloads=1, stop_refused=True, retention_told=True),
    ]
    assert store.provider_ids() == {"batch_1"}
    assert store.price_changes() == (False, True)
    engine.dispose()


def test_two_processes_that_meet_at_an_old_schema_take_turns(url: str) -> None:
    old = at_revision(url, "0001")
    insert_old_rows(old)
    old.dispose()
    with ThreadPoolExecutor(4) as pool:
        engines = list(pool.map(open_engine, [url] * 4))
    assert len(RunStore(engines[0], RUN).batches()) == 3
    for engine in engines:
        engine.dispose()


def test_a_newer_schema_is_refused_and_left_as_it_is(url: str) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match=r"schema 9999.*newer version wrote it; upgrade layton-batch"):
        open_engine(url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "9999"
    engine.dispose()


def test_a_migration_that_fails_leaves_the_old_schema(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = at_revision(url, "0001")
    insert_old_rows(old)
    with monkeypatch.context() as patched:

        def broken(*_: object, **__: object) -> None:
            raise sqlalchemy.exc.OperationalError("CREATE TABLE leases", {}, Exception("disk is full"))

        patched.setattr("alembic.operations.base.Operations.create_table", broken)
        with pytest.raises(StoreError, match="disk is full"):
            open_engine(url)
    columns = {column["name"] for column in inspect(old).get_columns("batches")}
    assert "fence" not in columns
    old.dispose()
    open_engine(url).dispose()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql+psycopg://me:hunter22@127.0.0.1:1/x", "cannot be opened"),
        ("no url at all hunter22", "is no database URL"),
        ("nothing://me:hunter22@there/x", "cannot be opened"),
    ],
)
def test_a_database_out_of_reach_is_a_sentence_without_its_password(url: str, said: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_engine(url)
    assert said in str(caught.value)
    assert "hunter22" not in str(caught.value)
    assert "\n" not in str(caught.value)
