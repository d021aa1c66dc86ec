"""A run from manifest to leaderboard, over real SDKs and HTTP on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.providers import BUILT_IN
from layton_batch.sandbox import Fault
from tests.support.lab import MODELS, lab, manifest_text, quiz_text


def test_all_seven_providers_in_one_run_give_a_leaderboard_and_the_bill_equals_the_sandboxs(tmp_path: Path) -> None:
    text = quiz_text(tuple(MODELS), limit=2)
    assert set(MODELS) < set(BUILT_IN)
    with lab(tmp_path) as bench:
        bench.finish_paid_once(text)
        rows = bench.table(text, "leaderboard").select("model", "n_items", "rank").rows()
        assert {model for model, *_ in rows} == set(MODELS.values())
        assert all(n_items == 2 and rank is not None for _, n_items, rank in rows)
        assert bench.table(text, "predictions").height == 7 * 2
        assert bench.run_folder(text).site.joinpath("site.json").exists()


def test_a_judges_job_starts_as_soon_as_its_predictions_are_in_whatever_other_models_do(tmp_path: Path) -> None:
    text = manifest_text(("openai", "mistral"), limit=2)
    with lab(tmp_path, Fault(on="batch", action="stuck", provider="mistral", times=1)) as bench:
        jobs = {job.id: job for job in bench.begin(text, ticks=12, seconds=30.0).jobs}
        assert not jobs["predict-sirocco-large"].graded
        assert jobs["judge-tern-3-referee--larch-2-mini"].graded
        board = bench.table(text, "leaderboard").drop_nulls("rank")
        assert board["model"].to_list() == ["larch-2-mini"]


@pytest.mark.nightly
def test_a_batch_that_fails_as_a_whole_says_why_and_an_invalid_one_is_not_sent_again(tmp_path: Path) -> None:
    bad = Fault(on="batch", action="fail", provider="openai", kind="model_not_found", name="no such model")
    with lab(tmp_path, bad) as bench:
        status = bench.finish(quiz_text())
        (job,), (batch,) = status.jobs, status.batches
        assert (job.errored, job.succeeded, status.spent_usd) == (3, 0, 0)
        assert "no such model" in str(batch.reason)


def test_status_accounts_for_every_request_by_how_it_ended(tmp_path: Path) -> None:
    text = quiz_text(limit=6, top="[policy]\nattempts = 1")
    faults = (
        Fault(on="row", action="missing", provider="openai", times=1),
        Fault(on="row", action="error", status=500, provider="openai", after=1, times=2),
        Fault(on="row", action="error", status=400, provider="openai", after=3, times=1),
    )
    with lab(tmp_path, *faults) as bench:
        (job,) = bench.finish(text).jobs
    assert (job.requests, job.succeeded, job.missing) == (6, 2, 1)
    assert (job.errored, job.errors) == (3, {"invalid_request": 1, "provider_fault": 2})
