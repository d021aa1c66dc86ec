"""What is asked again, when and at whose word; and what never is. Nothing is bought twice, and nothing paid is lost."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from layton_batch.sandbox import Fault, SandboxLimits
from tests.support.lab import Lab, RunState, drive, lab, manifest_text, quiz_text
from tests.support.tiers import tiered

QUIZ = quiz_text()
LIMIT = "max_output_tokens = 4000"


def row_fault(action: str, match: str = "", times: int = 1, after: int = 0) -> Fault:
    return Fault(on="row", action=action, provider="openai", match=match, times=times, after=after)


# ---- by themselves ---------------------------------------------------------------------------------------------------


def test_replies_of_no_use_are_asked_for_as_often_as_the_manifest_says_and_cut_ones_with_twice_the_room(
    tmp_path: Path,
) -> None:
    text = quiz_text(limit=6, top="[policy]\nreask_unparsed = 1\nreask_truncated = 1")
    cut = row_fault("truncated", r"-000004\b")
    with lab(tmp_path, row_fault("malformed_text", r"-00000[123]\b", times=3), cut) as bench:
        status = bench.finish(text)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert status.spent_usd == bench.server.ledger().total_usd
        for batch in status.batches:
            assert sha256((bench.runs / batch.path).read_bytes()).hexdigest() == batch.sha256
        assert sorted(bench.billed().values()) == [1, 1, 2, 2, 2, 2]
        assert set(bench.table(text, "predictions")["kind"]) == {"answered"}
        again = [(bench.runs / batch.path).read_bytes() for batch in status.batches if batch.parent_id is not None]
    assert sum(lines.count(b'"max_completion_tokens":8000') for lines in again) == 1


@pytest.mark.parametrize("provider", tiered(("openai", "anthropic", "together", "groq"), ci=("openai",)))
def test_a_batch_too_large_for_the_provider_is_split_until_it_fits(tmp_path: Path, provider: str) -> None:
    with lab(tmp_path, limits=SandboxLimits(rows=2)) as bench:
        bench.finish_paid_once(quiz_text((provider,), limit=3))


# ---- where the manifest allows longer replies ------------------------------------------------------------------------


def raised(text: str, limit: int = 8000) -> str:
    return text.replace(LIMIT, f"max_output_tokens = {limit}")


def to_send(bench: Lab, text: str) -> dict[str, int]:
    """How many requests `plan` says that each job sends now."""
    jobs = bench.plan(text).jobs
    return {str(job.job.role): sends for job in jobs if (sends := job.requests - job.answered)}


def test_a_higher_limit_buys_the_cut_answer_and_its_verdict_alone(tmp_path: Path) -> None:
    text = manifest_text(limit=2)
    with lab(tmp_path, row_fault("truncated")) as bench:
        bench.finish_paid_once(text)
        before = bench.billed()
        planned = to_send(bench, raised(text))
        assert planned["predict"] == bench.table(text, "responses").filter(finish_reason="length").height == 1
        status = bench.finish(raised(text))
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert set(bench.billed().values()) == {1}
        assert len(bench.billed()) - len(before) == sum(planned.values())
        assert status.spent_usd == bench.server.ledger().total_usd


def test_another_limit_buys_nothing_where_no_answer_was_cut_or_all_were_cut_by_this_one(tmp_path: Path) -> None:
    with lab(tmp_path, row_fault("truncated", after=3, times=0)) as bench:
        bench.finish_paid_once(QUIZ)
        for limit in (4001, 2000):
            assert to_send(bench, raised(QUIZ, limit)) == {}
            bench.finish_paid_once(raised(QUIZ, limit))
        more = quiz_text(limit=4)  # the fourth answer is cut at any limit
        bench.finish_paid_once(more)
        assert to_send(bench, more) == to_send(bench, raised(more, 2000)) == {}
        for _ in range(2):
            bench.finish(raised(more))
            assert len(bench.billed()) == 5


# ---- at a person's word ----------------------------------------------------------------------------------------------


def test_a_person_s_retry_beside_a_driver_is_sent_at_its_next_tick_and_of_cancel_and_retry_the_later_stands(
    tmp_path: Path,
) -> None:
    refused = Fault(on="row", action="error", status=400, provider="openai", match=r"-000001\b", times=1)
    with lab(tmp_path, refused) as bench:
        first = bench.finish(QUIZ).batches[0]
        (bench.runs / first.path).unlink()  # the file of what failed is not needed
        before = bench.billed()
        with bench.open(QUIZ) as run:
            assert [bench.retry(), bench.retry()] == [1, 0]
            bench.cancel()
            assert drive(run, once=False, stop_at=None).state is RunState.CANCELLED
            assert bench.billed() == before
            assert bench.retry() == 1
            status = drive(run, once=False, stop_at=None)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert (set(bench.billed().values()), len(bench.billed())) == ({1}, 3)
        assert status.spent_usd == bench.server.ledger().total_usd
