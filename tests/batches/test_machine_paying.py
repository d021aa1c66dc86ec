"""From planned to in flight: the columns that each reply, refusal and look changes, without any I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from layton_batch.batches import machine
from layton_batch.batches.machine import FAILED_CALLS, MOST_REPEATS, REFUSED_CALLS, DecisionLimits
from layton_batch.batches.send import outage_wait
from layton_batch.errors import (
    AmbiguousCallError,
    FileError,
    LookUpRefusedError,
    ProviderError,
    ProviderReplyError,
    TransientProviderError,
)
from layton_batch.records import Account, Batch, MatchingBatch, Move, Wait
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
    claim,
    ended,
    flying,
    planned,
    refused,
    submitting,
)
from tests.support.store_rows import NOW

PLANNED, SUBMITTING, LOST = Lifecycle.PLANNED, Lifecycle.SUBMITTING, Lifecycle.LOST
Event = Callable[[Batch], Move | Wait]
OURS, SHY = MatchingBatch("b-1", certain=True), MatchingBatch("b-2", certain=False, may_tell=True)
MUTE, NAMELESS = MatchingBatch("b-3", certain=False), MatchingBatch("", certain=True)
HOUR = 3600.0

# ---- planned -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (lambda batch: machine.for_person(batch, "file_changed", "its file was changed"), "file_changed"),
        (lambda batch: machine.after_copies(batch, [OURS]), "sent_by_a_copy"),
    ],
)
def test_a_batch_whose_file_was_changed_stays_due_and_says_so_once(event: Event, kind: str) -> None:
    before = planned()
    claim(before, event(before), kind, needs_person=True)
    again = event(before).after
    claim(again, event(again))
    claim(again, machine.after_ignoring(again, NOW), "copy_ignored", needs_person=False)


def test_a_batch_that_is_held_back_is_due_when_it_can_be_sent() -> None:
    before = planned(needs_person=True)
    claim(before, machine.held_back(before, "why"), needs_person=False, reason="held back: why")
    claim(before, machine.held_back(before, "why", NOW + 9), needs_person=False, due_at=NOW + 9)


@pytest.mark.parametrize(
    ("error", "pause", "tries"),
    [
        (busy(), 5.0, FAILED_CALLS),
        (busy(120.0), 120.0, FAILED_CALLS),
        (busy(99_999.0), 900.0, FAILED_CALLS),
        (AmbiguousCallError("timeout"), 5.0, FAILED_CALLS),
        (ProviderReplyError("a page of HTML"), 5.0, FAILED_CALLS),
        (TransientProviderError("Connection refused", is_sent=False), 5.0, FAILED_CALLS),
        *((error, 5.0, REFUSED_CALLS) for error in (NO_CREDIT, NO_QUOTA, WRONG_KEY)),
        *((refused(status), 5.0, REFUSED_CALLS) for status in (401, 402, 403, 404, 405)),
        *((LookUpRefusedError("GET /files", status=status), 5.0, REFUSED_CALLS) for status in (400, 401, 404)),
    ],
)
def test_a_free_call_that_fails_before_the_create_is_tried_later_and_a_person_is_told_in_the_end(
    error: ProviderError, pause: float, tries: int
) -> None:
    for failures in (0, tries - 2, tries - 1):
        before = planned(failures=failures, failed_status=error.status)
        changes = {
            "due_at": NOW + (pause if failures == 0 else PACING.longest_pause), "failures": failures + 1,
            **({"needs_person": True} if failures + 1 >= tries else {}),
        }  # fmt: skip
        claim(before, machine.after_upload(before, error, AT), "upload_failed", **changes)
        claim(before, machine.after_unread_list(before, error, AT), "not_looked_for", **changes)


@pytest.mark.parametrize(
    ("status", "error_class"),
    [(400, ErrorClass.INVALID_REQUEST), (413, ErrorClass.TOO_LARGE), (422, ErrorClass.INVALID_REQUEST)],
)
def test_what_is_refused_for_good_ends(status: int, error_class: ErrorClass) -> None:
    over = {"state": Lifecycle.ENDED, "outcome": BatchOutcome.FAILED, "error_class": error_class, "ended_at": NOW}
    for before, decide in ((planned(), machine.after_upload), (submitting(unclear_since=1.0), machine.after_create)):
        more = {"unclear_since": None} if before.unclear_since else {}
        claim(before, decide(before, refused(status), AT), "refused", **over, **more)
    missing = submitting(failures=machine.TRIES - 1, failed_status=404)
    assert machine.after_create(missing, refused(404), AT).after.state is Lifecycle.ENDED


@pytest.mark.parametrize("plan_again", [True, False])
def test_a_withdrawn_batch_is_over_before_it_was_sent(plan_again: bool) -> None:
    before = planned(due_at=NOW + DAY)
    decision = machine.withdrawn(before, "the run was cancelled", NOW, plan_again=plan_again)
    claim(
        before, decision, "withdrawn", state=Lifecycle.ENDED, outcome=BatchOutcome.CANCELLED, due_at=NOW, ended_at=NOW,
        error_class=ErrorClass.NOT_EXECUTED,
    )  # fmt: skip
    assert decision.plan_again is plan_again


def test_an_intent_sets_money_aside_and_counts_looks_anew() -> None:
    before = planned(needs_person=True, reason="old", failures=2, absent_looks=3, given_up_creates=1)
    claim(
        before, machine.before_create(before, "file-1", replace(AT, account=Account("key", "acme"))), "submitting",
        state=SUBMITTING, input_ref="file-1", submitting_at=NOW, reason=None, needs_person=False, account="key",
        organisation="acme", absent_looks=0,
    )  # fmt: skip


# ---- admission: creates in an outage -------------------------------------------------------------------------------


def outage(number: int, last: float) -> ProviderLoad:
    return ProviderLoad(unclear=UnclearCreates(number, NOW - 7200.0, last, 503))


@pytest.mark.parametrize(
    ("load", "given_up", "due"),
    [
        (ProviderLoad(), 0, None),
        (ProviderLoad(sending=3), 2, None),
        *((outage(number, NOW), 0, 60.0 * pause) for number, pause in ((1, 1), (2, 2), (3, 4), (5, 16), (6, 30))),
        (outage(99, NOW), 0, 1800.0),
        (outage(1, NOW - 59.0), 0, 1.0),
        (outage(1, NOW - 60.0), 0, None),
        (outage(99, NOW - 1800.0), 1, None),
        (outage(99, NOW - 1800.0), 2, 1600.0),
        (outage(99, NOW - 9000.0), 2, 1600.0),
        (outage(1, NOW + 9000.0), 0, None),  # our clock was put back
    ],
)
def test_after_unclear_creates_a_provider_gets_one_create_at_a_time_with_growing_pauses(
    load: ProviderLoad, given_up: int, due: float | None
) -> None:
    before = planned(given_up_creates=given_up, submitting_at=NOW - 2000.0)
    wait = outage_wait(before, load, NOW, PACING)
    assert (wait and wait.until) == (None if due is None else NOW + due)
    rest = outage_wait(before, load.plus(before, NOW), NOW, PACING)
    assert (rest is None) is (load.unclear is None)  # another one is tried: the rest is due as before
    assert rest is None or rest.until is None


# ---- submitting: the reply to the create ---------------------------------------------------------------------------


@pytest.mark.parametrize(("age", "is_fresh"), [(0.0, True), (60.0, True), (-60.0, True), (61.0, False), (-61.0, False)])
def test_an_intent_too_old_or_of_another_time_is_looked_for(age: float, is_fresh: bool) -> None:
    before = submitting(submitting_at=NOW - age, absent_looks=2)
    decision = machine.before_call(before, AT)
    assert (decision is None) is is_fresh
    if decision is not None:
        claim(before, decision, "create_unclear", absent_looks=0)


def test_a_reply_with_an_id_puts_the_batch_in_flight() -> None:
    before = submitting(failures=2, reason="old", unclear_since=NOW - DAY)
    changes = {
        "state": Lifecycle.IN_FLIGHT, "provider_id": "b-1", "submitted_at": NOW, "deadline_at": NOW + 2 * DAY,
        "failures": 0, "reason": None, "unclear_since": None,
    }  # fmt: skip
    claim(before, machine.after_create(before, "b-1", AT), "submitted", due_at=NOW + 5.0, **changes)
    claim(before, machine.after_look(before, [OURS, SHY], AT, bound=COST), "found", due_at=NOW + 5.0, **changes)
    assert machine.after_create(before, "b-1", replace(AT, poll=1.0)).after.due_at == NOW + 1.0


@pytest.mark.parametrize(
    ("reply", "changes"),
    [
        (busy(), {"failed_status": 429}),
        (busy(60.0), {"due_at": NOW + 60.0, "failed_status": 429}),
        (FileError("it is gone"), {"due_at": NOW, "failures": 0}),
        (refused(401), {"failed_status": 401}),
        (refused(403), {"failed_status": 403, "input_ref": None}),
        (NO_CREDIT, {"failed_status": 400, "input_ref": None}),
        (NO_QUOTA, {"failed_status": 429}),
        (refused(404), {"failed_status": 404, "input_ref": None}),
        (TransientProviderError("gone", status=404), {"failed_status": 404, "input_ref": None}),
    ],
)
def test_a_create_that_certainly_did_nothing_goes_again(
    reply: ProviderError | FileError, changes: dict[str, object]
) -> None:
    before = submitting(failures=1, unclear_since=NOW - DAY, due_at=NOW - 1)
    changes = {"due_at": NOW + 10.0, "failures": 2, **changes, "state": PLANNED, "unclear_since": None}
    claim(before, machine.after_create(before, reply, AT), "not_created", **changes)


@pytest.mark.parametrize("error", [refused(401), refused(402), refused(403), WRONG_KEY, NO_CREDIT, NO_QUOTA])
@pytest.mark.parametrize("failures", [0, REFUSED_CALLS - 2, REFUSED_CALLS - 1, 9 * REFUSED_CALLS])
def test_the_accounts_trouble_ends_no_batch_and_a_person_is_told_in_the_end(
    error: ProviderError, failures: int
) -> None:
    needs_person = failures + 1 >= REFUSED_CALLS
    decision = machine.after_create(submitting(failures=failures), error, AT)
    assert (decision.after.state, decision.after.needs_person) == (PLANNED, needs_person)
    assert str(error) in str(decision.after.reason)
    looked = look(submitting(failures=failures), error)
    if error.status != machine.FORBIDDEN:  # a key may never read the list, and nobody else can tell then
        assert (looked.after.state, looked.after.needs_person) == (SUBMITTING, needs_person)
        assert not look(looked.after, []).after.needs_person


@pytest.mark.parametrize("reply", [AmbiguousCallError("timeout"), ProviderReplyError("no id"), ProviderError("odd")])
def test_a_create_without_a_clear_answer_is_looked_for_and_keeps_its_money(reply: ProviderError) -> None:
    before = submitting(failures=3, absent_looks=2)
    changes = {"failures": 0, "due_at": NOW + PACING.looks[0], "absent_looks": 0}
    claim(before, machine.after_create(before, reply, AT), "create_unclear", **changes, unclear_since=NOW)
    earlier = replace(before, unclear_since=NOW - DAY)
    claim(earlier, machine.after_create(earlier, reply, AT), "create_unclear", **changes)


# ---- submitting: is it there ---------------------------------------------------------------------------------------


def look(
    before: Batch, found: Sequence[MatchingBatch] | ProviderError, at: DecisionLimits = AT, given_up: int = 0
) -> Move | Wait:
    return machine.after_look(before, found, at, bound=COST, given_up_creates=given_up)


MADE = {"account": "key", "organisation": "acme"}
"""The account of a create, as digests."""


@pytest.mark.parametrize("account", [Account("other", "acme"), Account("key", "other"), Account("other")])
@pytest.mark.parametrize("found", [(), (OURS,), (SHY,), TransientProviderError("busy"), refused(401)])
def test_under_another_account_a_person_decides_and_nothing_is_sent(
    account: Account, found: Sequence[MatchingBatch] | ProviderError
) -> None:
    before = submitting(**MADE, absent_looks=LOOKS)
    claim(before, look(before, found, replace(AT, account=account)), "lost", state=LOST)
    for known in (Account("key", "acme"), Account("key"), Account()):
        for batch in (before, submitting()):
            assert look(batch, [OURS], replace(AT, account=known)).after.state is Lifecycle.IN_FLIGHT


@pytest.mark.parametrize("looks", range(LOOKS))
@pytest.mark.parametrize("at", [AT, UNLISTED])
def test_a_list_without_the_batch_is_looked_at_again(looks: int, at: DecisionLimits) -> None:
    before = submitting(failures=3, absent_looks=looks)
    due = NOW + PACING.looks[looks]
    claim(before, look(before, [], at), "looking", due_at=due, failures=0, absent_looks=looks + 1)


@pytest.mark.parametrize("earlier", range(MOST_REPEATS + 1))
def test_a_batch_that_no_list_ever_showed_goes_again_five_times_whichever_batch_made_the_creates(earlier: int) -> None:
    """What its create may have cost is unknown cost; of a lost batch it stays set aside."""
    before = submitting(absent_looks=LOOKS, given_up_creates=1, creates_usd=COST)
    if earlier == MOST_REPEATS:
        claim(before, look(before, [], given_up=earlier), "lost", state=LOST)
        return
    changes = {"state": PLANNED, "given_up_creates": 2, "creates_usd": 2 * COST}
    claim(before, look(before, [], given_up=earlier), "not_in_list", **changes)
    claim(before, look(before, [], UNLISTED), "lost", state=LOST)  # a list that may be incomplete proves nothing


@pytest.mark.parametrize(
    ("found", "failures", "since", "state"),
    [
        ([OURS, MatchingBatch("b-9", certain=True)], 0, 0.0, LOST),
        ([NAMELESS], 0, 0.0, SUBMITTING),
        ([SHY], 0, 0.0, SUBMITTING),
        ([MUTE], LOOKS - 1, 0.0, SUBMITTING),
        ([MUTE], LOOKS, 0.0, LOST),
        ([SHY], LOOKS, 2 * DAY, SUBMITTING),
        ([SHY], LOOKS, 3 * DAY + 1000.0, LOST),
        (busy(), FAILED_CALLS - 2, 9 * DAY, SUBMITTING),
        (busy(), FAILED_CALLS - 1, 0.0, LOST),
        (refused(403), REFUSED_CALLS - 2, 9 * DAY, SUBMITTING),
        (refused(403), REFUSED_CALLS - 1, 0.0, LOST),
    ],
)
def test_looks_that_tell_nothing_go_on_until_nothing_can_be_told(
    found: list[MatchingBatch] | ProviderError, failures: int, since: float, state: Lifecycle
) -> None:
    before = submitting(failures=failures, submitting_at=NOW - since)
    after = look(before, found).after
    assert after.state is state
    if state is SUBMITTING:
        is_error = isinstance(found, ProviderError)
        pause = PACING.backoff(failures) if is_error else PACING.looks[min(failures, LOOKS - 1)]
        count = failures + 1 if is_error else min(failures + 1, LOOKS)
        assert (after.failures, after.due_at, after.absent_looks) == (count, NOW + pause, before.absent_looks)


# ---- what given-up creates cost, by a later list ---------------------------------------------------------------------

LATER = {"given_up_creates": 2, "submitting_at": NOW - HOUR, "creates_usd": 2 * COST}


@pytest.mark.parametrize(
    ("changes", "sent", "is_due"),
    [
        ({}, HOUR - 1, False),
        ({}, HOUR, True),
        ({"listed_at": NOW - 60.0}, 2 * HOUR, False),
        ({"listed_at": NOW - HOUR}, 2 * HOUR, True),
        ({"listed_at": NOW + 60.0}, 2 * HOUR, True),  # our clock was put back
        ({"closed_creates": 2}, DAY - 1, False),
        ({"closed_creates": 2}, DAY, True),
        ({}, 29 * DAY, False),
        ({"given_up_creates": 0}, DAY, False),
        ({"state": SUBMITTING}, DAY, False),
        ({"account": "another"}, DAY, False),
    ],
)
def test_a_list_is_searched_for_given_up_creates_after_an_hour_and_then_once_a_day(
    changes: dict[str, object], sent: float, *, is_due: bool
) -> None:
    batch = flying(**{"given_up_creates": 2, "submitting_at": NOW - sent, **changes})
    assert machine.is_to_look_later(batch, replace(AT, account=Account("key"))) is is_due


@pytest.mark.parametrize("before", [planned(**LATER), flying(**LATER), ended(**LATER)])
def test_creates_that_a_complete_list_lacks_an_hour_later_cost_nothing(before: Batch) -> None:
    closed = {"creates_usd": Decimal(0), "closed_creates": 2}
    claim(before, machine.after_later_look(before, [], AT, bound=COST), "create_closed", listed_at=NOW, **closed)
    claim(before, machine.never_made(before, NOW, bound=COST), "create_closed", **closed)  # a person says the same


@pytest.mark.parametrize(
    ("found", "at", "changes"),
    [
        ([], UNLISTED, {}),
        ([], AT, {"submitting_at": NOW - HOUR + 1}),
        ([SHY], AT, {}),
        ([NAMELESS], AT, {}),
        ([OURS], AT, {"state": PLANNED}),  # it is found when the batch is sent
        ([OURS], AT, {"state": LOST}),
        (busy(), AT, {}),
        (refused(403), AT, {}),
    ],
)
def test_a_list_that_proves_nothing_leaves_the_bill_open(
    found: list[MatchingBatch] | ProviderError, at: DecisionLimits, changes: dict[str, object]
) -> None:
    before = flying(**{**LATER, **changes})
    claim(before, machine.after_later_look(before, found, at, bound=COST), listed_at=NOW)


@pytest.mark.parametrize(
    ("closed", "extra", "still_closed", "usd"),
    [
        (0, 0, 0, 2 * COST),  # the bill is open already
        (2, 0, 1, COST),
        (1, 1, 0, 2 * COST),
    ],
)
def test_a_create_that_a_list_shows_after_all_opens_the_bill_again(
    closed: int, extra: int, still_closed: int, usd: Decimal
) -> None:
    changes = {"closed_creates": closed, "extra_batches": extra, "creates_usd": COST * (2 - closed)}
    before = flying(**{**LATER, **changes})
    decision = machine.after_later_look(before, [OURS, SHY], AT, bound=COST)
    after = replace(before, closed_creates=still_closed, extra_batches=extra + 1, creates_usd=usd, listed_at=NOW)
    assert decision.after == after
    assert ([kind for kind, _ in decision.events], decision.extra_ids) == (["made_after_all"], ("b-1",))
    later = machine.after_later_look(decision.after, [], AT, bound=COST).after  # one of them is known to have been made
    assert later.creates_of_unknown_cost == later.extra_batches
    assert later.creates_usd == COST * later.extra_batches
