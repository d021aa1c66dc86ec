"""`plan`'s two amounts: at most is never below what a run sets aside, expected is near what is paid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import with_budget
from layton_batch.settings import Settings
from layton_batch.stages.preview import preview
from layton_batch.states import Role
from tests.support.cli_harness import write
from tests.support.lab import JUDGES, Lab, Preview, RunState, Status, lab, manifest_text, named, quiz_text, set_aside
from tests.support.manual_clock import ManualClock
from tests.support.paths import SHARED_DATA
from tests.support.replay_manifest import replay_manifest

DATA = SHARED_DATA / "layton"
TEXT = manifest_text(("openai", "gemini"), limit=3, jury="[jury]\nseats = 2\n" + JUDGES)
ANEW = named("new", TEXT.replace("[[models]]", "[policy]\nreuse = false\n[[models]]", 1))
PAID_BY_THE_AUTHORS = 193.0
FACTOR = 2.0


@dataclass(frozen=True)
class Done:
    """A finished run, which tests only read, and its plans. ``before``: of the run before it began; ``anew``: after
    it, of a run that asks all of it once more."""

    bench: Lab
    before: Preview
    status: Status
    anew: Preview


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    with lab(tmp_path_factory.mktemp("done")) as bench:
        before, status = bench.plan(TEXT), bench.finish(TEXT)
        yield Done(bench, before, status, bench.plan(ANEW))


def test_at_most_is_never_below_what_the_run_sets_aside_for_any_of_its_jobs(done: Done) -> None:
    aside, bounds = set_aside(done.bench, TEXT), {one.job.id: one.max_usd for one in done.before.jobs}
    assert aside.keys() == bounds.keys()
    assert all(0 < usd <= (bounds[job_id] or 0) for job_id, usd in aside.items())
    assert sum(aside.values()) <= (done.before.max_usd or 0)


def test_expected_comes_from_the_priors_first_and_from_an_earlier_runs_tokens_then(done: Done) -> None:
    again = done.bench.plan(TEXT)
    assert again.expected_usd == again.max_usd == 0  # nothing is left to be sent
    hinted = done.bench.plan(TEXT.replace('split = "llm"', 'split = "llm"\nhints = 2'))
    assert {one.expected_from for one in (*done.before.jobs, *hinted.jobs)} == {"priors"}
    assert {one.expected_from for one in done.anew.jobs} == {"earlier runs"}
    harder = done.bench.plan(ANEW.replace("max_output_tokens = 4000", 'max_output_tokens = 4000\nreasoning = "high"'))
    assert {one.expected_from for one in harder.jobs if one.job.role is Role.PREDICT} == {"priors"}
    # Some of the simulated answers are not judged, and some input was cached: less was paid than a full run costs.
    assert done.anew.expected_usd == pytest.approx(done.status.spent_usd, rel=Decimal("0.25"))
    for one in (*done.before.jobs, *done.anew.jobs):
        assert 0 < (one.expected_usd or 0) <= (one.max_usd or 0)


def test_what_judges_will_read_is_bounded_by_the_models_earlier_answers_where_there_are_some(done: Done) -> None:
    for first, then in zip(done.before.jobs, done.anew.jobs, strict=True):
        is_less = (then.max_usd or 0) < (first.max_usd or 0)
        assert is_less if first.job.role is Role.JUDGE else then.max_usd == first.max_usd


def test_an_expected_bound_sets_less_aside_and_lets_a_stopped_run_go_on(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        trust = 'bound = "expected"\nsafety = 1.1'

        def budgeted(limit: Decimal, more: str = "") -> str:
            return quiz_text(("openai", "anthropic"), top=f'[budget]\nmax_usd = "{limit}"\n{more}\n')

        limit = (bench.plan(budgeted(Decimal(9), trust)).set_aside_usd or 0) * Decimal("1.1")
        stopped = bench.finish(budgeted(limit))
        assert stopped.state is RunState.OVER_BUDGET
        plan, status = bench.plan(budgeted(limit, trust)), bench.finish_paid_once(budgeted(limit, trust))
    assert status.spent_usd <= limit
    assert (plan.set_aside_usd or 0) <= min(plan.max_usd or 0, (plan.expected_usd or 0) * Decimal("1.1"))
    upper = {batch.id: batch.max_cost or 0 for batch in stopped.batches}
    pairs = [(batch.max_cost or 0, upper[batch.id]) for batch in status.batches]
    assert all(now <= before for now, before in pairs)
    assert any(now < before for now, before in pairs)


def test_a_budget_on_the_command_line_keeps_how_the_manifest_bounds(tmp_path: Path) -> None:
    manifest = load_manifest(write(tmp_path, quiz_text(top='[budget]\nmax_usd = 1\nbound = "expected"\n')))
    asked = with_budget(manifest, "7.5").budget
    assert (asked.max_usd, asked.bound, asked.safety) == (Decimal("7.5"), "expected", 3)


@pytest.mark.shared_data
def test_the_expected_cost_of_the_papers_splits_is_within_a_factor_of_two_of_what_its_authors_paid(
    tmp_path: Path,
) -> None:
    manifest = load_manifest(write(tmp_path, replay_manifest(DATA)))
    plan = preview(manifest, Settings.from_environment({}, tmp_path), ManualClock(1_795_000_000.0), runs=tmp_path)
    both_splits = float(plan.expected_usd or 0) * (186 + 317) / 186  # pictures add little to what is read
    assert PAID_BY_THE_AUTHORS / FACTOR < both_splits < PAID_BY_THE_AUTHORS * FACTOR
    assert round(plan.max_usd or 0) == 1485
