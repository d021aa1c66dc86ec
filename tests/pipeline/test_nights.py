"""The published table from a run that grew by a model a night: nine revisions of one manifest, each model paid once."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.commands.known_items import replayed
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Sandbox, SandboxConfig
from tests.pipeline.test_replay import DATA, PUBLISHED, table
from tests.pipeline.test_replay import pytestmark as pytestmark
from tests.support.lab import START, Lab
from tests.support.manual_clock import ManualClock
from tests.support.replay_manifest import replay_manifest

DAY = 86_400.0


def nightly_manifests() -> list[str]:
    """The manifest with its first model, with its first two, and so on."""
    head, *models = replay_manifest(DATA).split("[[models]]")
    return [head + "".join(f"[[models]]{model}" for model in models[: count + 1]) for count in range(len(models))]


@pytest.mark.nightly
def test_a_run_built_up_model_by_model_gives_the_published_rows_and_sends_only_what_is_new(tmp_path: Path) -> None:
    clock, manifests = ManualClock(START), nightly_manifests()
    assert len(manifests) == len(PUBLISHED)
    answerer = replayed([DATA / "ppi_llm.jsonl", DATA / "riddles_llm.jsonl"])
    sent: dict[str, int] = {}
    with Sandbox(SandboxConfig(batch_seconds=1.0, answerer=answerer, clock=clock.now)) as server:
        bench = Lab(tmp_path, server, clock)  # type: ignore[arg-type]  # moved by nobody here
        for text in manifests:
            status = bench.finish(text)
            assert (status.state, status.unanswered) == (RunState.DONE, 0)
            sent |= _new(bench, sent)
            clock.sleep(DAY)
        ledger = server.ledger()
    assert status.spent_usd == ledger.total_usd
    assert {row.times_billed for row in ledger.rows} == {1}
    assert table("layton-llm", bench.runs) == PUBLISHED


def _new(bench: Lab, sent: dict[str, int]) -> dict[str, int]:
    """What this night was billed by job: a model's answers and at most three verdicts on each, none of before."""
    by_job: dict[str, int] = {}
    for name in bench.billed():
        job = name.rsplit("-", 2)[0]
        by_job[job] = by_job.get(job, 0) + 1
    assert {job: by_job[job] for job in sent} == sent
    new = {job: count for job, count in by_job.items() if job not in sent}
    assert len(new) == 4
    assert max(new.values()) == 186
    assert sum(new.values()) > 4 * 170
    return new
