"""Schemas: another one is refused, and nothing stops half way."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy
from sqlalchemy import create_engine, inspect, select

from layton_batch.errors import StoreError
from layton_batch.store import schema
from layton_batch.store.engine import open_engine, shown
from layton_batch.store.run_store import RunStore
from tests.support.store_rows import RUN


def test_processes_that_meet_at_an_empty_database_take_turns(url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        engines = list(pool.map(open_engine, [url] * 4))
    assert RunStore(engines[0], RUN).batches() == []
    for engine in engines:
        engine.dispose()


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
