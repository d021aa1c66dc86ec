"""Answers that another run beside this one paid for are taken over; what is on its way is waited for."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import polars as pl

from layton_batch.batches import batch_results
from layton_batch.files import tables
from layton_batch.pipeline import advance
from layton_batch.reports.cost_document import report_json
from layton_batch.runs.open import providers_for
from layton_batch.runs.requests import PaidAnswers, fingerprint_bytes
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.settings import Settings
from layton_batch.states import Lifecycle
from tests.support.cli_harness import call
from tests.support.lab import MODELS, Lab, lab, manifest_text, quiz_text

JUDGED = manifest_text(limit=1)
ONE, TWO = quiz_text(("openai",), limit=2), quiz_text(("openai", "anthropic"), limit=2)


def named(name: str, text: str) -> str:
    return text.replace('name = "lab"', f'name = "{name}"', 1)


def without_reuse(text: str) -> str:
    return text.replace("[[models]]", "[policy]\nreuse = false\n[[models]]", 1)


def test_another_run_of_the_same_questions_costs_nothing_and_says_what_they_cost(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        first = bench.finish(JUDGED)
        before = bench.billed()
        other = named("other", JUDGED)
        status = bench.finish(other)
        assert (status.state, status.unanswered, status.spent_usd) == (RunState.DONE, 0, 0)
        assert bench.billed() == before
        board = ["model", "score", "lower", "upper"]
        assert bench.table(other, "leaderboard").select(board).equals(bench.table(JUDGED, "leaderboard").select(board))
        report = report_json(bench.bill("other"))
        assert report["reused"] == {"requests": 2, "paid_usd": f"{first.spent_usd:f}"}
        together = bench.bill("lab", "other")
        assert (together.reused.requests, together.total.requests) == (0, 2)  # the sums have what the first run paid
        third = named("third", JUDGED)
        assert bench.finish(third).spent_usd == 0
        assert set(bench.table(third, "reused")["run"]) == {"lab"}


def test_a_manifest_may_ask_everything_anew(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish(ONE)
        assert bench.finish(without_reuse(named("other", ONE))).spent_usd > 0
        assert len(bench.billed()) == 4


def test_what_a_sandbox_answered_is_no_answer_of_the_providers(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish(ONE)
        asked = fingerprint_bytes_of(bench, ONE)
        with bench.open(named("other", ONE)) as run:
            for local, known in ((frozenset({"openai"}), True), (frozenset(), False)):
                paid = PaidAnswers(run.manifest, run.store, local)
                spec = run.manifest.model_specs()[0]
                statuses = paid.look_up([paid.fingerprint(spec, digest) for digest in asked])
                assert {status.is_to_ask for status in statuses.values()} == {not known}


def test_what_another_address_answered_is_no_answer_of_the_providers(tmp_path: Path) -> None:
    with lab(tmp_path) as bench, bench.open(ONE) as run:
        (spec,) = run.manifest.model_specs()

        def paid_at(address: str) -> PaidAnswers:
            settings = Settings.from_environment({"OPENAI_BASE_URL": address}, tmp_path)
            elsewhere = providers_for(run.manifest, settings).elsewhere
            return PaidAnswers(run.manifest, run.store, frozenset(), elsewhere)

        own, gateway, other = ("https://api.openai.com/v1", "https://gateway.example/v1", "https://other.example/v1")
        prints = {address: paid_at(address).fingerprint(spec, bytes(32)) for address in (own, gateway, other)}
        assert prints[own] == bytes(32)
        assert len(set(prints.values())) == 3
        assert paid_at(f"{gateway}/").fingerprint(spec, bytes(32)) == prints[gateway]
        assert {prints[own], prints[gateway]} <= set(paid_at(gateway).all_prints(spec, bytes(32)))


def fingerprint_bytes_of(bench: Lab, text: str) -> list[bytes]:
    """What the lines of the run's batch file ask, wherever they were answered."""
    (spec,) = bench.manifest(text).model_specs()
    (path,) = bench.run_folder(text).batches.glob("predict-*/request.jsonl")
    lines = [(line, orjson.loads(line)["custom_id"]) for line in path.read_bytes().splitlines()]
    return [fingerprint_bytes(spec.provider, spec.model, line, name) for line, name in lines]


def test_nothing_is_bought_again_where_the_answers_of_the_run_beside_it_cannot_be_read(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish(ONE)
        billed = bench.billed()
        for part in bench.run_folder(ONE).batches.rglob("*.parquet"):
            part.write_bytes(b"damaged")
        other = named("other", ONE)
        with bench.open(other) as run:
            advance(run)
            assert [error for error in run.engine.trouble.values() if "runs/batches/lab/" in error]
        assert bench.billed() == billed


def test_an_answer_that_was_taken_over_and_cannot_be_used_is_asked_again_where_the_manifest_says_so(
    tmp_path: Path,
) -> None:
    with lab(tmp_path, Fault(on="row", action="malformed_text", provider="openai", times=1)) as bench:
        bench.finish(JUDGED)
        again = named("other", JUDGED).replace("[[models]]", "[policy]\nreask_unparsed = 1\n[[models]]", 1)
        before = len(bench.billed())
        assert bench.finish(again).state is RunState.DONE
        unusable = bench.table(JUDGED, "predictions").filter(pl.col("kind") == "unparsed").height
        assert unusable == 1
        assert bench.table(again, "predictions").filter(pl.col("kind") == "unparsed").height == 0
        assert len(bench.billed()) - before == 2  # the answer, and the verdict on it


def in_flight(bench: Lab, text: str) -> None:
    with bench.open(text) as run:
        while not run.store.batches({Lifecycle.IN_FLIGHT}):
            advance(run)


def test_what_a_retired_model_has_on_its_way_is_collected_and_taken_back(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        in_flight(bench, TWO)
        status = bench.finish(ONE)
        assert status.state is RunState.DONE
        assert {batch.state for batch in status.batches} == {Lifecycle.COLLECTED}
        assert status.spent_usd == bench.server.ledger().total_usd
        assert {job.model for job in status.jobs if job.role == "predict"} == {MODELS["openai"]}
        bench.finish(TWO)
        assert set(bench.billed().values()) == {1}
        assert len(bench.billed()) == 4


def test_what_is_on_its_way_under_another_job_is_waited_for(tmp_path: Path) -> None:
    """The same model with another family and task split is another job; with another hint text it would ask anew."""
    model = ONE[ONE.index("[[models]]") : ONE.index("[[prices]]")]
    twin = model.replace(f'name = "{MODELS["openai"]}"', 'name = "twin"', 1)
    with lab(tmp_path) as bench:
        in_flight(bench, ONE)
        twins = ONE.replace(model, model + twin)
        status = bench.finish(twins)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert len(bench.billed()) == 2
        bench.finish(named("other", twins))
        report = report_json(bench.bill("other"))
        assert report["reused"] == {"requests": 2, "paid_usd": f"{status.spent_usd:f}"}


def test_a_model_that_comes_back_is_asked_for_what_was_given_up_while_it_was_gone(tmp_path: Path) -> None:
    half = Fault(on="batch", action="expire", provider="anthropic", times=1, share=0.5)
    with lab(tmp_path, half) as bench:
        in_flight(bench, TWO)
        assert bench.finish(ONE).unanswered == 0
        bench.finish_paid_once(TWO)
        assert bench.table(TWO, "predictions").height == 4


def test_an_answer_that_was_taken_over_is_as_traceable_as_ones_own_when_the_other_run_is_gone(tmp_path: Path) -> None:
    other, third = named("other", JUDGED), named("third", JUDGED)
    with lab(tmp_path) as bench:
        bench.finish(JUDGED)
        lines = {name: _raw_lines(bench, JUDGED, name) for name in ("predictions", "verdicts")}
        bench.finish(other)
        shutil.rmtree(bench.run_folder(JUDGED).root)
        bench.finish(third)
        shutil.rmtree(bench.run_folder(other).root)
        assert {name: _raw_lines(bench, third, name) for name in lines} == lines
        said = bench.table(third, "reused")
        assert set(said["run"]) == {"lab"}
        assert set(said["paid_as"]) == {name for found in lines.values() for name in found}
        assert set(bench.billed().values()) == {1}
        out = tmp_path / "out"
        assert call("export", "third", "--runs", bench.runs, "--to", "parquet", "--out", out).code == 0
        answers = pl.read_parquet(out / "predictions.parquet")["raw_text"]
        assert answers.null_count() == 0


def _raw_lines(bench: Lab, text: str, table: str) -> dict[str, bytes]:
    """By the name that was paid for, the provider's line of each answer; it has the words that the table has."""
    with bench.open(text) as run:
        paid_as = dict(tables.read(run.folder.tables, "reused").select("custom_id", "paid_as").iter_rows())
        found = {}
        for row in bench.table(text, table).iter_rows(named=True):
            name = paid_as.get(row["custom_id"], row["custom_id"])
            (path,) = bench.runs.glob(f"batches/*/{row['batch_id']}/output*.zst")
            provider = next(job.spec.provider for job in run.store.jobs() if row["batch_id"].startswith(f"{job.id}."))
            dialect = run.providers.dialect(provider)
            (found[name],) = (line for line, _ in batch_results.lines(path) if dialect.decode(line).custom_id == name)
            assert dialect.decode(found[name]).text == row["raw_text"]
        return found
