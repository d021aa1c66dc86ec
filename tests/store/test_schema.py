"""Schemas: the one in code is the one that is made, another one is refused, and nothing stops half way."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier, Event

import pytest
import sqlalchemy
from sqlalchemy import create_engine, event, inspect, select

from layton_batch.errors import StoreError
from layton_batch.store import schema
from layton_batch.store.engine import _sqlite_pragmas, open_engine, shown, sqlite_url
from layton_batch.store.run_store import RunStore
from tests.support.store_rows import RUN
from tests.support.tiers import tiered


def test_the_schema_in_code_is_the_one_that_is_made(url: str) -> None:
    engine = open_engine(url)
    found = inspect(engine)
    for table in schema.metadata.sorted_tables:
        made = {column["name"]: column["nullable"] for column in found.get_columns(table.name)}
        assert made == {column.name: bool(column.nullable) for column in table.columns}
        indexes = [one for one in found.get_indexes(table.name) if "duplicates_constraint" not in one]
        made_indexes = {(one["name"], *one["column_names"]) for one in indexes}
        assert made_indexes == {(one.name, *(column.name for column in one.columns)) for one in table.indexes}
    engine.dispose()


def test_processes_that_meet_at_an_empty_database_take_turns(url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        engines = list(pool.map(open_engine, [url] * 4))
    assert RunStore(engines[0], RUN).batches() == []
    for engine in engines:
        engine.dispose()


@pytest.mark.parametrize("rounds", tiered((15, 60), ci=(15,)))
def test_programs_that_make_one_store_at_the_same_moment_wait_for_each_other(tmp_path: Path, rounds: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        for number in range(rounds):
            url = sqlite_url(tmp_path / f"{number}.sqlite3")
            together = Barrier(4)

            def connect(url: str = url, together: Barrier = together) -> None:
                engine = create_engine(url)
                event.listen(engine, "connect", partial(_sqlite_pragmas, partial(Event().wait, 0.02)))
                together.wait()
                with engine.connect():
                    engine.dispose()

            for done in [pool.submit(connect) for _ in range(4)]:
                done.result()


def test_a_database_of_another_version_is_refused_and_left_as_it_is(url: str) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(schema.schema_version.update().values(version=7))
    expected = rf"has schema version 7.*knows version {schema.VERSION} only: use the layton-batch"
    with pytest.raises(StoreError, match=expected):
        open_engine(url)
    with engine.begin() as connection:
        assert connection.execute(select(schema.schema_version)).all() == [(7,)]
        schema.schema_version.drop(connection)
    with pytest.raises(StoreError, match=f"{re.escape(shown(engine.url))} has schema version 0"):
        open_engine(url)
    engine.dispose()


def test_a_schema_that_cannot_be_made_is_not_made_by_half(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:

        def broken(*_: object, **__: object) -> None:
            raise sqlalchemy.exc.OperationalError("CREATE INDEX", {}, Exception("disk is full"))

        patched.setattr(sqlalchemy.sql.ddl.SchemaGenerator, "visit_index", broken)
        with pytest.raises(StoreError, match="disk is full"):
            open_engine(url)
    engine = create_engine(url)
    assert inspect(engine).get_table_names() == []
    engine.dispose()
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
