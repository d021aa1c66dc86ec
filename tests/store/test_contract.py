"""What every state store keeps, on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from layton_batch.clock import LONGEST_PAUSE, Pacing, is_due
from layton_batch.errors import IllegalMoveError, StaleStateError, StoreError
from layton_batch.records import Job
from layton_batch.redaction import Redactor
from layton_batch.states import Lifecycle, Role
from layton_batch.store.run_store import RunStore
from tests.support.store_rows import JOB, NOTHING, NOW, batch, moved, noted, opened, store_on

ALL = list(Lifecycle)
DAY = 86_400.0


def to_submitting(store: RunStore, at: float) -> None:
    mine = batch(0)
    store.apply(mine, moved(mine, Lifecycle.SUBMITTING, "submitting", submitting_at=at), at)


def test_what_is_entered_comes_back_as_it_was(url: str) -> None:
    with opened(url, 2, reason="why", due_at=NOW - 1.5) as store:
        assert store.batches() == [batch(0, reason="why", due_at=NOW - 1.5), batch(1, reason="why", due_at=NOW - 1.5)]
        (job,) = store.jobs()
        assert (job.id, job.spec, job.planned, job.graded) == (JOB.id, JOB.spec, True, False)
        assert store.batch(batch(1).id).max_cost == Decimal("0.50")
        with pytest.raises(StoreError, match="no batch 'nowhere'"):
            store.batch("nowhere")


def test_a_move_carries_its_money_and_event_or_nothing(store: RunStore) -> None:
    mine = batch(0)
    store.apply(mine, moved(mine, Lifecycle.SUBMITTING, "submitting"), NOW)
    assert (store.money().spent, store.money().reserved) == (Decimal(0), Decimal("0.50"))
    before = store.events()
    now = store.batch(mine.id)
    ended = moved(now, Lifecycle.ENDED, "refused", unknown_usd=Decimal("0.3"))
    nameless = replace(ended, events=(("refused", ""), (None, "")))  # type: ignore[arg-type]
    with pytest.raises(StoreError):  # an event of no kind cannot be kept, so nothing of this move happens
        store.apply(now, nameless, NOW)
    assert store.batch(mine.id).state is Lifecycle.SUBMITTING
    assert (store.money().spent, store.money().reserved) == (Decimal(0), Decimal("0.50"))
    assert store.events() == before


def job_of(store: RunStore, job_id: str = JOB.id) -> Job:
    return next(job for job in store.jobs() if job.id == job_id)


def test_one_job_is_planned_once_and_the_jobs_entered_once(store: RunStore) -> None:
    store.add_jobs([JOB], NOW)
    assert len(store.jobs()) == 1
    with pytest.raises(StaleStateError, match="is planned already"):
        store.plan_job(JOB, [batch(7)], NOW, NOTHING, ())
    assert store.set_graded(job_of(store), NOW)
    assert not store.set_graded(job_of(store), NOW)
    assert [event.kind for event in store.events()].count("job_graded") == 1


def test_a_job_of_which_there_is_news_since_it_was_read_is_not_done_nor_one_that_is_planned_again(url: str) -> None:
    with opened(url, 2) as store:
        before = job_of(store)
        store.add_batches(JOB, [batch(2)], NOW)
        assert not store.set_graded(before, NOW)
        with store.writing() as writing:
            store.plan_again(writing, [JOB.id])
        assert not store.set_graded(job_of(store), NOW)
        store.plan_job(job_of(store), [], NOW, NOTHING, ())
        assert store.set_graded(job_of(store), NOW)


def test_new_predictions_have_the_judges_jobs_planned_again(url: str) -> None:
    judging = replace(JOB, id="judge-m", role=Role.JUDGE, depends_on=JOB.id)
    with opened(url, jobs=(JOB, judging)) as store:
        assert store.set_graded(job_of(store), NOW)
        store.plan_job(judging, [], NOW, NOTHING, ())
        assert store.set_graded(judging, NOW)
        store.add_batches(JOB, [batch(1)], NOW)
        assert store.set_graded(job_of(store), NOW)
        assert [(job.id, job.planned, job.graded) for job in store.jobs()][1] == (judging.id, False, False)


def test_what_is_planned_still_after_a_tick_is_looked_at_again_soon_and_what_is_due_at_once(url: str) -> None:
    with opened(url, due_at=NOW - 50) as store:
        assert store.next_due(NOW, ALL, Pacing()) == NOW + 5  # a limit holds it back
        to_submitting(store, NOW)
        assert store.next_due(NOW + 7, ALL, Pacing()) == NOW - 50
    # an earlier clock said it
    with opened("sqlite://", state=Lifecycle.IN_FLIGHT, due_at=NOW + DAY) as store:
        assert store.next_due(NOW, ALL, Pacing()) == NOW
        assert store.next_due(NOW + DAY - 60, ALL, Pacing()) == NOW + DAY


def test_a_move_that_is_illegal_or_from_a_state_that_the_batch_has_left_changes_nothing(store: RunStore) -> None:
    with pytest.raises(IllegalMoveError):
        store.apply(batch(0), moved(batch(0), Lifecycle.COLLECTED, "collected"), NOW)
    to_submitting(store, NOW)
    with pytest.raises(StaleStateError, match="is no longer planned"):
        store.apply(batch(0), moved(batch(0), Lifecycle.ENDED, "withdrawn"), NOW)
    assert store.batch(batch(0).id).state is Lifecycle.SUBMITTING


def test_a_batch_of_a_provider_is_known_as_its_run_and_batch_to_every_other_one(url: str) -> None:
    with opened(url, 2) as store:
        store.apply(batch(0), noted(batch(0), "odd", provider_id="b-7"), NOW)
        assert store.owner_of("b-7", batch(1).id) == (store.run_id, batch(0).id)
        assert RunStore(store.engine, "another").owner_of("b-7", batch(0).id) == (store.run_id, batch(0).id)
        assert store.owner_of("b-7", batch(0).id) is store.owner_of("b-8", batch(1).id) is None


def test_texts_are_kept_without_keys_and_what_a_database_cannot_hold_and_ids_as_they_are(store: RunStore) -> None:
    redact = Redactor.of(["layton", "sk-live-0123456789"])
    store.clean, store.clean_id = redact, redact.without_keys
    ids = {"input_ref": "files/layton-7f", "results_ref": "files/layton-8", "provider_id": "batches/layton-9"}
    more = {"reason": "\x00 of layton", "errors_ref": "sk-live-0123456789", **ids}
    store.apply(batch(0), noted(batch(0), "odd", "a\x00b \ud800 sk-live-0123456789", **more), NOW)
    after = store.batch(batch(0).id)
    assert {name: getattr(after, name) for name in ids} == ids
    assert (after.reason, after.errors_ref) == ("\ufffd of [hidden]", "[hidden]")
    assert store.events()[-1].detail == "a\ufffdb \ufffd [hidden]"


def test_batches_stand_in_the_order_of_entry_whatever_became_of_them(url: str) -> None:
    with opened(url, 4) as store:
        looking = store_on(store.engine)
        assert [one.state for one in looking.batches()] == [Lifecycle.PLANNED] * 4
        for number in (3, 1):
            mine = store.batches()[number]
            for state in (Lifecycle.SUBMITTING, Lifecycle.IN_FLIGHT, Lifecycle.ENDED, Lifecycle.COLLECTED):
                mine = store.apply(mine, moved(mine, state), NOW)
            assert store.batches() == looking.batches() == store.batches([*Lifecycle])


@pytest.mark.parametrize(
    ("ahead", "due"), [(-DAY, True), (0.0, True), (1.0, False), (LONGEST_PAUSE, False), (LONGEST_PAUSE + 1, True)]
)
def test_a_moment_further_ahead_than_any_pause_has_come(ahead: float, due: bool) -> None:
    assert is_due(NOW + ahead, NOW) is due
