"""A judge's job is planned once more when a `retry` brings a prediction it was not asked about: wherever the program
is stopped meanwhile, the judge is asked about that one too, and about none twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.states import ErrorClass
from tests.simulation.claims import broken_claims
from tests.simulation.histories import play
from tests.simulation.world import ALONE, Plan, cast, history
from tests.support.lab import lab, manifest_text
from tests.support.tiers import tiered

WORLD = ALONE
(ASKED,), REFEREE = cast(WORLD)
PARTS = 27
FIRST = r"-000001\b"


def refused_once(*, provider: str = ASKED) -> Fault:
    """An error that only a person's `retry` sends again, the first time that a run asks."""
    return Fault(on="row", action="error", status=400, provider=provider, match=FIRST, times=1)


def retried_at_the_end(*stops: int) -> Plan:
    return Plan(WORLD, stops=stops, faults=(refused_once(),), retry_at=1_000_000)


@pytest.mark.parametrize("part", tiered(range(PARTS), ci=(13,)))
def test_stopped_anywhere_while_a_judge_is_planned_again_every_prediction_gets_its_verdict(part: int) -> None:
    with history(retried_at_the_end()) as found:
        points = list(found.course.points)
        assert not broken_claims(found)
    graded = max(at for at, point in enumerate(points) if point.startswith("renamed tables/predictions/"))
    sending = max(at for at, point in enumerate(points) if point == f"sent: {REFEREE} create")
    stops = range(graded + 1, sending + 2)
    assert any(points[stop - 1].startswith("renamed batches/history/judge") for stop in stops)
    broken = [verdict.told() for stop in stops[part::PARTS] if (verdict := play(retried_at_the_end(stop))).broken]
    assert not broken, "\n".join(broken)


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
