"""An answer is one row for the whole database: who may ask for it, and what is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from layton_batch.errors import SentElsewhereError, StaleStateError
from layton_batch.records import Batch, Content, End, Job
from layton_batch.states import AnswerState, ErrorClass, Lifecycle, RequestOutcome
from layton_batch.store.engine import open_engine
from layton_batch.store.request_rows import NewRequests, asked_again
from layton_batch.store.run_store import RunStore
from tests.store.rows import JOB, NOW, SPEC, batch, moved

PRINTS = tuple(bytes([number]) * 32 for number in range(3))
NAMES = ("r-1", "r-2", "r-3")
ANSWERED: End = (RequestOutcome.SUCCEEDED, ErrorClass.NONE)
FAILED: End = (RequestOutcome.EXPIRED, ErrorClass.NOT_EXECUTED)
UNCERTAIN: End = (RequestOutcome.ERRORED, ErrorClass.UNREADABLE)


@contextmanager
def database(url: str) -> Iterator[Engine]:
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def planned(engine: Engine, run_id: str, names: tuple[str, ...] = NAMES, reask: int = 0) -> RunStore:
    """A driven run whose one batch asks for the answers of these requests."""
    store = RunStore(engine, run_id)
    store.lease.clock = lambda: NOW
    store.enter("0123abcd" * 8, "{}", "0", NOW)
    store.drive()
    store.add_jobs([JOB], NOW)
    first = batch(0, reask=reask, content=Content(names))
    store.plan_job(JOB, [first], NOW, new=NewRequests(NAMES, ("a", "b", "c"), PRINTS))
    return store


def go(store: RunStore, state: Lifecycle, ends: Mapping[str, End] | None = None, **changes: object) -> Batch:
    """Move the run's one batch."""
    before = store.batch(batch(0).id)
    return store.apply(before, replace(moved(before, state, **changes), ends=ends or {}), NOW)


def collect(store: RunStore, ends: Mapping[str, End]) -> None:
    for state in (Lifecycle.SUBMITTING, Lifecycle.IN_FLIGHT, Lifecycle.ENDED):
        go(store, state)
    go(store, Lifecycle.COLLECTED, ends)


def states(store: RunStore) -> list[AnswerState | None]:
    known = store.known_answers(PRINTS)
    return [known[print_].state if print_ in known else None for print_ in PRINTS]


def test_answers_follow_the_batch_that_asks_for_them(url: str) -> None:
    with database(url) as engine:
        store = planned(engine, "one")
        assert states(store) == [AnswerState.WANTED] * 3
        go(store, Lifecycle.SUBMITTING)
        assert states(store) == [AnswerState.SENT] * 3
        go(store, Lifecycle.PLANNED)
        assert states(store) == [AnswerState.WANTED] * 3
        collect(store, dict(zip(NAMES, (ANSWERED, FAILED, UNCERTAIN), strict=True)))
        assert states(store) == [AnswerState.ANSWERED, AnswerState.FAILED, AnswerState.UNCERTAIN]
        known = store.known_answers(PRINTS[:1])[PRINTS[0]]
        assert (known.run_id, known.batch_id, known.custom_id, known.is_open) == ("one", batch(0).id, "r-1", False)


@pytest.mark.parametrize("is_collected", [False, True], ids=["sent", "answered"])
def test_a_batch_is_not_sent_while_another_run_has_or_asks_for_one_of_its_answers(url: str, is_collected: bool) -> None:
    with database(url) as engine:
        first, second = planned(engine, "one", ("r-3",)), planned(engine, "two")
        if is_collected:
            collect(first, {"r-3": ANSWERED})
        else:
            go(first, Lifecycle.SUBMITTING)
        with pytest.raises(SentElsewhereError, match=r"1 of its 3 answers .* run one"):
            go(second, Lifecycle.SUBMITTING)
        assert second.batch(batch(0).id).state is Lifecycle.PLANNED
        assert states(second)[:2] == [AnswerState.WANTED] * 2


def test_what_another_run_did_not_get_may_be_asked(url: str) -> None:
    with database(url) as engine:
        first, second = planned(engine, "one"), planned(engine, "two")
        collect(first, dict.fromkeys(NAMES, FAILED))
        go(second, Lifecycle.SUBMITTING)
        assert states(first) == [AnswerState.SENT] * 3
        assert {known.run_id for known in first.known_answers(PRINTS).values()} == {"two"}


def test_a_create_that_may_have_been_carried_out_keeps_others_out(url: str) -> None:
    with database(url) as engine:
        first, second = planned(engine, "one"), planned(engine, "two")
        sent = go(first, Lifecycle.SUBMITTING)
        go(first, Lifecycle.PLANNED, facts=replace(sent.facts, absent_creates=1))
        with pytest.raises(SentElsewhereError):
            go(second, Lifecycle.SUBMITTING)
        go(first, Lifecycle.SUBMITTING)


def test_an_answer_that_is_asked_for_again_is_another_one(url: str) -> None:
    with database(url) as engine:
        store = planned(engine, "one")
        collect(store, dict.fromkeys(NAMES, ANSWERED))
        again = planned(engine, "two", ("r-1",), reask=1)
        go(again, Lifecycle.SUBMITTING)
        further = asked_again(PRINTS[0], 1)
        assert store.known_answers([*PRINTS, further])[further].state is AnswerState.SENT
        assert states(store) == [AnswerState.ANSWERED] * 3


def test_requests_are_retired_and_wanted_again(url: str) -> None:
    with database(url) as engine:
        store = planned(engine, "one")
        store.keep_requests(JOB.id, {"r-2"})
        assert store.wanted_items(JOB.id) == ["b"]
        store.keep_requests(JOB.id, {"r-1", "r-2"})
        assert sorted(store.wanted_items(JOB.id)) == ["a", "b"]
        assert store.wanted_fingerprints() == frozenset(PRINTS)
        assert store.fingerprints(JOB.id) == dict(zip(NAMES, PRINTS, strict=True))


def test_open_batches_are_told_from_collected_ones_whosever_they_are(url: str) -> None:
    with database(url) as engine:
        first, second = planned(engine, "one"), planned(engine, "two")
        key = first.known_answers(PRINTS)[PRINTS[0]].key
        assert second.open_among({key}) == {key}
        collect(first, dict.fromkeys(NAMES, ANSWERED))
        assert second.open_among({key}) == frozenset()


def test_answers_that_came_from_a_file_have_no_fingerprints(url: str) -> None:
    with database(url) as engine:
        store = planned(engine, "one")
        imported = Job("predict-file", JOB.role, replace(SPEC, name="file"), planned=True)
        over = batch(1, id="predict-file.imported", job_id=imported.id, state=Lifecycle.COLLECTED)
        store.add_jobs([JOB, imported], NOW, [over], requests=NewRequests(NAMES, ("a", "b", "c"), [None] * 3))
        assert store.fingerprints(imported.id) == {}
        assert store.wanted_items(imported.id) == ["a", "b", "c"]
        with pytest.raises(StaleStateError, match="predict-file of run one are there already"):
            store.add_jobs([JOB, imported], NOW, [replace(over, id="predict-file.more")])
