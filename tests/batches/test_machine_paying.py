"""From planned to in flight: what each reply, refusal and look makes of a batch, without any I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from layton_batch.batches import machine
from layton_batch.batches.machine import DecisionLimits
from layton_batch.clock import utc
from layton_batch.errors import (
    AmbiguousCallError,
    FileError,
    LookUpRefusedError,
    ProviderError,
    ProviderReplyError,
    TransientProviderError,
)
from layton_batch.records import Account, Batch, BatchFacts, MatchingBatch, Move, Wait
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle
from layton_batch.store.standing import ProviderLoad, UnclearCreates
from tests.support.batch_states import (
    AT,
    COST,
    DAY,
    LOOKS,
    NO_CREDIT,
    NO_QUOTA,
    PACING,
    UNLISTED,
    WRONG_KEY,
    busy,
    check,
    differs,
    ended,
    flying,
    planned,
    refused,
    submitting,
    told,
)
from tests.support.store_rows import NOW

# ---- before the create ---------------------------------------------------------------------------------------------


def test_a_batch_whose_file_was_changed_stays_due_and_says_so_once() -> None:
    before, error = planned(), FileError("its file was changed")
    decision = machine.after_file_trouble(before, error)
    check(before, decision, Wait, reason="its file was changed", needs_person=True)
    assert told(decision) == ["file_changed"]
    again = machine.after_file_trouble(decision.after, error)
    assert (differs(decision.after, again), again.events) == ({}, ())


@pytest.mark.parametrize(
    ("error", "pause", "tries"),
    [
        (busy(), 5.0, machine.FAILED_CALLS),
        (busy(120.0), 120.0, machine.FAILED_CALLS),
        (busy(99_999.0), 900.0, machine.FAILED_CALLS),
        (AmbiguousCallError("timeout"), 5.0, machine.FAILED_CALLS),
        (ProviderReplyError("a page of HTML"), 5.0, machine.FAILED_CALLS),
        (refused(401), 5.0, machine.REFUSED_CALLS),
        (NO_CREDIT, 5.0, machine.REFUSED_CALLS),
        (NO_QUOTA, 5.0, machine.REFUSED_CALLS),
        (refused(403), 5.0, machine.REFUSED_CALLS),
        (refused(404), 5.0, machine.REFUSED_CALLS),
        (refused(405), 5.0, machine.REFUSED_CALLS),
        (LookUpRefusedError("GET /files: 404", status=404), 5.0, machine.REFUSED_CALLS),
        (LookUpRefusedError("GET /files: 400", status=400), 5.0, machine.REFUSED_CALLS),
        (LookUpRefusedError("GET /files: 401", status=401), 5.0, machine.REFUSED_CALLS),
    ],
)
def test_a_free_call_that_fails_before_the_create_is_tried_later_and_a_person_is_told_in_the_end(
    error: ProviderError, pause: float, tries: int
) -> None:
    for failed, needs_person in ((0, False), (tries - 2, False), (tries - 1, True)):
        before = planned(facts=BatchFacts(failed_calls=failed))
        decision = machine.after_upload(before, error, AT)
        reason, facts = str(decision.after.reason), BatchFacts(failed_calls=failed + 1)
        more: dict[str, object] = {"needs_person": True} if needs_person else {}
        if error.status is not None:
            more["failed_status"] = error.status
        check(before, decision, Wait, reason=reason, due_at=NOW + pause, failures=1, facts=facts, **more)
        assert reason.startswith(f"not sent: {before.provider}")
        assert told(decision) == ["upload_failed"]


def test_a_provider_that_an_upload_does_not_reach_is_not_said_to_refuse_the_file() -> None:
    decision = machine.after_upload(planned(), TransientProviderError("Connection refused", is_sent=False), AT)
    assert decision.after.reason == f"not sent: {planned().provider} cannot be reached: Connection refused"


@pytest.mark.parametrize(
    ("status", "facts", "error_class"),
    [
        (400, BatchFacts(), ErrorClass.INVALID_REQUEST),
        (413, BatchFacts(), ErrorClass.TOO_LARGE),
        (422, BatchFacts(), ErrorClass.INVALID_REQUEST),
        (404, BatchFacts(not_found=machine.TRIES - 1), ErrorClass.INVALID_REQUEST),
    ],
)
def test_what_is_refused_for_good_ends(status: int, facts: BatchFacts, error_class: ErrorClass) -> None:
    of_file = [(planned(), machine.after_upload(planned(), refused(status), AT))] if facts == BatchFacts() else []
    of_create = (submitting(facts=facts), machine.after_create(submitting(facts=facts), refused(status), AT))
    for _, decision in (*of_file, of_create):
        assert isinstance(decision, Move)
        assert (decision.after.state, decision.after.outcome) == (Lifecycle.ENDED, BatchOutcome.FAILED)
        assert (decision.after.error_class, decision.after.ended_at) == (error_class, NOW)
        assert told(decision) == ["refused"]


@pytest.mark.parametrize(
    ("error", "looks"),
    [
        (refused(403), machine.REFUSED_CALLS),
        (refused(401), machine.REFUSED_CALLS),
        (busy(), machine.FAILED_CALLS),
        (ProviderReplyError("a page of HTML"), machine.FAILED_CALLS),
    ],
)
def test_nothing_is_sent_while_the_list_cannot_be_read_and_a_person_is_told_in_the_end(
    error: ProviderError, looks: int
) -> None:
    for before, needs_person in ((looks - 2, False), (looks - 1, True)):
        decision = machine.after_unread_list(planned(facts=BatchFacts(failed_calls=before)), error, AT)
        assert type(decision) is Wait
        assert decision.after.facts.failed_calls == before + 1
        assert decision.after.needs_person is needs_person
        assert decision.after.due_at > NOW


def test_a_withdrawn_batch_is_over_before_it_was_sent() -> None:
    before = planned(due_at=NOW + DAY)
    decision = machine.withdrawn(before, "the run was cancelled before this was sent", NOW)
    check(
        before, decision, Move, state=Lifecycle.ENDED, outcome=BatchOutcome.CANCELLED, due_at=NOW, ended_at=NOW,
        error_class=ErrorClass.NOT_EXECUTED, reason="the run was cancelled before this was sent",
    )  # fmt: skip
    assert decision == Move(decision.after, (("withdrawn", "never sent"),))  # nothing was reserved for it


def test_an_intent_sets_money_aside_and_counts_looks_anew() -> None:
    before = planned(needs_person=True, reason="old", facts=BatchFacts(3, 4, 5, 1, absent_creates=1))
    decision = machine.before_create(before, "file-1", AT)
    check(
        before, decision, Move, state=Lifecycle.SUBMITTING, input_ref="file-1", submitting_at=NOW, reason=None,
        needs_person=False, facts=BatchFacts(0, 0, 5, 1, absent_creates=1),
    )  # fmt: skip
    paid = machine.before_create(before, "file-1", replace(AT, account=Account("key", "organisation"))).after
    assert (paid.account, paid.organisation) == ("key", "organisation")


@pytest.mark.parametrize(("age", "is_fresh"), [(0.0, True), (60.0, True), (-60.0, True), (61.0, False), (-61.0, False)])
def test_an_intent_too_old_or_of_another_time_is_looked_for(age: float, is_fresh: bool) -> None:
    before = submitting(submitting_at=NOW - age, facts=BatchFacts(2, 2))
    decision = machine.before_call(before, AT)
    assert (decision is None) is is_fresh
    if decision is not None:
        check(before, decision, Wait, reason=decision.after.reason, facts=BatchFacts())
        assert told(decision) == ["create_unclear"]


# ---- the create ----------------------------------------------------------------------------------------------------


def test_a_reply_with_an_id_puts_the_batch_in_flight() -> None:
    before = submitting(failures=2, reason="old", facts=BatchFacts(failed_calls=3))
    decision = machine.after_create(before, "b-1", AT)
    check(
        before, decision, Move, state=Lifecycle.IN_FLIGHT, provider_id="b-1", submitted_at=NOW, due_at=NOW + 5.0,
        deadline_at=NOW + 2 * DAY, failures=0, reason=None, facts=BatchFacts(),
    )  # fmt: skip
    assert decision.events == (("submitted", "b-1"),)
    quick = replace(AT, poll=1.0)
    assert machine.after_create(before, "b-1", quick).after.due_at == NOW + 1.0


@pytest.mark.parametrize(
    ("reply", "event", "pause", "input_ref", "failures", "facts"),
    [
        (busy(), "not_created", 10.0, "file-1", 2, BatchFacts()),
        (busy(60.0), "not_created", 60.0, "file-1", 2, BatchFacts()),
        (FileError("it is gone"), "not_created", 0.0, "file-1", 0, BatchFacts()),
        (refused(401), "refused_401", 10.0, "file-1", 2, BatchFacts(failed_calls=1)),
        (refused(403), "refused_403", 10.0, None, 2, BatchFacts(failed_calls=1)),
        (NO_CREDIT, "refused_400", 10.0, None, 2, BatchFacts(failed_calls=1)),
        (NO_QUOTA, "not_created", 10.0, "file-1", 2, BatchFacts(failed_calls=1)),
        (refused(404), "refused_404", 10.0, None, 2, BatchFacts(not_found=1)),
        (TransientProviderError("gone", status=404), "not_created", 10.0, None, 2, BatchFacts()),
    ],
)
def test_a_create_that_certainly_did_nothing_goes_again(
    reply: ProviderError | FileError, event: str, pause: float, input_ref: str | None, failures: int, facts: BatchFacts
) -> None:
    decision = machine.after_create(submitting(failures=1), reply, AT)
    assert isinstance(decision, Move)
    after = decision.after
    assert (after.state, after.due_at, after.input_ref) == (Lifecycle.PLANNED, NOW + pause, input_ref)
    assert (after.failures, after.facts) == (failures, facts)
    assert told(decision) == [event]


@pytest.mark.parametrize("error", [refused(401), refused(402), refused(403), WRONG_KEY, NO_CREDIT, NO_QUOTA])
def test_the_accounts_trouble_ends_no_batch_and_a_person_is_told_in_the_end(error: ProviderError) -> None:
    tries = machine.REFUSED_CALLS
    for failed, needs_person in ((0, False), (tries - 2, False), (tries - 1, True), (9 * tries, True)):
        decision = machine.after_create(submitting(facts=BatchFacts(failed_calls=failed)), error, AT)
        assert (decision.after.state, decision.after.needs_person) == (Lifecycle.PLANNED, needs_person)
        assert str(error) in str(decision.after.reason)
        looked = look(submitting(facts=BatchFacts(unsure_looks=failed), submitting_at=NOW - DAY), error)
        if error.status != machine.FORBIDDEN:  # a key may never read the list, and nobody else can tell then
            assert (looked.after.state, looked.after.needs_person) == (Lifecycle.SUBMITTING, needs_person)
        assert not look(looked.after, []).after.needs_person
    assert type(machine.after_upload(planned(), error, AT)) is Wait


@pytest.mark.parametrize("reply", [AmbiguousCallError("timeout"), ProviderReplyError("no id"), ProviderError("odd")])
def test_a_create_without_a_clear_answer_is_looked_for_and_keeps_its_money(reply: ProviderError) -> None:
    before = submitting(failures=3, facts=BatchFacts(2, 2))
    decision = machine.after_create(before, reply, AT)
    due = NOW + PACING.looks[0]
    check(before, decision, Wait, reason=str(reply), failures=0, due_at=due, facts=BatchFacts(), unclear_since=NOW)
    assert told(decision) == ["create_unclear"]
    earlier = machine.after_create(replace(before, unclear_since=NOW - DAY), reply, AT)
    assert earlier.after.unclear_since == NOW - DAY


CLEAR: list[str | ProviderError | FileError] = ["b-1", busy(), refused(400), refused(401), FileError("it is gone")]


@pytest.mark.parametrize("reply", CLEAR)
def test_a_clear_answer_ends_the_outage_of_its_batch(reply: str | ProviderError | FileError) -> None:
    assert machine.after_create(submitting(unclear_since=NOW - DAY), reply, AT).after.unclear_since is None


def outage(number: int, last: float, status: int | None = 503) -> ProviderLoad:
    return ProviderLoad(unclear=UnclearCreates(number, NOW - 7200.0, last, status))


@pytest.mark.parametrize(
    ("load", "facts", "due"),
    [
        (ProviderLoad(), BatchFacts(), None),
        (ProviderLoad(sending=3), BatchFacts(absent_creates=2), None),
        *((outage(n, NOW), BatchFacts(), 60.0 * pause) for n, pause in ((1, 1), (2, 2), (3, 4), (5, 16), (6, 30))),
        (outage(99, NOW), BatchFacts(), 1800.0),
        (outage(1, NOW - 59.0), BatchFacts(), 1.0),
        (outage(1, NOW - 60.0), BatchFacts(), None),
        (outage(99, NOW - 1800.0), BatchFacts(absent_creates=1), None),
        (outage(99, NOW - 1800.0), BatchFacts(absent_creates=2), 1600.0),
        (outage(99, NOW - 9000.0), BatchFacts(absent_creates=2), 1600.0),
        (outage(1, NOW + 9000.0), BatchFacts(), None),  # our clock was put back
    ],
)
def test_after_unclear_creates_a_provider_gets_one_create_at_a_time_with_growing_pauses(
    load: ProviderLoad, facts: BatchFacts, due: float | None
) -> None:
    before = planned(facts=facts, submitting_at=NOW - 2000.0)
    decision = machine.paused(before, load, NOW, PACING)
    if due is None:
        assert decision is None
        if load.unclear is not None:  # another one is tried: the rest is due as before
            rest = machine.paused(before, load.plus(before, NOW), NOW, PACING)
            assert rest is not None
            check(before, rest, Wait, reason=rest.after.reason)
        return
    assert decision is not None
    check(before, decision, Wait, due_at=NOW + due, reason=decision.after.reason)


@pytest.mark.parametrize(("status", "words"), [(503, "answered with HTTP 503"), (None, "not answered")])
def test_an_outage_is_said_with_its_begin_and_the_next_try(status: int | None, words: str) -> None:
    decision = machine.paused(planned(), outage(6, NOW, status), NOW, PACING)
    assert decision is not None
    since, until = (f"{utc(moment):%H:%M} UTC" for moment in (NOW - 7200.0, NOW + 1800.0))
    expected = f"{planned().provider}: creates {words} since {since}; next try {until}"
    assert decision.after.reason == machine.HELD + expected


# ---- is it there ---------------------------------------------------------------------------------------------------

OURS, SHY = MatchingBatch("b-1", certain=True), MatchingBatch("b-2", certain=False, may_tell=True)
MUTE, NAMELESS = MatchingBatch("b-3", certain=False), MatchingBatch("", certain=True)


def look(
    before: Batch, found: Sequence[MatchingBatch] | ProviderError, at: DecisionLimits = AT, absent_creates: int = 0
) -> Move | Wait:
    return machine.after_look(before, found, at, bound=COST, absent_creates=absent_creates)


MADE = {"account": "key", "organisation": "acme"}
"""The account of a create, as digests."""


@pytest.mark.parametrize("account", [Account("other", "acme"), Account("key", "other"), Account("other")])
@pytest.mark.parametrize("found", [(), (OURS,), (SHY,), TransientProviderError("busy"), refused(401)])
def test_under_another_account_a_person_decides_and_nothing_is_sent(
    account: Account, found: Sequence[MatchingBatch] | ProviderError
) -> None:
    before = submitting(**MADE, facts=BatchFacts(absent_looks=LOOKS))
    decision = look(before, found, replace(AT, account=account))
    check(before, decision, Move, state=Lifecycle.LOST, reason=decision.after.reason)
    assert "created with another key" in (decision.after.reason or "")
    assert told(decision) == ["lost"]


@pytest.mark.parametrize("account", [Account("key", "acme"), Account("key"), Account()])
def test_the_same_account_or_an_unknown_one_is_no_other(account: Account) -> None:
    now = replace(AT, account=account)
    assert look(submitting(**MADE), [OURS], now).after.state is Lifecycle.IN_FLIGHT
    assert look(submitting(), [OURS], now).after.state is Lifecycle.IN_FLIGHT


def test_what_is_at_another_account_is_said_once() -> None:
    now = replace(AT, account=Account("other"))
    for before in (flying(**MADE), flying(**MADE, state=Lifecycle.CANCELLING), ended(**MADE)):
        decision = machine.under_another_account(before, now)
        assert decision is not None
        check(before, decision, Wait, facts=BatchFacts(other_account_told=True))
        assert told(decision) == ["other_account"]
        assert machine.under_another_account(decision.after, now) is None
        assert machine.under_another_account(before, replace(AT, account=Account("key", "acme"))) is None
    for before in (planned(**MADE), submitting(**MADE), ended(**MADE, provider_id=None), flying()):
        assert machine.under_another_account(before, now) is None


def test_what_carries_our_marks_is_the_batch() -> None:
    decision = look(submitting(), [OURS, SHY])
    assert (decision.after.state, decision.after.provider_id) == (Lifecycle.IN_FLIGHT, "b-1")
    assert decision.events == (("found", "b-1"),)


def test_two_that_carry_our_marks_are_for_a_person() -> None:
    decision = look(submitting(), [OURS, MatchingBatch("b-9", certain=True)])
    assert decision.after.state is Lifecycle.LOST
    assert "b-1, b-9" in str(decision.after.reason)


def test_one_of_ours_that_the_list_does_not_name_is_waited_for() -> None:
    decision = look(submitting(), [NAMELESS])
    assert type(decision) is Wait
    assert "without an id" in str(decision.after.reason)


@pytest.mark.parametrize("looks", range(LOOKS))
def test_a_list_without_the_batch_is_looked_at_again(looks: int) -> None:
    before = submitting(facts=BatchFacts(absent_looks=looks))
    decision = look(before, [])
    due = NOW + PACING.looks[looks]
    check(before, decision, Wait, reason=decision.after.reason, due_at=due, facts=BatchFacts(absent_looks=looks + 1))


@pytest.mark.parametrize("earlier", range(machine.MOST_REPEATS + 1))
def test_a_batch_that_no_list_ever_showed_goes_again_five_times_whichever_batch_made_the_creates(earlier: int) -> None:
    """What its create may have cost is unknown cost; of a lost batch it stays set aside."""
    before = submitting(facts=BatchFacts(absent_looks=LOOKS, absent_creates=earlier // 2), creates_usd=COST)
    decision = look(before, [], absent_creates=earlier)
    assert isinstance(decision, Move)
    if earlier == machine.MOST_REPEATS:
        check(before, decision, Move, state=Lifecycle.LOST, reason=decision.after.reason)
        return
    facts = replace(before.facts, absent_creates=earlier // 2 + 1)
    check(
        before, decision, Move, state=Lifecycle.PLANNED, reason=decision.after.reason, facts=facts,
        creates_usd=2 * COST,
    )  # fmt: skip
    assert told(decision) == ["not_in_list"]


@pytest.mark.parametrize("looks", range(LOOKS + 1))
def test_a_list_that_proves_no_absence_is_read_as_often_as_any_and_then_a_person_decides(looks: int) -> None:
    decision = look(submitting(facts=BatchFacts(absent_looks=looks)), [], UNLISTED)
    assert decision.after.state is (Lifecycle.SUBMITTING if looks < LOOKS else Lifecycle.LOST)
    assert looks < LOOKS or "which proves nothing" in str(decision.after.reason)


@pytest.mark.parametrize(
    ("found", "facts", "since", "state"),
    [
        ([SHY], BatchFacts(), 0.0, Lifecycle.SUBMITTING),
        ([MUTE], BatchFacts(unsure_looks=LOOKS - 1), 0.0, Lifecycle.SUBMITTING),
        ([MUTE], BatchFacts(unsure_looks=LOOKS), 0.0, Lifecycle.LOST),
        ([SHY], BatchFacts(unsure_looks=LOOKS), 2 * DAY, Lifecycle.SUBMITTING),
        ([SHY], BatchFacts(unsure_looks=LOOKS), 3 * DAY + 1000.0, Lifecycle.LOST),
        (busy(), BatchFacts(unsure_looks=LOOKS), 2 * DAY, Lifecycle.SUBMITTING),
        (busy(), BatchFacts(unsure_looks=LOOKS), 3 * DAY + 1000.0, Lifecycle.LOST),
        (busy(), BatchFacts(unsure_looks=LOOKS - 1), 9 * DAY, Lifecycle.SUBMITTING),
        (refused(403), BatchFacts(unsure_looks=LOOKS), 3000.0, Lifecycle.SUBMITTING),
        (refused(403), BatchFacts(unsure_looks=LOOKS), 3600.0 + 1000.0, Lifecycle.LOST),
    ],
)
def test_looks_that_tell_nothing_go_on_until_nothing_can_be_told(
    found: list[MatchingBatch] | ProviderError, facts: BatchFacts, since: float, state: Lifecycle
) -> None:
    before = submitting(facts=facts, submitting_at=NOW - since)
    decision = look(before, found)
    assert decision.after.state is state
    if state is Lifecycle.SUBMITTING:
        assert decision.after.facts.unsure_looks == facts.unsure_looks + 1
        pause = PACING.looks[min(facts.unsure_looks, LOOKS - 1)]
        assert decision.after.due_at == NOW + pause


# ---- what given-up creates cost, by a later list ---------------------------------------------------------------------

HOUR = 3600.0
GIVEN_UP = BatchFacts(absent_creates=2)


@pytest.mark.parametrize(
    ("changes", "sent", "is_due"),
    [
        ({}, HOUR - 1, False),
        ({}, HOUR, True),
        ({"listed_at": NOW - 60.0}, 2 * HOUR, False),
        ({"listed_at": NOW - HOUR}, 2 * HOUR, True),
        ({"listed_at": NOW + 60.0}, 2 * HOUR, True),  # our clock was put back
        ({"facts": BatchFacts(absent_creates=2, closed_creates=2)}, DAY - 1, False),
        ({"facts": BatchFacts(absent_creates=2, closed_creates=2)}, DAY, True),
        ({}, 29 * DAY, False),
        ({"facts": BatchFacts()}, DAY, False),
        ({"state": Lifecycle.SUBMITTING}, DAY, False),
        ({"account": "another"}, DAY, False),
    ],
)
def test_a_list_is_searched_for_given_up_creates_after_an_hour_and_then_once_a_day(
    changes: dict[str, object], sent: float, *, is_due: bool
) -> None:
    batch = flying(**{"facts": GIVEN_UP, "submitting_at": NOW - sent, **changes})
    assert machine.is_to_look_later(batch, replace(AT, account=Account("key"))) is is_due


LATER = {"submitting_at": NOW - HOUR, "creates_usd": 2 * COST}
ANYWHERE = [planned(facts=GIVEN_UP, **LATER), flying(facts=GIVEN_UP, **LATER), ended(facts=GIVEN_UP, **LATER)]


@pytest.mark.parametrize("before", ANYWHERE)
def test_creates_that_a_complete_list_lacks_an_hour_later_cost_nothing(before: Batch) -> None:
    decision = machine.after_later_look(before, [], AT, bound=COST)
    facts = replace(GIVEN_UP, closed_creates=2)
    check(before, decision, Wait, listed_at=NOW, creates_usd=Decimal(0), facts=facts)
    assert told(decision) == ["create_closed"]
    assert facts.creates_of_unknown_cost == 0


@pytest.mark.parametrize(
    ("found", "at", "changes"),
    [
        ([], UNLISTED, {}),
        ([], AT, {"submitting_at": NOW - HOUR + 1}),
        ([SHY], AT, {}),
        ([NAMELESS], AT, {}),
        ([OURS], AT, {"state": Lifecycle.PLANNED}),  # it is found when the batch is sent
        ([OURS], AT, {"state": Lifecycle.LOST}),
        (busy(), AT, {}),
        (refused(403), AT, {}),
    ],
)
def test_a_list_that_proves_nothing_leaves_the_bill_open(
    found: list[MatchingBatch] | ProviderError, at: DecisionLimits, changes: dict[str, object]
) -> None:
    before = flying(**{"facts": GIVEN_UP, **LATER, **changes})
    check(before, machine.after_later_look(before, found, at, bound=COST), Wait, listed_at=NOW)


@pytest.mark.parametrize(
    ("facts", "closed", "usd"),
    [
        (GIVEN_UP, 0, 2 * COST),  # the bill is open already
        (replace(GIVEN_UP, closed_creates=2), 1, COST),
        (replace(GIVEN_UP, closed_creates=1, extra_batches=1), 0, 2 * COST),
    ],
)
def test_a_create_that_a_list_shows_after_all_opens_the_bill_again(
    facts: BatchFacts, closed: int, usd: Decimal
) -> None:
    before = flying(**LATER | {"creates_usd": COST * facts.creates_of_unknown_cost}, facts=facts)
    decision = machine.after_later_look(before, [OURS, SHY], AT, bound=COST)
    assert (decision.after.facts.closed_creates, decision.after.creates_usd) == (closed, usd)
    assert decision.after.facts.extra_batches == facts.extra_batches + 1
    assert (told(decision), decision.extra_ids) == (["made_after_all"], ("b-1",))
    later = machine.after_later_look(decision.after, [], AT, bound=COST)  # one of them is known to have been made
    assert later.after.facts.creates_of_unknown_cost == later.after.facts.extra_batches
    assert later.after.creates_usd == COST * later.after.facts.extra_batches


@pytest.mark.parametrize("before", [flying(facts=GIVEN_UP, **LATER), ended(facts=GIVEN_UP, **LATER)])
def test_a_person_closes_the_bill_of_a_batch_that_goes_on(before: Batch) -> None:
    decision = machine.never_made(before, NOW, bound=COST)
    check(before, decision, Wait, creates_usd=Decimal(0), facts=replace(GIVEN_UP, closed_creates=2))
    assert told(decision) == ["create_closed"]


def test_a_lost_batch_that_was_never_made_is_planned_again_and_none_of_its_creates_cost_anything() -> None:
    before = submitting(**LATER, state=Lifecycle.LOST, facts=GIVEN_UP, unclear_since=NOW - DAY)
    decision = machine.never_made(before, NOW, bound=COST)
    check(
        before, decision, Move, state=Lifecycle.PLANNED, submitting_at=None, input_ref=None, unclear_since=None,
        creates_usd=Decimal(0), facts=replace(GIVEN_UP, closed_creates=2),
    )  # fmt: skip
    assert told(decision) == ["never_made", "create_closed"]
