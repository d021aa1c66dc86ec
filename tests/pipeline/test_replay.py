"""The published table out of the published predictions and verdicts, through five providers' batch APIs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from layton_batch.commands.known_items import replayed
from layton_batch.sandbox import Sandbox, SandboxConfig
from tests.support.cli_harness import call
from tests.support.lab import MODELS, START, Lab, RunState, lab, manifest_text
from tests.support.manual_clock import ManualClock
from tests.support.paths import SHARED_DATA
from tests.support.replay_manifest import replay_manifest

DATA = SHARED_DATA / "layton"
FILE = DATA / "ppi_llm.jsonl"
pytestmark = pytest.mark.shared_data

PUBLISHED = [
    ("gemini-3-flash-high", 85.2, 1.4, 1, 2),
    ("gemini-3-pro-high", 83.9, 1.1, 1, 3),
    ("gpt-5.1-2025-11-13-high", 83.3, 0.1, 2, 3),
    ("gpt-5.2-2025-12-11-high", 80.4, 0.3, 4, 5),
    ("claude-opus-4-5-20251101-thinking-32k", 79.6, 0.6, 4, 5),
    ("moonshotai-kimi-k2.5-thinking", 73.4, 1.4, 6, 6),
    ("claude-opus-4-5-20251101-no-thinking", 70.2, 0.9, 7, 7),
    ("moonshotai-kimi-k2-thinking", 66.7, 1.7, 8, 8),
    ("mistral-large-2512", 48.7, 1.4, 9, 9),
]
COLUMNS = ("model", "score", "half_width", "rank_best", "rank_worst")


def table(source: str | Path, runs: Path, metric: str = "both_correct") -> list[tuple[object, ...]]:
    words = ("leaderboard", source, "--runs", runs, "--method", "paper", "--metric", metric, "--format", "json")
    return [tuple(row[name] for name in COLUMNS) for row in call(*words).json]  # type: ignore[attr-defined]


@contextmanager
def published(folder: Path) -> Iterator[Lab]:
    clock, answerer = ManualClock(START), replayed([FILE, DATA / "riddles_llm.jsonl"])
    with Sandbox(SandboxConfig(batch_seconds=1.0, answerer=answerer, clock=clock.now)) as server:
        yield Lab(folder, server, clock)


def test_the_ppi_file_alone_gives_the_published_table(tmp_path: Path) -> None:
    assert table(FILE, tmp_path) == PUBLISHED


@pytest.mark.nightly
def test_a_replayed_run_gives_the_published_table_and_costs_what_the_sandbox_billed(tmp_path: Path) -> None:
    text = replay_manifest(DATA)
    with published(tmp_path) as bench:
        bench.finish_paid_once(text)
        assert bench.server.ledger().unpriced_rows == 0
        assert bench.table(text, "predictions").height == 1674
        # seven recorded replies are wholly blank: no jury is asked about them, they count as wrong
        assert bench.table(text, "verdicts").height == 5022 - 3 * 7
        assert table("layton-llm", bench.runs) == PUBLISHED
        for metric in ("answer_correct", "justification_correct"):
            assert table("layton-llm", bench.runs, metric) == table(FILE, bench.runs, metric)


@pytest.mark.nightly
def test_real_images_go_through_every_dialect(tmp_path: Path) -> None:
    riddles, number = DATA / "riddles_vlm.jsonl", 317
    text = manifest_text(tuple(MODELS), limit=number, items=str(riddles)).replace('split = "llm"', 'split = "vlm"')
    with lab(tmp_path) as bench:
        status = bench.finish(text)
        assert (status.state, status.spent_usd) == (RunState.DONE, bench.server.ledger().total_usd)
    predict = [job for job in status.jobs if job.role == "predict"]
    assert {job.provider for job in predict} == set(MODELS)
    assert {(job.requests, job.succeeded) for job in predict} == {(number, number)}
