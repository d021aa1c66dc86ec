"""What is sent again, when, and what never is."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.runs.folders import find_run
from layton_batch.runs.open import open_folder, read_run
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.sandbox.engine.configuration import SandboxLimits
from layton_batch.stages.rank import board
from layton_batch.store.reopening import retry
from tests.support.cli_harness import call
from tests.support.evidence import Rows
from tests.support.lab import lab, manifest_text, quiz_text
from tests.support.tiers import tiered


def test_unusable_replies_are_not_bought_again_by_themselves(tmp_path: Path) -> None:
    text = quiz_text(limit=6)
    broken = Fault(on="row", action="malformed_text", provider="openai", times=2)
    cut = Fault(on="row", action="truncated", provider="openai", after=2, times=1)
    with lab(tmp_path, broken, cut) as bench:
        status = bench.finish(text)
        assert status.state is RunState.DONE
        assert set(bench.billed().values()) == {1}
        kinds = bench.table(text, "predictions")["kind"].to_list()
    assert kinds.count("unparsed") >= 2


def test_with_reask_unparsed_they_are_asked_for_once_more_and_no_more(tmp_path: Path) -> None:
    text = quiz_text(limit=6, top="[policy]\nreask_unparsed = 1")
    broken = Fault(on="row", action="malformed_text", provider="openai", times=3)
    with lab(tmp_path, broken) as bench:
        status = bench.finish(text)
        assert status.state is RunState.DONE
        predict = next(job for job in status.jobs if job.role == "predict")
        assert (predict.requests, predict.succeeded, predict.waiting) == (6, 6, 0)
        assert sorted(bench.billed().values()) == [1, 1, 1, 2, 2, 2]
        assert status.spent_usd == bench.server.ledger().total_usd
        again = next(batch for batch in status.batches if batch.parent_id is not None)
        assert "asking again" in str(again.cause)
        kinds = bench.table(text, "predictions")["kind"].to_list()
    assert "unparsed" not in kinds


def test_a_truncated_reply_is_asked_for_again_with_twice_the_room(tmp_path: Path) -> None:
    text = quiz_text(limit=4, top="[policy]\nreask_truncated = 1")
    with lab(tmp_path, Fault(on="row", action="truncated", provider="openai", times=1)) as bench:
        status = bench.finish(text)
        assert status.state is RunState.DONE
        again = next(batch for batch in status.batches if batch.parent_id is not None)
        assert b'"max_completion_tokens":8000' in (bench.runs / again.path).read_bytes()
        assert "unparsed" not in bench.table(text, "predictions")["kind"].to_list()


def test_an_unreadable_verdict_leaves_a_vote_over_the_rest_and_an_item_without_any_is_unjudged(tmp_path: Path) -> None:
    text = manifest_text(limit=4)
    mute = Fault(on="row", action="malformed_text", provider="gemini")
    with lab(tmp_path, mute) as bench:
        status = bench.finish(text)
        assert status.state is RunState.DONE
        with read_run(find_run("lab", bench.runs), bench.settings) as run:
            row = Rows(board(run, run.rules))[0]
        assert row.n_unjudged == 4
        assert row.score is None  # no vote and no label: nothing is known of any answer
        assert (row.n_verdicts, row.n_verdicts_missing) == (4, 4)
        assert "few_verdicts" in row.flags
        scores = bench.table(text, "scores")
        document = call("judges", "lab", "--runs", bench.runs, "--json").json
        (judge,) = document["verdicts"]
        assert (judge["asked"], judge["readable"], judge["unreadable"], document["judges"]) == (4, 0, 4, [])
    assert set(scores.filter(scores["metric"] == "both_correct")["flag"]) == {"unjudged"}


def test_a_judge_whose_replies_are_cut_or_refused_is_seen_to_have_no_say(tmp_path: Path) -> None:
    text = manifest_text(limit=4)
    cut = Fault(on="row", action="truncated", provider="gemini", times=1)
    refused = Fault(on="row", action="refused", provider="gemini", after=1, times=2)
    with lab(tmp_path, cut, refused) as bench:
        bench.finish(text)
        folder = find_run("lab", bench.runs)
    (judge,) = call("status", folder.root, "--json").json["judges"]
    assert (judge["asked"], judge["readable"], judge["cut"], judge["refused"]) == (4, 1, 1, 2)
    assert judge["reason"].startswith("refused")
    assert call("judges", folder.root, "--json").json["verdicts"] == [judge]
    (row,) = call("leaderboard", folder.root, "--format", "json").json
    assert (row["n_verdicts"], row["n_verdicts_missing"], row["flags"]) == (4, 3, "unjudged, few_verdicts")
    assert "1 of 4" in call("leaderboard", folder.root).out


def test_permanent_errors_are_not_sent_again_until_a_person_says_retry(tmp_path: Path) -> None:
    text = manifest_text(limit=2)
    wrong = Fault(on="row", action="error", status=400, provider="openai", times=1)
    with lab(tmp_path, wrong) as bench:
        status = bench.finish(text)
        assert status.unanswered == 1
        assert len([batch for batch in status.batches if batch.provider == "openai"]) == 1
        with open_folder(find_run("lab", bench.runs), bench.settings, bench.clock) as run:
            assert retry(run.store, run.clock.now()) == 1
            assert retry(run.store, run.clock.now()) == 0
        status = bench.finish(text)
        assert status.state is RunState.DONE
        assert status.unanswered == 0
        predictions = bench.table(text, "predictions")
        assert predictions["kind"].to_list().count("missing") == 0
        answered = predictions.filter(predictions["kind"] == "answered").height
        assert bench.table(text, "verdicts").height == answered  # the late ones went before the jury too
        assert set(bench.billed().values()) == {1}


@pytest.mark.parametrize("provider", tiered(("openai", "anthropic", "together", "groq"), ci=("openai", "anthropic")))
def test_a_batch_too_large_for_the_provider_is_split_until_it_fits(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=3)
    with lab(tmp_path, limits=SandboxLimits(rows=2)) as bench:
        bench.finish_paid_once(text)
