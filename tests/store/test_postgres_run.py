"""A whole small run with its state in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import update

from layton_batch.errors import AnotherDriverError
from layton_batch.pipeline import advance
from layton_batch.runs.status import RunState
from layton_batch.settings import Settings
from layton_batch.store import schema
from tests.support.lab import lab, manifest_text


def test_a_run_in_postgresql_whose_host_vanished_is_followed_from_another_and_bills_every_row_once(
    tmp_path: Path, postgres_url: str
) -> None:
    text = manifest_text(("openai",), limit=2)
    with lab(tmp_path) as bench:
        environment = {**bench.server.environment(), "LAYTON_BATCH_STATE": postgres_url}
        bench.settings = Settings.from_environment(environment, tmp_path)
        with bench.open(text) as vanished:
            advance(vanished)
            with vanished.store.writing() as writing:
                writing.connection.execute(update(schema.runs).values(driver="elsewhere.boot.1/7/1/1"))
            with pytest.raises(AnotherDriverError, match="is driven by process 7 on "):
                bench.finish(text)
            bench.clock.sleep(121)
            status = bench.finish(text)
            with pytest.raises(AnotherDriverError):
                advance(vanished)
            assert not vanished.folder.workspace.database.exists()
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert set(bench.billed().values()) == {1}
        assert status.spent_usd == bench.server.ledger().total_usd
        assert bench.finish(text) == status
