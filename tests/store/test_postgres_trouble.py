"""What passes by itself or by a server's mending is 74; what the URL says wrong is 2."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from layton_batch.errors import StorageError, StoreError
from layton_batch.store.engine import open_engine
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


@pytest.mark.parametrize("option", ["sslmode=bogus", "connect_timeout=soon", "channel_binding=bogus", "no_option=1"])
def test_an_option_of_the_url_that_is_none_is_2(postgres_url: str, option: str) -> None:
    with pytest.raises(StoreError, match=r"invalid|bad value") as told:
        open_engine(f"{postgres_url}?{option}")
    assert not isinstance(told.value, StorageError)
    assert told.value.exit_code == 2
