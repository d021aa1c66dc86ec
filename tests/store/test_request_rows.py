"""An answer is one row for the whole database: who may ask for it, and what is known of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from layton_batch.errors import BatchWaitError, SentElsewhereError
from layton_batch.records import Batch, End, NewAttempt, NewRequest, Revision
from layton_batch.runs.status import read_status
from layton_batch.states import AnswerState, BatchOutcome, ErrorClass, Lifecycle, RequestOutcome
from layton_batch.store.run_store import RunStore
from layton_batch.store.standing import LONGEST_CREATE, ProviderLoad
from tests.support.store_rows import JOB, NOW, batch, moved

PRINTS = tuple(bytes([number]) * 32 for number in range(3))
NAMES = ("r-1", "r-2", "r-3")
ANSWERED: End = (RequestOutcome.SUCCEEDED, ErrorClass.NONE)
FAILED: End = (RequestOutcome.EXPIRED, ErrorClass.NOT_EXECUTED)
UNCERTAIN: End = (RequestOutcome.ERRORED, ErrorClass.UNREADABLE)


def asking(names: Sequence[str]) -> list[NewAttempt]:
    prints = dict(zip(NAMES, PRINTS, strict=True))
    return [NewAttempt(name, prints[name], None) for name in names]


def planned(engine: Engine, run_id: str, names: tuple[str, ...] = NAMES) -> RunStore:
    """A run whose one batch asks for the answers of these of its requests."""
    store = RunStore(engine, run_id)
    store.enter("0123abcd" * 8, "{}", "0", NOW)
    store.add_jobs([JOB], NOW)
    new = list(map(NewRequest, NAMES, ("a", "b", "c"), PRINTS, PRINTS))
    store.plan_job(JOB, [batch(0, requests=len(names), content=asking(names))], NOW, new, ())
    return store


def go(store: RunStore, state: Lifecycle, **changes: Any) -> Batch:
    """Move the run's one batch."""
    before = store.batch(batch(0).id)
    return store.apply(before, moved(before, state, **changes), NOW)


def end(store: RunStore, number: int = 0) -> Batch:
    """Send a batch and have it end."""
    mine = store.batch(batch(number).id)
    for state in (Lifecycle.SUBMITTING, Lifecycle.IN_FLIGHT, Lifecycle.ENDED):
        mine = store.apply(mine, moved(mine, state), NOW)
    return mine


def collect(store: RunStore, ends: Mapping[str, End], again: Collection[str] = (), number: int = 0) -> None:
    """Collect a batch, which was sent by then; the requests ``again`` go into another one."""
    mine = store.batch(batch(number).id)
    mine = mine if mine.state is Lifecycle.ENDED else end(store, number)
    store.apply(mine, replace(moved(mine, Lifecycle.COLLECTED), ends=ends, again={*again}), NOW)


def states(store: RunStore) -> list[AnswerState | None]:
    known = store.known_answers(PRINTS)
    return [known[print_].state if print_ in known else None for print_ in PRINTS]


def test_answers_follow_the_batch_that_asks_for_them(engine: Engine) -> None:
    store = planned(engine, "one")
    assert states(store) == [AnswerState.PLANNED] * 3
    go(store, Lifecycle.SUBMITTING)
    assert states(store) == [AnswerState.SENT] * 3
    go(store, Lifecycle.PLANNED)
    assert states(store) == [AnswerState.PLANNED] * 3
    collect(store, dict(zip(NAMES, (ANSWERED, FAILED, UNCERTAIN), strict=True)))
    assert states(store) == [AnswerState.ANSWERED, AnswerState.FAILED, AnswerState.UNCERTAIN]
    first, second, third = store.answer_locations(JOB.id)
    assert (first.run_id, first.batch_id, first.batch_custom_id, first.item_id) == ("one", batch(0).id, "r-1", "a")
    assert (second.state, third.state) == (AnswerState.FAILED, AnswerState.UNCERTAIN)
    counts = [(one.state, (one.outcome, one.error_class), one.number) for one in store.count_requests()]
    assert sorted(counts) == [
        (AnswerState.ANSWERED, ANSWERED, 1), (AnswerState.FAILED, FAILED, 1), (AnswerState.UNCERTAIN, UNCERTAIN, 1)
    ]  # fmt: skip


def test_what_goes_again_is_wanted_from_another_batch(engine: Engine) -> None:
    store = planned(engine, "one")
    collect(store, dict.fromkeys(NAMES, FAILED), {"r-1", "r-3"})
    assert [one.custom_id for one in store.requests_to_ask(JOB.id)] == ["r-1", "r-3"]
    assert store.jobs_with_wanted() == {JOB.id}
    assert store.unfinished([JOB.id]) == {JOB.id}
    store.add_batches(JOB, [batch(1, requests=2, content=asking(("r-1", "r-3")))], NOW)
    assert (store.jobs_with_wanted(), states(store)[0]) == (frozenset(), AnswerState.PLANNED)


@pytest.mark.parametrize("end", [None, ANSWERED, UNCERTAIN], ids=["sent", "answered", "perhaps billed"])
def test_a_batch_is_not_sent_while_another_run_has_or_asks_for_one_of_its_answers(
    engine: Engine, end: End | None
) -> None:
    first, second = planned(engine, "one", ("r-3",)), planned(engine, "two")
    if end is not None:
        collect(first, {"r-3": end})
    else:
        go(first, Lifecycle.SUBMITTING)
    with pytest.raises(SentElsewhereError, match=r"1 of its 3 answers .* run one"):
        go(second, Lifecycle.SUBMITTING)
    assert second.batch(batch(0).id).state is Lifecycle.PLANNED
    assert states(second)[:2] == [AnswerState.PLANNED] * 2


def test_a_create_that_may_have_been_carried_out_keeps_others_out(engine: Engine) -> None:
    first, second = planned(engine, "one"), planned(engine, "two")
    go(first, Lifecycle.SUBMITTING)
    go(first, Lifecycle.PLANNED, given_up_creates=1)
    with pytest.raises(SentElsewhereError):
        go(second, Lifecycle.SUBMITTING)
    go(first, Lifecycle.SUBMITTING)


def test_a_create_of_another_process_counts_when_the_intent_to_pay_is_committed(engine: Engine) -> None:
    """So two processes that try a provider after an outage in one second make one create."""

    def check(load: ProviderLoad) -> None:
        if load.sending:
            raise BatchWaitError("another batch is tried first", None)

    first, second = planned(engine, "one", ("r-1",)), planned(engine, "two", ("r-2",))
    go(first, Lifecycle.SUBMITTING, submitting_at=NOW)
    before = second.batch(batch(0).id)
    for at, is_held in ((NOW + 1, True), (NOW + LONGEST_CREATE + 1, False)):
        with pytest.raises(BatchWaitError) if is_held else nullcontext():
            second.apply(before, moved(before, Lifecycle.SUBMITTING), at, check)


def test_an_answer_that_is_asked_for_again_is_another_one(engine: Engine) -> None:
    store = planned(engine, "one")
    collect(store, dict.fromkeys(NAMES, ANSWERED))
    first = store.known_requests(JOB.id)[0]
    store.ask_once_more(JOB.id, [first], {"r-1": 1}, NOW)
    (again,) = store.requests_to_ask(JOB.id)
    assert (again.answer in PRINTS, again.reask, again.doublings) == (False, 1, 1)
    assert again.batch_id == batch(0).id  # that of the answer before it
    assert states(store) == [AnswerState.ANSWERED] * 3


def test_a_graded_job_has_news_when_another_run_brings_an_answer_or_asked_for_it_in_vain(engine: Engine) -> None:
    first, second = planned(engine, "one", ("r-1", "r-2")), planned(engine, "two", ("r-3",))
    for store in (first, second):
        assert store.set_graded(store.jobs()[0], NOW)
        assert not store.set_graded(store.jobs()[0], NOW)
    collect(first, {"r-1": ANSWERED, "r-2": ANSWERED})
    (job,) = second.jobs()
    assert (job.planned, job.graded, job.is_stale) == (True, True, True)
    assert second.unfinished([JOB.id]) == {JOB.id}
    assert second.set_graded(job, NOW)
    assert first.set_graded(first.jobs()[0], NOW)
    collect(second, {"r-3": FAILED})
    assert first.jobs()[0].is_stale  # where a request has no answer, its tables name who asked for it last


@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_what_another_run_asked_for_in_vain_is_asked_where_this_one_never_did(
    engine: Engine, is_withdrawn: bool
) -> None:
    first, second = planned(engine, "one"), planned(engine, "two", ("r-1",))
    assert [one.custom_id for one in first.requests_to_ask(JOB.id)] == []  # what the other one plans, it plans too
    if is_withdrawn:
        go(second, Lifecycle.ENDED, outcome=BatchOutcome.CANCELLED)
    collect(first, dict.fromkeys(NAMES, FAILED))
    wanted = ["r-1", "r-2", "r-3"] if is_withdrawn else ["r-2", "r-3"]
    assert [one.custom_id for one in second.requests_to_ask(JOB.id)] == wanted
    assert first.requests_to_ask(JOB.id) == []


def test_a_cancelled_run_counts_what_it_will_not_send_as_cancelled(engine: Engine) -> None:
    store = planned(engine, "one")
    collect(store, dict.fromkeys(NAMES, FAILED), NAMES)
    for is_cancelled in (False, True):
        (job,) = read_status(store).jobs
        assert (job.waiting, job.cancelled) == ((0, 3) if is_cancelled else (3, 0))
        store.set_cancelled(NOW)
    assert states(store) == [AnswerState.WANTED] * 3  # another run may ask for them


def test_answers_of_a_batch_that_was_to_be_sent_again_and_was_withdrawn_are_asked_for_by_others(engine: Engine) -> None:
    store = planned(engine, "one")
    go(store, Lifecycle.SUBMITTING)
    go(store, Lifecycle.PLANNED, given_up_creates=1)
    go(store, Lifecycle.ENDED, outcome=BatchOutcome.CANCELLED)
    collect(store, dict.fromkeys(NAMES, (RequestOutcome.CANCELLED, ErrorClass.NOT_EXECUTED)), NAMES)
    assert states(store) == [AnswerState.WANTED] * 3
    assert [request.custom_id for request in store.requests_to_ask(JOB.id)] == list(NAMES)
    other = planned(engine, "two", NAMES[:1])
    go(other, Lifecycle.SUBMITTING)
    go(other, Lifecycle.PLANNED, given_up_creates=2)
    assert other.given_up_creates(batch(0).id) == store.given_up_creates(batch(0).id) == 3  # for its first answer


def test_what_the_manifest_has_no_longer_failed_no_request_of_it(engine: Engine) -> None:
    store = planned(engine, "one")
    collect(store, dict(zip(NAMES, (ANSWERED, FAILED, UNCERTAIN), strict=True)))
    assert [location.custom_id for location in store.failed_requests()] == ["r-2", "r-3"]
    store.revise(Revision([], (), (JOB.id,), "digest", "items"), NOW)
    assert store.failed_requests() == []  # another run may try them once more: this one says nothing of it
