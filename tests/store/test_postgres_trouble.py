"""What passes by itself or by a server's mending is 74; what the URL says wrong is 2."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, func, select, text

from layton_batch.errors import StorageError, StoreError
from layton_batch.store.engine import open_engine
from layton_batch.store.run_store import RunStore
from tests.support.store_rows import NOW, opened


def test_a_server_that_became_read_only_is_74_for_what_writes(postgres_url: str) -> None:
    with opened(postgres_url) as store:
        failed_over = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
        with failed_over.connect() as connection:
            name = connection.execute(text("SELECT current_database()")).scalar()
            connection.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
        failed_over.dispose()
        store.engine.dispose()  # the connection was cut, and the next one is to the standby
        with pytest.raises(StorageError, match=r"read-only transaction.*: it is a standby") as told:
            store.add_event(NOW, None, "never", "")
    assert told.value.exit_code == 74


def test_a_connection_that_breaks_in_a_transaction_is_74_and_the_next_has_another(postgres_url: str) -> None:
    def break_within(store: RunStore) -> None:
        with store.writing() as writing:
            process = writing.connection.scalar(select(func.pg_backend_pid()))
            with other.connect() as connection:
                connection.execute(select(func.pg_terminate_backend(process)))
            writing.event(NOW, None, "never", "")

    other = create_engine(postgres_url)
    with opened(postgres_url) as store:
        with pytest.raises(StorageError) as told:
            break_within(store)
        other.dispose()
        assert told.value.exit_code == 74
        store.add_event(NOW, None, "written", "")
        assert {"never", "written"}.intersection(event.kind for event in store.events()) == {"written"}


@pytest.mark.parametrize("option", ["sslmode=bogus", "connect_timeout=soon", "no_option=1"])
def test_an_option_of_the_url_that_is_none_is_2(postgres_url: str, option: str) -> None:
    with pytest.raises(StoreError, match=r"invalid|bad value") as told:
        open_engine(f"{postgres_url}?{option}")
    assert not isinstance(told.value, StorageError)
    assert told.value.exit_code == 2
