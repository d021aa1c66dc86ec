"""A whole small run with its state in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, func, select

from layton_batch.errors import AnotherDriverError, StorageError
from layton_batch.files import atomic
from layton_batch.pipeline import advance
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState
from layton_batch.settings import Settings
from tests.support.lab import lab, manifest_text


def vanish(run: Run) -> None:
    """The server ends the session of the process, as of a host that it hears nothing of any more."""
    assert run.store.session is not None
    process = run.store.session.scalar(select(func.pg_backend_pid()))
    run.store.session.commit()
    other = create_engine(run.store.engine.url)
    with other.connect() as connection:
        connection.execute(select(func.pg_terminate_backend(process, 10_000)))
    other.dispose()


def test_a_run_in_postgresql_whose_host_vanished_is_followed_from_another_and_bills_every_row_once(
    tmp_path: Path, postgres_url: str
) -> None:
    text = manifest_text(("openai",), limit=2)
    with lab(tmp_path) as bench:
        environment = {**bench.server.environment(), "LAYTON_BATCH_STATE": postgres_url}
        bench.settings = Settings.from_environment(environment, tmp_path)
        with bench.open(text) as vanished:
            advance(vanished)
            with pytest.raises(AnotherDriverError, match=r"is driven by process \d+ on "):
                bench.finish(text)
            vanish(vanished)
            status = bench.finish(text)
            with pytest.raises(StorageError):
                advance(vanished)
            for path in (vanished.folder.tables / "late.txt", vanished.folder.batches / "late.txt"):
                with pytest.raises(StorageError):
                    atomic.write_text(path, "too late")
            assert not vanished.folder.workspace.database.exists()
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert set(bench.billed().values()) == {1}
        assert status.spent_usd == bench.server.ledger().total_usd
        assert bench.finish(text) == status
