"""Runs of one database take over each other's answers, in one folder or in two, unless they are told not to.

What a run says of such answers: `tests/pipeline/test_reuse.py`."""

from __future__ import annotations

from pathlib import Path

from layton_batch.settings import Settings
from tests.support.lab import lab, named, quiz_text

ONE = quiz_text(limit=1)
OTHER = named("other", ONE)
ALONE = named("alone", ONE.replace("[[models]]", "[policy]\nreuse = false\n[[models]]", 1))


def test_another_run_of_the_same_database_pays_for_nothing_again(tmp_path: Path, postgres_url: str) -> None:
    with lab(tmp_path) as bench:
        environment = {**bench.server.environment(), "LAYTON_BATCH_STATE": postgres_url}
        bench.settings = Settings.from_environment(environment, tmp_path)
        bench.finish(ONE)
        before = bench.billed()
        assert bench.plan(OTHER).to_send == 0
        assert (bench.finish(OTHER).unanswered, bench.billed()) == (0, before)
        bench.finish(ALONE)
        assert len(bench.billed()) == 2 * len(before)
        bench.runs = tmp_path / "elsewhere"
        third = named("third", ONE)
        bench.finish(third)
        assert len(bench.billed()) == 2 * len(before)
        (event,) = bench.events(third, "table_damaged")
        assert "is not there: put it back" in event.detail
