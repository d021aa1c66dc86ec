"""Which requests of a batch go into another one by themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layton_batch.batches.attempts import MOST_SPLITS, MOST_WAITS, Attempts, AttemptWait
from layton_batch.batches.machine import REFUSED_CALLS
from layton_batch.records import Batch, End
from layton_batch.states import PASSING, BatchOutcome, ErrorClass, Lifecycle, RequestOutcome
from tests.support.batch_states import PACING
from tests.support.store_rows import batch

FIRST = batch(1, state=Lifecycle.COLLECTED, outcome=BatchOutcome.COMPLETED, provider_id="b1")
EXPIRED: End = (RequestOutcome.EXPIRED, ErrorClass.NOT_EXECUTED)


def after(parent: Batch, number: int, **changes: object) -> Batch:
    """A batch that repeats requests of another one."""
    return replace(
        parent, id=f"b{number}", provider_id=f"p{number}", parent_id=parent.id, attempt=parent.attempt + 1, **changes
    )


@pytest.mark.parametrize("outcome", RequestOutcome)
@pytest.mark.parametrize("error_class", ErrorClass)
def test_only_requests_without_an_answer_that_were_surely_not_billed_go_into_another_batch(
    outcome: RequestOutcome, error_class: ErrorClass
) -> None:
    ends = {"r": (outcome, error_class)}
    unanswered, passing = outcome is not RequestOutcome.SUCCEEDED, error_class in PASSING
    assert bool(Attempts.of(FIRST, [FIRST]).again(ends, 3)) == (unanswered and passing)
    assert bool(Attempts.of(FIRST, [FIRST]).again(ends, 1)) == (unanswered and error_class is ErrorClass.ACCOUNT)
    stopped = replace(FIRST, stopped_elsewhere=True)
    assert not Attempts.of(stopped, [stopped]).again(ends, 3)
    refused = replace(FIRST, outcome=BatchOutcome.FAILED, error_class=ErrorClass.TOO_LARGE)
    in_parts = unanswered and (passing or error_class is ErrorClass.TOO_LARGE)
    assert bool(Attempts.of(refused, [refused]).again(ends, 3)) == in_parts


@pytest.mark.parametrize(
    ("fails", "made", "turned_away"),
    [
        ({"outcome": BatchOutcome.COMPLETED}, 2, 0),
        ({"outcome": BatchOutcome.FAILED, "error_class": ErrorClass.PROVIDER_FAULT}, 2, 0),
        ({"outcome": BatchOutcome.FAILED, "error_class": ErrorClass.RATE_LIMITED}, 1, 1),
        ({"outcome": BatchOutcome.COMPLETED, "error_class": ErrorClass.ACCOUNT}, 1, 1),
        ({"outcome": BatchOutcome.CANCELLED}, 2, 0),  # at the provider
        ({"outcome": BatchOutcome.CANCELLED, "provider_id": None}, 1, 1),  # withdrawn
    ],
)
def test_what_a_provider_had_no_room_for_takes_no_attempt(
    fails: dict[str, object], made: int, turned_away: int
) -> None:
    second = replace(after(FIRST, 2), **fails)  # type: ignore[arg-type]
    attempts = Attempts.of(second, [FIRST, second])
    assert (attempts.creates, attempts.turned_away) == (made, turned_away)


def test_attempts_at_another_answer_do_not_count_those_that_were_answered() -> None:
    second = after(FIRST, 2)
    reasked = after(second, 3, reask=1)
    again = after(reasked, 4, outcome=BatchOutcome.FAILED, error_class=ErrorClass.RATE_LIMITED)
    last = after(again, 5, outcome=BatchOutcome.COMPLETED, error_class=ErrorClass.NONE)
    line = [FIRST, second, reasked, again, last]
    assert [Attempts.of(one, line).creates for one in line] == [1, 2, 1, 1, 2]


def test_attempts_come_to_an_end() -> None:
    line = [FIRST]
    for number in range(2, 5):
        line.append(after(line[-1], number))
    left = [bool(Attempts.of(one, line).again({"r": EXPIRED}, 3)) for one in line]
    assert left == [True, True, False, False]
    crowded = [replace(FIRST, outcome=BatchOutcome.FAILED, error_class=ErrorClass.RATE_LIMITED)]
    for number in range(2, MOST_WAITS + 1):
        crowded.append(after(crowded[-1], number))
    assert [Attempts.of(one, crowded).are_left(3) for one in crowded[-2:]] == [True, False]


def test_a_batch_that_is_too_large_is_halved_a_few_times_and_never_a_single_request() -> None:
    line = [replace(FIRST, outcome=BatchOutcome.FAILED, error_class=ErrorClass.TOO_LARGE, requests=1000)]
    for number in range(2, MOST_SPLITS + 3):
        line.append(replace(after(line[-1], number), attempt=1))
    assert [Attempts.of(one, line).is_split for one in line] == [True] * MOST_SPLITS + [False] * 2
    alone = replace(line[0], requests=1)
    assert not Attempts.of(alone, [alone]).is_split


@pytest.mark.parametrize(
    ("outcome", "attempt", "turned_away", "pause"),
    [
        (BatchOutcome.COMPLETED, 1, 0, 0.0),
        (BatchOutcome.EXPIRED, 3, 2, 0.0),
        (BatchOutcome.FAILED, 1, 0, PACING.backoff(1)),
        (BatchOutcome.FAILED, 2, 1, PACING.no_room),
        (BatchOutcome.FAILED, 12, 9, PACING.longest_pause),
    ],
)
def test_the_next_attempt_waits_only_if_the_whole_batch_failed(
    outcome: BatchOutcome, attempt: int, turned_away: int, pause: float
) -> None:
    failed = replace(FIRST, outcome=outcome, attempt=attempt)
    assert Attempts(failed, attempt - turned_away, turned_away, 0).wait(PACING) == AttemptWait(pause)


@pytest.mark.parametrize("outcome", [BatchOutcome.COMPLETED, BatchOutcome.FAILED])
def test_what_was_refused_to_the_account_waits_and_a_person_is_told_in_the_end(outcome: BatchOutcome) -> None:
    refused = replace(FIRST, outcome=outcome, error_class=ErrorClass.ACCOUNT, reason="no credit")
    for turned_away, needs_person in ((1, False), (REFUSED_CALLS, True)):
        wait = Attempts(refused, 1, turned_away, 0).wait(PACING)
        assert (wait.pause >= PACING.no_room, wait.needs_person, bool(wait.reason)) == (True, needs_person, True)
