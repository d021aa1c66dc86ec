"""A whole small run with its state in PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from layton_batch.pipeline import advance, is_finished
from layton_batch.runs.status import RunState, read_status
from layton_batch.settings import Settings
from tests.pipeline.lab import lab, manifest_text


def test_two_processes_on_a_run_in_postgresql_finish_it_and_bill_every_row_once(
    tmp_path: Path, postgres_url: str
) -> None:
    text = manifest_text(("openai", "mistral", "anthropic"))
    with lab(tmp_path) as bench:
        environment = {**bench.server.environment(), "LAYTON_BATCH_STATE": postgres_url}
        bench.settings = Settings.from_environment(environment, tmp_path)
        with bench.open(text) as one, bench.open(text) as other:
            for _ in range(100):
                with ThreadPoolExecutor(2) as pool:
                    list(pool.map(advance, (one, other)))
                if is_finished(one) and is_finished(other):
                    break
                bench.clock.sleep(7)
            status = read_status(one.store)
            assert not one.folder.workspace.database.exists()
        assert status.state is RunState.DONE
        assert status.unanswered == 0
        assert set(bench.billed().values()) == {1}
        assert status.spent_usd == bench.server.ledger().total_usd
        assert bench.finish(text) == status
