"""A run from manifest to leaderboard, over real SDKs and HTTP on loopback."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.pipeline import advance
from layton_batch.providers import BUILT_IN
from layton_batch.reports.status_tables import print_status
from layton_batch.runs.folders import find_run
from layton_batch.runs.open import read_run
from layton_batch.runs.status import RunState, read_status
from layton_batch.sandbox import Fault
from layton_batch.stages.plan import plan
from layton_batch.stages.rank import board
from tests.support.evidence import Rows
from tests.support.lab import MODELS, Lab, lab, manifest_text, quiz_text
from tests.support.tiers import tiered

SEVEN = tuple(MODELS)


def spent_equals_bill(status_spent: Decimal, bench: Lab) -> bool:
    return status_spent == bench.server.ledger().total_usd


def test_all_seven_providers_in_one_run_give_a_leaderboard_and_the_bill_equals_the_sandboxs(tmp_path: Path) -> None:
    text = quiz_text(SEVEN, limit=2)
    assert set(MODELS) < set(BUILT_IN)
    with lab(tmp_path) as bench:
        status = bench.finish(text)
        assert status.state is RunState.DONE
        assert status.unanswered == 0
        assert spent_equals_bill(status.spent_usd, bench)
        assert set(bench.billed().values()) == {1}
        with read_run(find_run("lab", bench.runs), bench.settings) as run:
            rows = Rows(board(run, run.rules))
    assert {row.model for row in rows} == set(MODELS.values())
    assert all(row.n_items == 2 and row.rank is not None for row in rows)
    predictions = bench.table(text, "predictions")
    assert predictions.height == 7 * 2
    assert bench.run_folder(text).site.joinpath("site.json").exists()


def test_a_judges_job_starts_as_soon_as_its_predictions_are_in_whatever_other_models_do(tmp_path: Path) -> None:
    text = manifest_text(("openai", "mistral"))
    stuck = Fault(on="batch", action="stuck", provider="mistral", times=1)
    with lab(tmp_path, stuck) as bench, bench.open(text) as run:
        for _ in range(12):
            advance(run)
            bench.clock.sleep(30)
        jobs = {job.id: job for job in read_status(run.store).jobs}
        assert not jobs["predict-sirocco-large"].graded
        assert jobs["judge-tern-3-referee--larch-2-mini"].graded
        assert [row.model for row in Rows(board(run, run.rules))] == ["larch-2-mini"]


@pytest.mark.nightly
def test_a_batch_that_fails_as_a_whole_says_why_and_an_invalid_one_is_not_sent_again(tmp_path: Path) -> None:
    text = quiz_text(limit=4)
    bad = Fault(on="batch", action="fail", provider="openai", kind="model_not_found", name="no such model")
    with lab(tmp_path, bad) as bench:
        status = bench.finish(text)
        predict = next(job for job in status.jobs if job.role == "predict")
        assert (predict.errored, predict.succeeded) == (4, 0)
        batches = [batch for batch in status.batches if batch.job_id == predict.id]
        assert len(batches) == 1
        assert "no such model" in str(batches[0].reason)
        assert status.spent_usd == 0


def test_a_batch_that_waits_for_a_person_does_not_hide_that_the_budget_stops_the_others(tmp_path: Path) -> None:
    text = manifest_text(("openai", "anthropic"), limit=2)
    with lab(tmp_path) as bench:
        with bench.open(text) as run:
            plan(run)
            cheap, dear = sorted(run.store.batches(), key=lambda batch: batch.max_cost or Decimal(0))
            (run.folder.workspace.root / cheap.path).unlink()
        budget = f"[budget]\nmax_usd = {cheap.max_cost}\n"
        assert (dear.max_cost or 0) > (cheap.max_cost or 0)
        status = bench.finish(manifest_text(("openai", "anthropic"), limit=2, top=budget), max_hours=1.0)
        assert status.state is RunState.NEEDS_PERSON


@pytest.mark.parametrize(
    ("provider", "action"),
    tiered(
        SEVEN,
        ("drop", "drop_after", "status", "not_json"),
        ci=[("openai", "drop"), ("anthropic", "not_json"), ("gemini", "status"), ("mistral", "drop_after")],
    ),
)
def test_a_create_whose_reply_is_lost_is_looked_for_and_never_paid_twice(
    tmp_path: Path, provider: str, action: str
) -> None:
    text = quiz_text((provider,))
    with lab(tmp_path, Fault(on="create", action=action, provider=provider, times=1)) as bench:
        bench.finish_paid_once(text)


def test_status_accounts_for_every_request_by_how_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = quiz_text(limit=6, top="[policy]\nattempts = 1")
    faults = (
        Fault(on="row", action="missing", provider="openai", times=1),
        Fault(on="row", action="error", status=500, provider="openai", after=1, times=2),
        Fault(on="row", action="error", status=400, provider="openai", after=3, times=1),
    )
    with lab(tmp_path, *faults) as bench:
        status = bench.finish(text)
    predict = next(job for job in status.jobs if job.role == "predict")
    assert sum(predict.errors.values()) == predict.errored
    print_status(status, 0.0)
    said = " ".join(capsys.readouterr().out.split())
    sums = "6 requests = 2 succeeded + 3 errored (invalid_request 1, provider_fault 2) + 1 missing"
    assert f"no answer {predict.id}: {sums}" in said
