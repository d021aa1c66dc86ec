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
from layton_batch.store.reopening import retry
from tests.pipeline.test_drivers import TWO_MODELS
from tests.support.cli_harness import call, desk
from tests.support.lab import Lab, lab, manifest_text, quiz_text

FIRST, SECOND = r"-000001\b", r"-000002\b"


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
            assert retry(run.store, run.clock.now()) == 1
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


def retry_beside(bench: Lab, run: Run) -> int:
    """What `retry` does beside a process that drives the run."""
    with open_store(run.folder, bench.settings) as store:
        return retry(store, bench.clock.now())


def test_a_person_s_retry_beside_a_driver_is_sent_at_its_next_tick(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path, refused()) as bench:
        bench.finish(text)
        with bench.open(text) as run:
            assert [retry_beside(bench, run) for _ in range(2)] == [1, 0]
            assert not is_finished(run)
            status = drive(run, once=False, stop_at=None)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        check_books(bench, text, status)
        assert set(bench.billed().values()) == {1}


def cancel_beside(bench: Lab, run: Run) -> None:
    """What `cancel` does beside a driver that goes on."""
    with open_store(run.folder, bench.settings) as store:
        store.set_cancelled(bench.clock.now())


def test_a_cancel_after_a_retry_stands(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path, refused()) as bench:
        bench.finish(text)
        before = bench.billed()
        with bench.open(text) as run:
            assert retry_beside(bench, run) == 1
            cancel_beside(bench, run)
            assert drive(run, once=False, stop_at=None).state is RunState.CANCELLED
        assert bench.billed() == before


def test_a_retry_after_a_cancel_stands(tmp_path: Path) -> None:
    text = quiz_text()
    with lab(tmp_path, refused()) as bench:
        bench.finish(text)
        with bench.open(text) as run:
            cancel_beside(bench, run)
            assert retry_beside(bench, run) == 1
            status = drive(run, once=False, stop_at=None)
        check_books(bench, text, status)
        assert set(bench.billed().values()) == {1}


def test_a_retry_needs_no_file_of_the_batch_that_failed(tmp_path: Path) -> None:
    with lab(tmp_path, refused(times=2)) as bench:
        bench.finish(TWO_MODELS)
        with bench.open(TWO_MODELS) as run:
            damaged, _ = (one for one in run.store.batches() if one.provider == "openai")
            (bench.runs / damaged.path).unlink()
            assert retry_beside(bench, run) == 2
            status = drive(run, once=False, stop_at=None)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert set(bench.billed().values()) == {1}


def test_a_retry_beside_score_is_sent_by_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch, refused()) as bench:
        text = quiz_text()
        path = bench.write(text)
        assert call("run", path).code == 5
        with open_folder(find_run("lab", bench.lab.runs), bench.lab.settings, only_scores=True):
            end = call("retry", "lab")
        assert (end.code, end.err.strip()) == (0, "The next `run` sends 1 request again.")
        assert call("run", path).code == 0
        assert set(bench.lab.billed().values()) == {1}


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
            assert retry(run.store, run.clock.now()) == 1
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


@pytest.mark.parametrize("role", [Role.PREDICT, Role.JUDGE])
def test_an_answer_to_a_retry_is_used_though_it_came_while_the_job_was_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: Role
) -> None:
    text = manifest_text(limit=2)
    with lab(tmp_path, refused()) as bench, bench.open(text) as run:
        retried: list[int] = []
        while_grading(monkeypatch, role, lambda: retried.append(retry_beside(bench, run)))
        status = drive(run, once=False, stop_at=None)
        assert retried == [1]
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
