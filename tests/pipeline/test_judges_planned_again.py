"""A judge's job is planned once more when a `retry` brings a prediction it was not asked about."""

from __future__ import annotations

from pathlib import Path

from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.states import ErrorClass
from tests.support.lab import lab, manifest_text

FIRST = r"-000001\b"


def refused_once(*, provider: str) -> Fault:
    """An error that only a person's `retry` sends again, the first time that a run asks."""
    return Fault(on="row", action="error", status=400, provider=provider, match=FIRST, times=1)


def test_each_time_that_a_judge_is_planned_its_requests_too_large_to_send_are_counted(tmp_path: Path) -> None:
    text = manifest_text(limit=3, top="[limits.gemini]\nmax_bytes = 1000")
    with lab(tmp_path, refused_once(provider="openai")) as bench:
        assert bench.finish(text).unanswered == 3
        assert bench.retry() == 1
        status = bench.finish(text)
        assert status.state is RunState.DONE
        judge = next(job for job in status.jobs if job.role == "judge")
        assert (judge.requests, judge.errors, judge.waiting) == (3, {str(ErrorClass.TOO_LARGE): 3}, 0)
        unsent = [batch for batch in status.batches if batch.job_id == judge.id]
        assert [batch.requests for batch in unsent] == [2, 1]
        requests = bench.requests(text).filter(bench.requests(text)["role"] == "judge")
        assert requests["custom_id"].n_unique() == requests.height == 3
