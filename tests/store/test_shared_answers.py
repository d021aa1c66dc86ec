"""Runs of one database take over each other's answers; a database has the state of one folder of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from layton_batch.reports.cost_document import report_json
from layton_batch.settings import Settings
from layton_batch.stages.preview import preview
from tests.support.lab import Lab, lab, quiz_text
from tests.support.tiers import tiered

ONE = quiz_text(limit=1)
OTHER = ONE.replace('name = "lab"', 'name = "other"', 1)
on_a_file = pytest.mark.parametrize("url", tiered(("sqlite", "postgres"), ci=("sqlite",)), indirect=True)
"""Runs on PostgreSQL are nightly; `test_request_rows.py` holds every statement about answers to both."""


@contextmanager
def sharing(folder: Path, url: str) -> Iterator[Lab]:
    """A lab whose state is in a database that other folders share."""
    with lab(folder) as bench:
        bench.settings = Settings.from_environment({**bench.server.environment(), "LAYTON_BATCH_STATE": url}, folder)
        yield bench


def test_another_run_of_the_same_database_pays_for_nothing_again(tmp_path: Path, url: str) -> None:
    with sharing(tmp_path, url) as bench:
        bench.finish(ONE)
        before = bench.billed()
        planned = preview(bench.manifest(OTHER), bench.settings, bench.clock, None, bench.runs)
        assert planned.to_send == 0
        assert bench.finish(OTHER).unanswered == 0
        assert bench.billed() == before
        said = report_json(bench.bill("other"))
        assert json.loads(json.dumps(said))["reused"]["requests"] == 1
        assert bench.finish(ONE.replace('name = "lab"', 'name = "third"', 1)).spent_usd == 0


@on_a_file
def test_a_second_folder_of_runs_on_one_database_buys_nothing_and_names_what_is_missing(
    tmp_path: Path, url: str
) -> None:
    with sharing(tmp_path, url) as bench:
        bench.finish(ONE)
        before = bench.billed()
        bench.runs = tmp_path / "elsewhere"
        bench.finish(OTHER)
        assert bench.billed() == before
        with bench.open(OTHER) as run:
            (damage,) = (event.detail for event in run.store.events() if event.kind == "table_damaged")
        assert f"{bench.runs / 'batches' / 'lab'} is not there: put it back" in damage


@on_a_file
def test_a_manifest_without_reuse_looks_at_no_other_run_of_the_database(tmp_path: Path, url: str) -> None:
    alone = OTHER.replace("[[models]]", "[policy]\nreuse = false\n[[models]]", 1)
    with sharing(tmp_path, url) as bench:
        bench.finish(ONE)
        before = bench.billed()
        bench.finish(alone)
        assert len(bench.billed()) == 2 * len(before)
