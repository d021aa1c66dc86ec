"""A run whose only way on is a person's word says so, whatever lies planned beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from layton_batch.records import Job
from layton_batch.runs.status import RunState, read_status
from layton_batch.states import Lifecycle, Role
from layton_batch.store.engine import sqlite_url
from tests.support.store_rows import JOB, NOTHING, NOW, SPEC, batch, moved, opened

JUDGE = Job("judge-x--m", Role.JUDGE, replace(SPEC, name="x"), depends_on=JOB.id)


def test_what_is_planned_for_judges_that_wait_for_a_lost_batch_does_not_go_on_by_itself(tmp_path: Path) -> None:
    with opened(sqlite_url(tmp_path / "state.sqlite3"), jobs=(JOB, JUDGE)) as store:
        judges = batch(9, id="judge-x--m.s0001.a1", job_id=JUDGE.id)
        store.plan_job(JUDGE, [judges], NOW, NOTHING, ())
        lost = store.batches()[0]
        for state in (Lifecycle.SUBMITTING, Lifecycle.LOST):
            lost = store.apply(lost, moved(lost, state), NOW)
        assert read_status(store).state is RunState.RUNNING  # the judges' batch is sent
        store.ask_anew(JUDGE.id)
        assert read_status(store).state is RunState.NEEDS_PERSON
