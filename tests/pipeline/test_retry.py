"""Attempts beside each other: by themselves, by a person's retry, asked for again. Whoever comes first, no two batches
have one name or file, nothing is bought twice, and no answer that was paid for stays unused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from layton_batch.batches import order_execution
from layton_batch.batches import retry as retrying
from layton_batch.batches.cancel import cancel_run
from layton_batch.batches.retry import retry_run
from layton_batch.errors import AnotherDriverError, LaytonBatchError, MissingKeyError, StaleStateError, StorageError
from layton_batch.loop import drive
from layton_batch.pipeline import advance, is_finished
from layton_batch.records import Item, Prompt
from layton_batch.runs.context import Run
from layton_batch.runs.folders import find_run
from layton_batch.runs.open import open_folder
from layton_batch.runs.status import RunState, Status
from layton_batch.runs.stores import open_store
from layton_batch.sandbox import Fault
from layton_batch.stages import grade as grading
from layton_batch.stages.job_tables import Grading
from layton_batch.states import Lifecycle, Role
from layton_batch.store.orders import OrderKind, give_order, pending_orders
from tests.pipeline.test_drivers import TWO_MODELS
from tests.support.cli_harness import call, desk
from tests.support.lab import Lab, lab, manifest_text, quiz_text
from tests.support.tiers import tiered

FIRST, SECOND = r"-000001\b", r"-000002\b"
LEASE = 121.0


def refused(match: str = FIRST, times: int = 1) -> Fault:
    """A permanent error: only a person has it sent again."""
    return Fault(on="row", action="error", status=400, provider="openai", match=match, times=times)


def passing(match: str, times: int = 1, after: int = 0) -> Fault:
    return Fault(on="row", action="error", status=500, provider="openai", match=match, times=times, after=after)


def malformed(match: str, after: int = 0) -> Fault:
    return Fault(on="row", action="malformed_text", provider="openai", match=match, after=after, times=1)


@contextmanager
def person(bench: Lab) -> Iterator[Run]:
    """Another process on the run, as a command opens it."""
    with open_folder(find_run("lab", bench.runs), bench.settings, bench.clock) as run:
        yield run


def tick_until(bench: Lab, text: str, reached: Callable[[Run], bool]) -> None:
    with bench.open(text) as run:
        for _ in range(200):
            advance(run)
            if reached(run):
                return
            bench.clock.sleep(15)
    raise AssertionError("never reached")


def second_in_flight(run: Run) -> bool:
    return any(batch.attempt == 2 and batch.state is Lifecycle.IN_FLIGHT for batch in run.store.batches())


def names(status: Status, provider: str = "openai") -> list[str]:
    return [f"{one.shard_id}.a{one.attempt}" for one in status.batches if one.provider == provider]


def check_books(bench: Lab, text: str, status: Status) -> None:
    """Done, every request answered, the bill and every batch's file as entered."""
    assert status.state is RunState.DONE
    assert status.unanswered == 0
    assert all(job.succeeded == job.requests for job in status.jobs)
    assert status.spent_usd == bench.server.ledger().total_usd
    for batch in status.batches:
        assert sha256((bench.runs / batch.path).read_bytes()).hexdigest() == batch.sha256
    assert len({batch.tag for batch in status.batches}) == len(status.batches)


def test_a_retry_while_an_attempt_is_in_flight_and_fails_once_more(tmp_path: Path) -> None:
    text = manifest_text(limit=3)
    with lab(tmp_path, refused(), passing(SECOND, 2)) as bench:
        tick_until(bench, text, second_in_flight)
        with person(bench) as run:
            assert retry_run(run) == 1
            assert not is_finished(run)
        status = bench.finish(text)
        assert names(status) == ["s0001.a1", "s0002.a2", "s0003.a2", "s0004.a3"]
        check_books(bench, text, status)
        assert set(bench.billed().values()) == {1}
        assert set(bench.table(text, "predictions")["kind"]) == {"answered"}
        assert bench.table(text, "verdicts").height == 3


def test_a_retry_takes_the_next_number_where_it_is_free_and_attempts_are_counted_along_the_line(tmp_path: Path) -> None:
    text = quiz_text(limit=3, top="[policy]\nattempts = 3")
    with lab(tmp_path, refused(times=1), passing(FIRST, times=9, after=1)) as bench:
        assert names(bench.finish(text)) == ["s0001.a1"]
        assert bench.retry() == 1
        status = bench.finish(text)
        assert names(status) == ["s0001.a1", "s0002.a2", "s0003.a3"]  # the third is the last that comes by itself
        assert status.unanswered == 1
        assert bench.retry() == 1
        status = bench.finish(text)
        assert names(status)[-1] == "s0004.a4"
        by_id = {batch.id: batch for batch in status.batches}
        assert all(by_id[str(one.parent_id)].attempt == one.attempt - 1 for one in by_id.values() if one.parent_id)


def test_replies_of_two_attempts_asked_again_together_do_not_meet_in_one_name(tmp_path: Path) -> None:
    text = quiz_text(limit=3, top="[policy]\nreask_unparsed = 1")
    faults = (malformed(FIRST), passing(SECOND), malformed(SECOND, after=1), passing(FIRST, after=1))
    with lab(tmp_path, *faults) as bench:
        status = bench.finish(text)
        assert names(status) == ["s0001.a1", "s0002.a2", "s0003.a2", "s0004.a3", "s0005.a3"]
        check_books(bench, text, status)
        assert sorted(bench.billed().values())[-3:] == [1, 2, 2]
        assert set(bench.table(text, "predictions")["kind"]) == {"answered"}


def test_a_reply_asked_again_after_a_refused_re_ask_is_counted_once(tmp_path: Path) -> None:
    text = quiz_text(limit=3, top="[policy]\nreask_unparsed = 2")
    again = Fault(on="row", action="error", status=400, provider="openai", match=FIRST, after=1, times=1)
    with lab(tmp_path, malformed(FIRST), again) as bench:
        status = bench.finish(text)
        assert names(status) == ["s0001.a1", "s0002.a2", "s0003.a3"]
        check_books(bench, text, status)
        assert set(bench.table(text, "predictions")["kind"]) == {"answered"}


def test_a_person_s_retry_beside_a_driver_is_carried_out_at_its_next_tick(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path, refused()) as bench:
        bench.finish(text)
        with bench.open(text) as run:
            with open_store(run.folder, bench.settings) as person:
                for kind in (OrderKind.RETRY, OrderKind.RETRY):
                    give_order(person, kind, bench.clock.now())
                give_order(person, OrderKind.RESUBMIT, bench.clock.now(), batch_id=run.store.batches()[0].id)
            assert not is_finished(run)
            status = drive(run, once=False, stop_at=None)
            told = [event.detail for event in run.store.events() if event.kind.startswith("order_")]
        assert told[0] == "retry: 1 request without an answer"
        assert told[1] == "retry: 0 requests without an answer"
        assert "not lost: there is nothing to resolve" in told[2]
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        check_books(bench, text, status)
        assert set(bench.billed().values()) == {1}


def test_an_order_that_lacks_a_key_is_refused_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text()

    def without_a_key(_run: Run, _batch_id: str) -> None:
        raise MissingKeyError("openai: OPENAI_API_KEY is not set")

    with lab(tmp_path) as bench, bench.open(text) as run:
        advance(run)
        with open_store(run.folder, bench.settings) as person:
            give_order(person, OrderKind.RESUBMIT, bench.clock.now(), batch_id=run.store.batches()[0].id)
        with monkeypatch.context() as patched:
            patched.setattr(order_execution, "send_again", without_a_key)
            advance(run)
        assert not pending_orders(run.store)
        (refused_order,) = [event.detail for event in run.store.events() if event.kind == "order_refused"]
        assert refused_order.endswith("OPENAI_API_KEY is not set")
        assert drive(run, once=False, stop_at=None).state is RunState.DONE


def cancel_beside(bench: Lab, run: Run) -> None:
    """What `cancel` does beside a driver that goes on."""
    with open_store(run.folder, bench.settings) as store:
        store.set_cancelled(bench.clock.now())


def order_retry(bench: Lab, run: Run) -> None:
    with open_store(run.folder, bench.settings) as store:
        give_order(store, OrderKind.RETRY, bench.clock.now())


def test_a_cancel_after_a_retry_was_ordered_takes_that_back(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path, refused()) as bench:
        bench.finish(text)
        before = bench.billed()
        with bench.open(text) as run:
            order_retry(bench, run)
            cancel_run(run)  # the run is done: there is nothing else to cancel
            assert not pending_orders(run.store)
            order_retry(bench, run)
            cancel_beside(bench, run)
            assert drive(run, once=False, stop_at=None).state is RunState.CANCELLED
            told = [event.kind for event in run.store.events()][-3:]
        assert told == ["order_taken_back", "run_cancelled", "order_taken_back"]
        assert bench.billed() == before


@pytest.mark.parametrize("was", [RunState.DONE, RunState.CANCELLED])
def test_a_cancel_while_a_retry_is_being_carried_out_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: RunState
) -> None:
    text = quiz_text()
    with lab(tmp_path, refused()) as bench:
        bench.finish(text)
        before = bench.billed()
        with bench.open(text) as run:
            if was is RunState.CANCELLED:
                cancel_beside(bench, run)
            order_retry(bench, run)
            original = retrying.is_cancelled

            def meanwhile(run: Run) -> bool:
                was_cancelled = original(run)
                if was is RunState.CANCELLED:
                    cancel_beside(bench, run)
                else:
                    run.store.take_back_retries(bench.clock.now())
                return was_cancelled

            monkeypatch.setattr(retrying, "is_cancelled", meanwhile)
            assert drive(run, once=False, stop_at=None).state is was
            assert not {event.kind for event in run.store.events()} & {"run_goes_on", "reopened", "order_carried_out"}
        assert bench.billed() == before


def test_an_order_to_retry_needs_no_file_of_the_batch_that_failed(tmp_path: Path) -> None:
    with lab(tmp_path, refused(times=2)) as bench:
        bench.finish(TWO_MODELS)
        with bench.open(TWO_MODELS) as run:
            damaged, _ = (one for one in run.store.batches() if one.provider == "openai")
            (bench.runs / damaged.path).unlink()
            order_retry(bench, run)
            status = drive(run, once=False, stop_at=None)
            told = [event.detail for event in run.store.events() if event.kind == "order_carried_out"]
        assert told == ["retry: 2 requests without an answer"]
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert set(bench.billed().values()) == {1}


@pytest.mark.parametrize("error", [StaleStateError("entered already"), StorageError("the disk is full")])
def test_an_order_is_refused_for_what_is_stored_and_waits_for_a_place_to_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: LaytonBatchError
) -> None:
    text = quiz_text()

    def fails(*_args: Any) -> None:
        raise error

    with lab(tmp_path, refused()) as bench:
        bench.finish(text)
        with bench.open(text) as run:
            order_retry(bench, run)
            monkeypatch.setattr(retrying, "reopen", fails)
            if isinstance(error, StorageError):
                with pytest.raises(StorageError):
                    drive(run, once=False, stop_at=None)
                assert pending_orders(run.store)
            else:
                assert drive(run, once=False, stop_at=None).state is RunState.DONE
                assert not pending_orders(run.store)
                assert run.store.events()[-1].detail == "retry: entered already"


def test_a_retry_beside_score_is_left_to_the_next_run_and_the_person_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, refused()) as bench:
        text = quiz_text()
        path = bench.write(text)
        assert call("run", path).code == 5
        with open_folder(find_run("lab", bench.lab.runs), bench.lab.settings, only_scores=True):
            end = call("retry", "lab")
        assert end.code == 0
        assert end.err.strip().endswith("carries out retry at its next step, or else the next `run` does; see `events`")
        assert call("run", path).code == 0
        assert set(bench.lab.billed().values()) == {1}


def test_a_retry_that_slept_while_another_process_made_its_own_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text()
    with lab(tmp_path, refused()) as bench:
        bench.finish(text)
        with person(bench) as slow:
            original = retrying.reopen

            def asleep(*args: Any, **options: Any) -> None:
                monkeypatch.undo()
                bench.clock.sleep(LEASE)
                with person(bench) as quick:
                    assert retry_run(quick) == 1
                original(*args, **options)

            monkeypatch.setattr(retrying, "reopen", asleep)
            with pytest.raises(AnotherDriverError):
                retry_run(slow)
        status = bench.finish(text)
        check_books(bench, text, status)
        assert names(status) == ["s0001.a1", "s0002.a2"]


def test_what_asks_something_else_by_now_is_asked_under_a_name_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text()
    with lab(tmp_path, refused()) as bench:
        bench.finish(text)
        with bench.open(text) as run:
            original = type(run.task).prompt

            def other(task: Any, item: Item) -> Prompt:
                return replace(original(task, item), system="Other words.")

            monkeypatch.setattr(type(run.task), "prompt", other)
            assert retry_run(run) == 1
            status = drive(run, once=False, stop_at=None)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        asked = bench.requests(text).filter(role="predict")
        assert asked["retired"].to_list() == [True] * 3 + [False] * 3
        assert asked["custom_id"].n_unique() == 6
        assert set(bench.billed().values()) == {1}


def while_grading(monkeypatch: pytest.MonkeyPatch, role: Role, action: Callable[[], None]) -> None:
    """When the first job of this role has been turned into tables and is not yet marked, something else happens."""
    original = grading.grade_job

    def interrupted(asked: Grading, *more: Any) -> None:
        original(asked, *more)
        if (asked.job.role is Role.PREDICT) == (role is Role.PREDICT):
            monkeypatch.undo()
            action()

    monkeypatch.setattr(grading, "grade_job", interrupted)


@pytest.mark.parametrize(
    ("role", "collected"),
    tiered((Role.PREDICT, Role.JUDGE), (False, True), ci=[(Role.PREDICT, False), (Role.JUDGE, True)]),
)
def test_an_answer_to_a_retry_is_used_though_grading_slept_through_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: Role, collected: bool
) -> None:
    text = manifest_text(limit=2)

    def meanwhile() -> None:
        bench.clock.sleep(LEASE)
        with person(bench) as run:
            assert retry_run(run) == 1
            for _ in range(6 if collected else 0):
                advance(run)
                bench.clock.sleep(25)

    with lab(tmp_path, refused()) as bench:
        while_grading(monkeypatch, role, meanwhile)
        with pytest.raises(AnotherDriverError):
            bench.finish(text)
        status = bench.finish(text)
        check_books(bench, text, status)
        assert set(bench.billed().values()) == {1}
        assert set(bench.table(text, "predictions")["kind"]) == {"answered"}
        assert bench.table(text, "verdicts").height == 2


def test_the_command_says_whether_something_goes_again_is_not_over_or_is_all_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, refused()) as bench:
        path = bench.write(quiz_text())
        assert call("run", path, "--once").code == 75
        said = [call("retry", "lab")]
        assert call("run", path).code == 5
        said += [call("retry", "lab"), call("retry", "lab")]
        assert call("run", path).code == 0
        said.append(call("retry", "lab"))
    assert [end.code for end in said] == [0, 0, 0, 0]
    assert [end.err.strip().partition(", and")[0] for end in said] == [
        "Nothing to retry; 1 batch is still open. `run` continues.",
        "The next `run` sends 1 request again.",
        "Nothing to retry; 1 request is still to be sent. `run` continues.",
        "Nothing to retry; every request has an answer",
    ]
