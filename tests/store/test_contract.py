"""What every state store keeps, on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal

import pytest

from layton_batch.clock import Pacing
from layton_batch.errors import IllegalMoveError, StaleStateError, StoreError
from layton_batch.records import Entry, RowCount
from layton_batch.states import ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.store.reopening import reopen
from layton_batch.store.rows import Money
from layton_batch.store.run_store import RunStore
from layton_batch.store.standing import HeldBack, ProviderLoad
from tests.store.rows import JOB, NOW, RUN, batch, moved, noted, opened, store_on

ALL = list(Lifecycle)


def to_submitting(store: RunStore, at: float, *, money: str = "0.50") -> None:
    (mine,) = store.claim(at)
    entries = [Entry(mine.id, "reserved", Decimal(money))]
    store.apply(mine, moved(mine, Lifecycle.SUBMITTING, "submitting", submitting_at=at, entries=entries), at)


def test_what_is_entered_comes_back_as_it_was(url: str) -> None:
    with opened(url, 2, reason="why", due_at=NOW - 1.5) as store:
        assert store.batches() == [batch(0, reason="why", due_at=NOW - 1.5), batch(1, reason="why", due_at=NOW - 1.5)]
        (job,) = store.jobs()
        assert (job.id, job.spec, job.requests, job.planned, job.graded) == (JOB.id, JOB.spec, 6, True, False)
        assert store.batch(batch(1).id).max_cost == Decimal("0.50")
        with pytest.raises(StoreError, match="no batch 'nowhere'"):
            store.batch("nowhere")


def test_a_move_carries_its_money_counts_children_and_event_or_nothing(url: str) -> None:
    with opened(url) as store:
        (mine,) = store.claim(NOW)
        entries = [Entry(mine.id, "reserved", Decimal("0.1")), Entry(mine.id, "reserved", Decimal("0.2"))]
        store.apply(mine, moved(mine, Lifecycle.SUBMITTING, "submitting", entries=entries), NOW)
        assert store.money() == Money(Decimal(0), Decimal("0.3"))
        before = store.events()
        now = store.batch(mine.id)
        entries = [Entry(mine.id, "released", Decimal("0.3"))]
        counts = [RowCount(mine.id, RequestOutcome.ERRORED, ErrorClass.INVALID_REQUEST, 3)]
        ended = moved(now, Lifecycle.ENDED, "refused", children=[batch(0)], entries=entries, counts=counts)
        with pytest.raises(StoreError):  # the child's id is taken, so nothing of this move happens
            store.apply(now, ended, NOW)
        assert store.batch(mine.id).state is Lifecycle.SUBMITTING
        assert store.money() == Money(Decimal(0), Decimal("0.3"))
        assert store.row_counts() == []
        assert store.events() == before


def test_a_move_that_the_table_does_not_allow_is_refused(url: str) -> None:
    with opened(url) as store:
        (mine,) = store.claim(NOW)
        with pytest.raises(IllegalMoveError):
            store.apply(mine, moved(mine, Lifecycle.COLLECTED, "collected"), NOW)


def test_a_claimed_batch_is_nobody_elses_until_it_is_let_go(url: str) -> None:
    with opened(url, 2) as store:
        other = store_on(store.engine)
        first = store.claim(NOW, ids=[batch(0).id])
        assert [one.id for one in first] == [batch(0).id]
        assert [one.id for one in other.claim(NOW)] == [batch(1).id]
        assert other.claim(NOW) == store.claim(NOW) == []
        with pytest.raises(StaleStateError, match="another process"):
            other.apply(first[0], noted(first[0], "seen"), NOW)
        store.release([first[0].id])
        assert [one.id for one in other.claim(NOW)] == [batch(0).id]


def test_who_let_a_lease_run_out_cannot_write_once_another_took_the_batch(url: str) -> None:
    with opened(url) as slow:
        quick = store_on(slow.engine)
        (mine,) = slow.claim(NOW)
        assert quick.claim(NOW + 119) == []
        (theirs,) = quick.claim(NOW + 121)
        for attempt in (
            lambda: slow.apply(mine, moved(mine, Lifecycle.SUBMITTING, "submitting"), NOW + 122),
            lambda: slow.apply(mine, noted(mine, "seen"), NOW + 122),
        ):
            with pytest.raises(StaleStateError):
                attempt()
        quick.apply(theirs, moved(theirs, Lifecycle.SUBMITTING, "submitting"), NOW + 122)
        assert [event.kind for event in slow.events()][-1] == "submitting"


def test_a_lease_that_ran_out_still_keeps_a_paid_id_but_does_not_pay(url: str) -> None:
    with opened(url) as store:
        (mine,) = store.claim(NOW)
        with pytest.raises(StaleStateError):
            store.apply(mine, moved(mine, Lifecycle.SUBMITTING, "submitting"), NOW + 500)
        store.apply(mine, moved(mine, Lifecycle.SUBMITTING, "submitting"), NOW + 100)
        store.apply(
            store.batch(mine.id),
            moved(store.batch(mine.id), Lifecycle.IN_FLIGHT, "submitted", provider_id="b-1"),
            NOW + 900,
        )
        assert store.batch(mine.id).provider_id == "b-1"


def test_renewing_keeps_a_batch_and_letting_go_of_everything_frees_it(url: str) -> None:
    with opened(url) as store:
        other = store_on(store.engine)
        store.claim(NOW)
        for later in (100.0, 200.0, 300.0):
            store.renew(NOW + later)
            assert other.claim(NOW + later + 50) == []
        store.close()
        assert len(other.claim(NOW + 301)) == 1


def test_whoever_never_claimed_a_batch_may_move_it_only_while_it_is_free(url: str) -> None:
    with opened(url) as store:
        person = store_on(store.engine)
        (mine,) = store.claim(NOW)
        with pytest.raises(StaleStateError):
            person.apply(mine, moved(mine, Lifecycle.ENDED, "withdrawn"), NOW)
        store.release([mine.id])
        person.apply(mine, moved(mine, Lifecycle.ENDED, "withdrawn"), NOW)
        assert person.batch(mine.id).state is Lifecycle.ENDED


def test_nothing_is_sent_once_the_run_is_cancelled(url: str) -> None:
    with opened(url) as store:
        (mine,) = store.claim(NOW)
        store_on(store.engine).set_cancelled(NOW)
        with pytest.raises(StaleStateError, match="cancelled"):
            store.apply(mine, moved(mine, Lifecycle.SUBMITTING, "submitting"), NOW)


def test_many_threads_of_many_holders_take_each_batch_once(url: str) -> None:
    with opened(url, 12) as store:
        holders = [store_on(store.engine) for _ in range(4)]
        start = threading.Barrier(len(holders))

        def work(holder: RunStore) -> list[str]:
            start.wait()
            return [one.id for number in range(12) for one in holder.claim(NOW, ids=[batch(number).id])]

        with ThreadPoolExecutor(len(holders)) as pool:
            taken = [name for names in pool.map(work, holders) for name in names]
    assert sorted(taken) == sorted({batch(number).id for number in range(12)})


def test_holders_that_claim_through_a_gate_never_break_it_together(url: str) -> None:
    def at_most_three(_one: object, standing: ProviderLoad) -> HeldBack | None:
        return HeldBack("held back: three are enough") if standing.running >= 3 else None

    with opened(url, 12) as store:
        holders = [store_on(store.engine) for _ in range(4)]
        with ThreadPoolExecutor(len(holders)) as pool:
            taken = list(pool.map(lambda holder: holder.claim(NOW, gate=at_most_three), holders))
        assert sum(map(len, taken)) == 3
        assert sum(one.reason == "held back: three are enough" for one in store.batches()) == 9


def test_one_job_is_planned_once_and_the_jobs_entered_once(url: str) -> None:
    with opened(url) as store:
        store_on(store.engine).add_jobs([JOB], NOW)
        assert len(store.jobs()) == 1
        with pytest.raises(StaleStateError, match="planned by another process"):
            store_on(store.engine).plan_job(JOB, [batch(7)], NOW)
        assert store.set_graded(JOB.id, NOW, 1)
        assert not store_on(store.engine).set_graded(JOB.id, NOW, 1)
        assert [event.kind for event in store.events()].count("job_graded") == 1


def test_a_job_that_has_other_batches_than_were_graded_is_not_done_nor_one_that_is_planned_again(url: str) -> None:
    with opened(url, 2) as store:
        assert not store.set_graded(JOB.id, NOW, 1)
        reopen(store, [batch(2)], {}, NOW, detail="again", unplanned=[JOB.id])
        assert not store.set_graded(JOB.id, NOW, 3)
        store.plan_job(JOB, [], NOW)
        assert not store.set_graded(JOB.id, NOW, 2)
        assert store.set_graded(JOB.id, NOW, 3)


def test_new_predictions_have_the_judges_jobs_planned_again(url: str) -> None:
    judging = replace(JOB, id="judge-m", role=Role.JUDGE, depends_on=JOB.id)
    with opened(url, jobs=(JOB, judging)) as store:
        assert store.set_graded(JOB.id, NOW, 1)
        store.plan_job(judging, [], NOW)
        assert store.set_graded(judging.id, NOW, 0)
        reopen(store, [batch(1)], {}, NOW, detail="again", ungraded=[JOB.id])
        assert store.set_graded(JOB.id, NOW, 2)
        assert [(job.id, job.planned, job.graded) for job in store.jobs()][1] == (judging.id, False, False)


def test_rows_go_again_once_and_with_the_batch_that_repeats_them_or_not_at_all(url: str) -> None:
    key = (batch(0).id, RequestOutcome.ERRORED, ErrorClass.INVALID_REQUEST)
    with opened(url) as store:
        to_submitting(store, NOW)
        store.apply(
            store.batch(key[0]),
            moved(store.batch(key[0]), Lifecycle.ENDED, "refused", counts=[RowCount(*key, count=3)]),
            NOW,
        )
        reopen(store, [batch(1)], {key: 2}, NOW, detail="again")
        for number in (2, 3):
            with pytest.raises(StaleStateError, match="another process was first"):
                reopen(store_on(store.engine), [batch(number)], {key: 2}, NOW, detail="again", ungraded=[JOB.id])
        assert [row.resubmitted for row in store.row_counts()] == [2]
        assert [one.id for one in store.batches()] == [batch(0).id, batch(1).id]


def test_the_desk_is_one_holders_at_a_time_and_is_not_lost_with_it(url: str) -> None:
    with opened(url) as store:
        other = store_on(store.engine)
        assert store.claim_named("desk", NOW)
        assert not other.claim_named("desk", NOW)
        assert other.in_other_hands("desk", NOW)
        assert not store.in_other_hands("desk", NOW)
        assert other.claim_named("desk", NOW + 121)
        assert not store.release_named("desk")  # it was taken meanwhile, and stays taken
        assert other.release_named("desk")
        assert store.claim_named("desk", NOW + 122)


def test_what_others_have_in_hand_is_looked_at_again_soon_and_not_at_once(url: str) -> None:
    with opened(url, due_at=NOW - 50) as store:
        other = store_on(store.engine)
        assert other.next_due(NOW, ALL, Pacing()) == NOW + 5  # still planned after a tick: a limit holds it back
        to_submitting(store, NOW)
        assert other.next_due(NOW, ALL, Pacing()) == NOW + 1
        assert other.next_due(NOW + 121, ALL, Pacing()) == NOW - 50


def test_text_that_a_database_cannot_hold_is_kept_without_what_it_cannot(url: str) -> None:
    with opened(url) as store:
        store.clean = lambda text: text.replace("sk-secret", "[hidden]")
        store.apply(batch(0), noted(batch(0), "odd", detail="a\x00b \ud800 sk-secret", reason="\x00sk-secret"), NOW)
        assert store.events()[-1].detail == "a\ufffdb \ufffd [hidden]"
        assert store.batch(batch(0).id).reason == "\ufffd[hidden]"


def test_listeners_hear_of_what_was_committed_and_of_nothing_else(url: str) -> None:
    with opened(url) as store:
        heard: list[tuple[int, str]] = []
        store.listen = lambda event: heard.append((event.seq, event.kind))
        store.apply(batch(0), noted(batch(0), "one"), NOW)
        with pytest.raises(StaleStateError):
            store.apply(batch(0, state=Lifecycle.ENDED), noted(batch(0, state=Lifecycle.ENDED), "never"), NOW)
        store.add_event(NOW, None, "two", "")
        assert heard == [(event.seq, event.kind) for event in store.events()][-2:]


def test_many_processes_entering_one_run_at_once_make_one(url: str) -> None:
    with opened(url) as store:
        stores = [RunStore(store.engine, "fresh") for _ in range(6)]
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda one: one.create("f" * 64, "{}", "0", NOW, prices=str), stores))
            list(pool.map(lambda one: one.add_jobs([JOB], NOW), stores))
        assert [event.kind for event in stores[0].events()] == ["run_created", "jobs_planned"]
        assert store.run_id == RUN


def test_a_bound_does_not_change_while_the_batch_is_being_sent_by_another_thread_of_ours(url: str) -> None:
    with opened(url, 2) as store:
        (mine,) = store.claim(NOW, ids=[batch(0).id])
        assert store.reprice(store.batches(), {batch(number).id: Decimal(7) for number in range(2)}, NOW, new=False)
        assert [one.max_cost for one in store.batches()] == [mine.max_cost, Decimal(7)]
