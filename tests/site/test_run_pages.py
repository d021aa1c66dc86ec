"""The pages about a run: its judges, its bill, its method, its batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson

from layton_batch.files import tables
from layton_batch.runs.status import Status
from layton_batch.site.build import build_site
from layton_batch.states import BatchOutcome
from layton_batch.store.requests import AttemptLocation
from tests.support.fabricated_run import FabricatedRun, fabricated
from tests.support.read_html import read_page, words

START = 1_800_000_000.0


def shown(run: FabricatedRun, page: str, status: Status | None = None) -> str:
    site = build_site(run.folder, status or run.status()).parent
    return words(read_page(site / page))


def timed(run: FabricatedRun) -> Status:
    status = run.status()
    (batch,) = status.batches
    first = replace(batch, submitted_at=START, ended_at=START + 3700, provider_id="batch_abc")
    second = replace(
        batch, id="batch-2", submitted_at=START + 3600, ended_at=START + 7200, outcome=BatchOutcome.EXPIRED,
        attempt=2, reason="the window was over",
    )  # fmt: skip
    reused = replace(batch, id="batch-3", reason="4 answers that another run paid for already")
    return replace(status, batches=(second, reused, first))


def test_the_page_of_judges_says_what_the_command_says(tmp_path: Path) -> None:
    page = shown(fabricated(tmp_path), "judges.html")
    assert "Judges against human labels · both correct · 12 labelled answers" in page
    assert "judge 0 12 1.000" in page
    assert "judge 1 12 0.500" in page
    assert "+50.0" in page
    assert "What the jury gets wrong" in page
    assert "Labels: judge 12" in page


def test_every_batch_has_a_line_with_its_time_and_why_it_ended_so(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    page = shown(run, "run.html", timed(run))
    assert "From 2027-01-15 08:00 to 2027-01-15 10:00 UTC, 2 h 0 min." in page
    assert "1 h 1 min" in page
    assert "collected, expired the window was over" in page
    assert "batch_abc" in page
    assert page.index("1 h 1 min") < page.index("the window was over")
    assert "1 further batch was never sent: 4 answers had been paid for already." in page


def test_providers_words_of_failures_stand_on_the_page(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    status = run.status()
    rows = [{"custom_id": str(n), "outcome": "errored", "error_message": "<b>quota</b> is over"} for n in range(3)]
    path = run.folder.batch("batch-1").answers / "0.parquet"
    tables.write(path, tables.frame("responses", rows))
    attempts = [AttemptLocation(status.jobs[0].id, run.folder.root.name, "batch-1", str(n)) for n in range(3)]
    page = shown(run, "run.html", replace(status, failed=tuple(attempts)))
    assert "What providers said of requests that failed" in page
    assert "3 <b>quota</b> is over" in page


def test_the_method_has_words_manifest_revisions_and_hashes(tmp_path: Path) -> None:
    run = fabricated(tmp_path)
    frozen = orjson.loads(run.folder.manifest.read_bytes())
    frozen["manifest"]["models"] = [
        {"name": "alpha-9", "provider": "openai", "model": "alpha-9-2026", "max_output_tokens": 8000,
         "reasoning": {"effort": "high"}, "params": {}}
    ]  # fmt: skip
    frozen |= {
        "identity": "abc123", "folder": "/secret/place", "prompts": {"participant": "Solve {{ question }}"},
        "revisions": [{"number": 1, "at": "2026-11-23T08:38:38Z", "changes": ["the run began"], "asked": "d1gest"}],
    }  # fmt: skip
    run.folder.manifest.write_bytes(orjson.dumps(frozen))
    page = shown(run, "method.html")
    for text in ("What the numbers mean", "corrected by people’s labels", "alpha-9-2026 8,000", "scoring.metric",
                 "2026-11-23 08:38:38 UTC the run began d1gest", "abc123", "tables/scores/scores.parquet",
                 "Solve {{ question }}"):  # fmt: skip
        assert text in page
    assert "/secret/place" not in page
