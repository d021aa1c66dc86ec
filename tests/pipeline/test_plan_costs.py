"""`plan`'s two amounts: at most is never below what a run sets aside, expected is near what is paid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import with_budget
from layton_batch.reports.status_tables import next_steps
from layton_batch.runs.past_usage import PastUsage
from layton_batch.runs.status import RunState, Status
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings
from layton_batch.stages.plan_counts import EARLIER, PRIORS
from layton_batch.stages.preview import Preview, preview
from layton_batch.states import Role
from tests.support.lab import JUDGES, Lab, lab, manifest_text, quiz_text, write_few_labels
from tests.support.manual_clock import ManualClock
from tests.support.paths import SHARED_DATA
from tests.support.replay_manifest import replay_manifest

DATA = SHARED_DATA / "layton"
TEXT = manifest_text(("openai", "gemini"), limit=3, jury="[jury]\nseats = 2\n" + JUDGES)
PAID_BY_THE_AUTHORS = 193.0
FACTOR = 2.0


def planned(bench: Lab, text: str = TEXT) -> Preview:
    return preview(bench.manifest(text), bench.settings, bench.clock, runs=bench.runs)


ANEW = TEXT.replace("[[models]]", "[policy]\nreuse = false\n[[models]]", 1).replace("lab", "new", 1)


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
        before, status = planned(bench), bench.finish(TEXT)
        yield Done(bench, before, status, planned(bench, ANEW))


def check_bounds(bench: Lab, text: str, plan: Preview, *roles: Role) -> None:
    """Check that what the run set aside for each job of these roles is no more than the plan says."""
    set_aside: dict[str, Decimal] = {}
    requests = bench.requests(text).filter(pl.col("role").is_in(roles))
    for job_id, usd in requests.select("job_id", "max_cost").iter_rows():
        set_aside[job_id] = set_aside.get(job_id, Decimal(0)) + Decimal(usd)
    bounds = {one.job.id: one.max_usd for one in plan.jobs}
    assert set_aside.keys() <= bounds.keys()
    assert all(usd <= (bounds[job_id] or 0) for job_id, usd in set_aside.items())
    assert plan.max_usd is not None
    assert 0 < sum(set_aside.values()) <= plan.max_usd


def test_at_most_is_never_below_what_the_run_sets_aside_for_any_of_its_jobs(done: Done) -> None:
    check_bounds(done.bench, TEXT, done.before, *Role)
    assert set(done.bench.requests(TEXT)["job_id"]) == {one.job.id for one in done.before.jobs}


def test_expected_comes_from_the_priors_first_and_from_an_earlier_runs_tokens_then(done: Done) -> None:
    again = planned(done.bench)
    assert again.expected_usd == again.max_usd == 0  # nothing is left to be sent
    other = planned(done.bench, TEXT.replace('split = "llm"', 'split = "llm"\nhints = 2'))
    assert {one.expected_from for one in (*done.before.jobs, *other.jobs)} == {PRIORS}
    assert {one.expected_from for one in done.anew.jobs} == {EARLIER}
    # Some of the simulated answers are not judged, and some input was cached: less was paid than a full run costs.
    assert done.anew.expected_usd == pytest.approx(done.status.spent_usd, rel=Decimal("0.25"))
    for one in (*done.before.jobs, *done.anew.jobs):
        assert one.expected_usd is not None
        assert one.max_usd is not None
        assert 0 < one.expected_usd <= one.max_usd


def test_what_is_planned_and_was_not_sent_is_still_to_be_paid(tmp_path: Path) -> None:
    poor, grown = (manifest_text(limit=limit, top="[budget]\nmax_usd = 0\n") for limit in (4, 6))
    with lab(tmp_path) as bench:
        before = planned(bench, poor)
        assert bench.finish(poor).state is RunState.OVER_BUDGET
        held_back, more = planned(bench, poor), planned(bench, grown)
        assert (held_back.to_send, held_back.max_usd) == (before.to_send, before.max_usd)
        assert (held_back.expected_usd, held_back.jobs[0].shards) == (before.expected_usd, 1)
        assert (more.to_send, more.jobs[0].shards) == (before.to_send + 4, 2)  # two riddles more, and their verdicts
        rich = bench.finish(poor.replace("= 0\n", "= 50\n"))
        assert rich.state is RunState.DONE
        assert planned(bench, poor).to_send == 0


def test_what_judges_will_read_is_bounded_by_the_models_earlier_answers_where_there_are_some(done: Done) -> None:
    for first, then in zip(done.before.jobs, done.anew.jobs, strict=True):
        assert first.max_usd is not None
        assert then.max_usd is not None
        is_less = then.max_usd < first.max_usd
        assert is_less if first.job.role is Role.JUDGE else then.max_usd == first.max_usd


def budgeted(max_usd: str, more: str = "") -> str:
    return manifest_text(("openai", "anthropic"), top=f'[budget]\nmax_usd = "{max_usd}"\n{more}\n')


def test_a_budget_below_the_bound_of_a_batch_stops_and_says_which_keys_help(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        status = bench.finish(budgeted("0.01"))
        told = " ".join(planned(bench, budgeted("0.01")).caveats)
        assert status.state is RunState.OVER_BUDGET
        assert (status.spent_usd, status.reserved_usd) == (0, 0)
    steps = " ".join(next_steps(status))
    for key in ("max_usd", "max_output_tokens", 'bound = "expected"'):
        assert key in steps
        assert key in told
    assert "now 4,000 a reply" in told


def test_an_expected_bound_sets_less_aside_and_lets_a_stopped_run_go_on(tmp_path: Path) -> None:
    poor, trusting = budgeted("0.12"), budgeted("0.12", 'bound = "expected"\nsafety = 1.1')
    with lab(tmp_path) as bench:
        assert bench.finish(poor).state is RunState.OVER_BUDGET
        upper = {batch.id: batch.max_cost or Decimal(0) for batch in bench.finish(poor).batches}
        plan = planned(bench, trusting)
        status = bench.finish(trusting)
        billed = bench.server.ledger().total_usd
    assert status.state is RunState.DONE
    assert (status.unanswered, status.spent_usd) == (0, billed)
    assert billed <= Decimal("0.12")
    assert plan.set_aside_usd is not None
    assert plan.max_usd is not None
    assert plan.expected_usd is not None
    assert plan.set_aside_usd <= min(plan.max_usd, plan.expected_usd * Decimal("1.1"))
    aside = {batch.id: batch.max_cost or Decimal(0) for batch in status.batches}
    assert all(aside[batch_id] <= usd for batch_id, usd in upper.items())
    assert any(aside[batch_id] < usd for batch_id, usd in upper.items())


def test_a_budget_on_the_command_line_keeps_how_the_manifest_bounds(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        asked = with_budget(bench.manifest(budgeted("1", 'bound = "expected"')), "7.5").budget
    assert (asked.max_usd, asked.bound, asked.safety) == (Decimal("7.5"), "expected", 3)


def test_another_effort_is_not_taken_for_the_same_model(done: Done) -> None:
    bench = done.bench
    with open_store(bench.run_folder(TEXT), bench.settings) as store:
        earlier = PastUsage(bench.manifest(TEXT), store)
    harder = bench.manifest(TEXT.replace("max_output_tokens = 4000", 'max_output_tokens = 4000\nreasoning = "high"'))
    assert all(earlier.mean(Role.PREDICT, spec) is not None for spec in bench.manifest(TEXT).model_specs())
    assert all(earlier.mean(Role.PREDICT, spec) is None for spec in harder.model_specs())


def test_a_run_that_cannot_be_read_does_not_stop_a_plan(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        broken = bench.runs / "broken-00000000"
        broken.mkdir(parents=True)
        (broken / "run.json").write_text("{", encoding="utf-8")
        assert {one.expected_from for one in planned(bench).jobs} == {PRIORS}


@pytest.mark.shared_data
def test_the_expected_cost_of_the_papers_splits_is_within_a_factor_of_two_of_what_its_authors_paid(
    tmp_path: Path,
) -> None:
    text = tmp_path / "layton-llm.toml"
    text.write_text(replay_manifest(DATA), encoding="utf-8")
    plan = preview(
        load_manifest(text), Settings.from_environment({}, tmp_path), ManualClock(1_795_000_000.0), runs=tmp_path
    )
    assert plan.max_usd is not None
    assert plan.expected_usd is not None
    both_splits = float(plan.expected_usd) * (186 + 317) / 186  # pictures add little to what is read
    assert PAID_BY_THE_AUTHORS / FACTOR < both_splits < PAID_BY_THE_AUTHORS * FACTOR
    assert round(plan.max_usd) == 1485


def test_what_rejudging_costs_stands_in_the_plan_and_is_never_below_what_the_run_sets_aside(tmp_path: Path) -> None:
    text = manifest_text(limit=3, top='[gold]\nsource = "gold.jsonl"\n')
    write_few_labels(tmp_path)
    with lab(tmp_path) as bench:
        plan = planned(bench, text)
        bench.finish(text)
        check_bounds(bench, text, plan, Role.REJUDGE)
    assert any("the votes of another jury" in caveat for caveat in plan.caveats)


def test_sizes_that_are_told_without_files_are_those_of_the_files(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        told = planned(bench)
        folder = tmp_path / "planned"
        written = preview(bench.manifest(TEXT), bench.settings, bench.clock, folder, runs=bench.runs)
    assert told == written
    sizes = {path.name: sum(file.stat().st_size for file in path.iterdir()) for path in (folder / "requests").iterdir()}
    assert sizes == {one.job.id: one.size_bytes for one in told.jobs if one.job.role is Role.PREDICT}


def test_a_plan_leaves_the_workspace_as_it_is(done: Done) -> None:
    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in done.bench.runs.rglob("*") if path.is_file()}

    before = contents()
    assert planned(done.bench, ANEW).to_send > planned(done.bench).to_send == 0
    assert contents() == before


def test_a_plan_mends_damaged_answers_in_its_copy_alone(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish_paid_once(quiz_text())
        (part,) = bench.run_folder(quiz_text()).batches.glob("*/answers/*.parquet")
        damaged = part.read_bytes()[:-20]
        part.write_bytes(damaged)
        assert planned(bench, quiz_text(limit=4)).to_send == 1
        assert part.read_bytes() == damaged
        bench.finish_paid_once(quiz_text(limit=4))
