"""From in flight to collected: the columns that each snapshot, download and person changes, without any I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from layton_batch.batches import machine
from layton_batch.batches.batch_results import DownloadResult, Lack, Shortfall
from layton_batch.batches.machine import DOWNLOADS, FAILED_CALLS, REFUSED_CALLS
from layton_batch.clock import LONGEST_PAUSE
from layton_batch.errors import (
    AmbiguousCallError,
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    UnknownStatusError,
)
from layton_batch.records import Account, Batch, Collect, End, Snapshot, Wait
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome
from tests.support.batch_states import (
    AT,
    COST,
    DAY,
    NO_CREDIT,
    PACING,
    busy,
    claim,
    ended,
    flying,
    planned,
    refused,
    told,
    unsent,
)
from tests.support.store_rows import NOW

IN_FLIGHT, CANCELLING, ENDED, LOST = Lifecycle.IN_FLIGHT, Lifecycle.CANCELLING, Lifecycle.ENDED, Lifecycle.LOST
PAST = flying(deadline_at=NOW - 1.0)
ODD = UnknownStatusError("what?", code="odd")
NOT_FOUND = NotFoundError("no such batch", status=404)
KEPT = AT.retention

# ---- in flight, cancelling -----------------------------------------------------------------------------------------


def snapshot(state: Lifecycle = IN_FLIGHT, status: str = "in_progress", **more: Any) -> Snapshot:
    return Snapshot("b-1", status, state, **more)


def test_a_batch_that_goes_on_is_read_again_and_a_new_word_is_told() -> None:
    before = flying(failures=2, reason="old", needs_person=True)
    decision = machine.after_snapshot(before, snapshot(), AT)
    claim(
        before, decision, "status", due_at=NOW + 30.0, provider_status="in_progress", failures=0, reason=None,
        read_at=NOW, needs_person=False,
    )  # fmt: skip
    claim(decision.after, machine.after_snapshot(decision.after, snapshot(), AT))
    assert machine.after_snapshot(before, snapshot(), replace(AT, poll=99_999.0)).after.due_at == NOW + LONGEST_PAUSE


@pytest.mark.parametrize(
    ("state", "outcome", "stopped_elsewhere"),
    [
        (IN_FLIGHT, BatchOutcome.CANCELLED, True),
        (IN_FLIGHT, BatchOutcome.EXPIRED, False),
        (CANCELLING, BatchOutcome.CANCELLED, False),
    ],
)
def test_a_cancel_that_nobody_here_asked_for_is_a_persons(
    state: Lifecycle, outcome: BatchOutcome, stopped_elsewhere: bool
) -> None:
    before = flying(state=state)
    claim(
        before, machine.after_snapshot(before, snapshot(CANCELLING, "stops"), AT), "status", due_at=NOW + 30.0,
        provider_status="stops", read_at=NOW,
    )  # fmt: skip
    end = machine.after_snapshot(before, snapshot(ENDED, "cancelled", outcome=outcome), AT).after
    assert end.stopped_elsewhere is stopped_elsewhere
    for last, needs_person in ((CANCELLED, stopped_elsewhere), (ANSWERED, False)):
        ends = {"a": ANSWERED, "b": last, "c": ANSWERED}
        assert machine.collected(Collect(end), None, NOW, ends=ends).after.needs_person is needs_person


@pytest.mark.parametrize("reply", [snapshot(status="validating"), ODD])
def test_a_provider_that_does_not_show_that_it_stops_is_asked_again_and_told_of_once(
    reply: Snapshot | UnknownStatusError,
) -> None:
    before = flying(state=CANCELLING)
    claim(
        flying(due_at=NOW + 9), machine.to_stop(flying(due_at=NOW + 9), NOW), "cancelling", state=CANCELLING, due_at=NOW
    )
    assert machine.is_to_stop(before, reply)
    assert not machine.is_to_stop(flying(), reply)
    for other in (snapshot(CANCELLING), snapshot(ENDED), busy(), NOT_FOUND):
        assert not machine.is_to_stop(before, other)
    decision = machine.after_snapshot(before, reply, AT, refused(409))
    assert (told(decision)[-1], decision.after.failures) == ("cancel_failed", 1)
    assert told(machine.after_snapshot(decision.after, reply, AT, refused(409))) == []


@pytest.mark.parametrize(
    ("outcome", "said", "by_code", "error_class"),
    [
        (BatchOutcome.COMPLETED, "too many requests", ErrorClass.NONE, ErrorClass.NONE),
        (BatchOutcome.FAILED, str(NO_CREDIT), ErrorClass.INVALID_REQUEST, ErrorClass.ACCOUNT),
        (BatchOutcome.FAILED, "invalid_request: Cannot find file f-1", ErrorClass.INVALID_REQUEST, ErrorClass.ACCOUNT),
        (BatchOutcome.FAILED, "Too many requests: the batch was stopped", ErrorClass.NONE, ErrorClass.RATE_LIMITED),
        (BatchOutcome.FAILED, "the file exceeds 200 MB", ErrorClass.NONE, ErrorClass.TOO_LARGE),
        (BatchOutcome.FAILED, "the file exceeds 200 MB", ErrorClass.RATE_LIMITED, ErrorClass.RATE_LIMITED),
        (BatchOutcome.FAILED, "too many requests in the file", ErrorClass.NONE, ErrorClass.TOO_LARGE),
        (BatchOutcome.FAILED, None, ErrorClass.INVALID_REQUEST, ErrorClass.INVALID_REQUEST),
    ],
)
def test_an_ended_batch_says_how_it_ended(
    outcome: BatchOutcome, said: str | None, by_code: ErrorClass, error_class: ErrorClass
) -> None:
    reply = snapshot(
        ENDED, "done", outcome=outcome, message=said, error_class=by_code, results_ref="out", errors_ref="err"
    )
    before = replace(PAST, failures=2, due_at=0.0, short_downloads=2)
    more = {"error_class": error_class} if error_class is not ErrorClass.NONE else {}
    claim(
        before, machine.after_snapshot(before, reply, AT), "ended", state=ENDED, outcome=outcome, results_ref="out",
        errors_ref="err", ended_at=NOW, read_at=NOW, due_at=NOW, failures=0, provider_status="done", short_downloads=0,
        **more,
    )  # fmt: skip


@pytest.mark.parametrize("reply", [snapshot(), ODD])
def test_past_its_deadline_the_provider_is_asked_to_stop_and_then_a_person_is_asked(
    reply: Snapshot | UnknownStatusError,
) -> None:
    changes = {"deadline_at": NOW + PACING.stopping, "due_at": NOW}
    decision = machine.after_snapshot(PAST, reply, AT)
    claim(PAST, decision, "deadline", state=CANCELLING, **changes)
    assert machine.is_to_stop(decision.after, reply)
    refusing = replace(PAST, state=CANCELLING)
    claim(refusing, machine.after_snapshot(refusing, reply, AT, refused(409)), "lost", state=LOST, due_at=NOW)


ERRORS = [busy(), refused(401), NO_CREDIT, ProviderReplyError("HTML"), AmbiguousCallError("timeout"), NOT_FOUND, ODD]


@pytest.mark.parametrize("error", ERRORS)
def test_a_provider_that_cannot_be_asked_says_nothing_of_the_batch(error: ProviderError) -> None:
    for failures in (0, REFUSED_CALLS - 1, FAILED_CALLS - 1):
        decision = machine.after_snapshot(flying(failures=failures), error, AT)
        is_refusal = error.status in {400, 401, 404}
        assert isinstance(decision, Wait)
        assert told(decision) == ["unclear"]
        assert decision.after.needs_person is (failures + 1 >= (REFUSED_CALLS if is_refusal else FAILED_CALLS))
        assert (decision.after.due_at, decision.after.failures) == (NOW + PACING.backoff(failures), failures + 1)
        assert told(machine.after_snapshot(decision.after, error, AT)) == []  # said once
        assert not machine.after_snapshot(decision.after, snapshot(), AT).after.needs_person


@pytest.mark.parametrize("error", ERRORS[:-1])
def test_a_batch_is_asked_about_as_long_as_its_results_are_kept_and_an_unknown_one_until_its_deadline(
    error: ProviderError,
) -> None:
    for since, state in ((2 * DAY, LOST if error is NOT_FOUND else IN_FLIGHT), (KEPT + 1000.0, LOST)):
        assert machine.after_snapshot(flying(deadline_at=NOW - since), error, AT).after.state is state


# ---- ended: its results --------------------------------------------------------------------------------------------

ANSWERS = Shortfall(Lack.ANSWERS, "2 answers came, the provider counts 3")
ROWS = Shortfall(Lack.ROWS, "2 of 3 requests are named")
CONTENT = Shortfall(Lack.CONTENT, "names none of its requests")
EVERYTHING = Shortfall(Lack.EVERYTHING, "names none of its requests")


def failed(before: Batch, error: ProviderError, at: machine.DecisionLimits = AT, **more: Any) -> Wait | Collect:
    return machine.after_download(before, DownloadResult(ROWS, error, **more), at)


@pytest.mark.parametrize(("shortfall", "downloads"), [(ANSWERS, DOWNLOADS), (ROWS, 7)])
def test_a_short_download_is_repeated_while_that_may_help(shortfall: Shortfall, downloads: int) -> None:
    for error in (None, busy()):  # all is there, also where a call failed
        assert machine.after_download(ended(), DownloadResult(error=error), AT) == Collect(ended())
    before, at = ended(failures=3, short_downloads=5), replace(AT, now=NOW - DAY)
    again = machine.after_download(before, DownloadResult(shortfall, grew=True), at)
    for number in range(1, downloads):
        assert isinstance(again, Wait)
        assert told(again) == ["download_short"]
        assert (again.after.short_downloads, again.after.failures) == (number, number + 3)
        assert again.after.due_at == at.now + PACING.backoff(number + 2)
        again = machine.after_download(again.after, DownloadResult(shortfall), at)
    assert isinstance(again, Collect)
    assert again.lacking == (shortfall.reason if shortfall.lack.may_be_billed else None)
    assert told(again) == (["download_given_up"] if shortfall.lack.may_be_billed else [])


@pytest.mark.parametrize(("shortfall", "patience"), [(CONTENT, 3 * KEPT), (EVERYTHING, DAY)])
def test_results_without_a_row_are_downloaded_again_as_long_as_there_may_be_some(
    shortfall: Shortfall, patience: float
) -> None:
    for since, short, kind in (
        (patience, DOWNLOADS - 1, Wait),
        (patience + 1000.0, DOWNLOADS - 1, Collect),
        (patience + 1000.0, DOWNLOADS - 2, Wait),  # a day in which nobody could ask is no day of downloads
    ):
        before = ended(ended_at=NOW - since, failures=50, short_downloads=short)
        decision = machine.after_download(before, DownloadResult(shortfall), AT)
        assert type(decision) is kind
        assert isinstance(decision, Wait) or decision.lacking == shortfall.reason


@pytest.mark.parametrize(("answers", "lacking"), [(None, True), (2, True), (0, False)])
def test_a_download_that_failed_for_good_leaves_the_rest_out_of_reach_where_it_may_have_been_billed(
    answers: int | None, lacking: bool
) -> None:
    gone = ended(ended_at=NOW - 30 * DAY, failures=DOWNLOADS)
    decision = failed(gone, refused(404), answers=answers)
    assert isinstance(decision, Collect)
    assert ((decision.lacking is not None), told(decision)) == (lacking, ["download_given_up"])
    late = failed(replace(gone, ended_at=NOW), busy(), answers=answers)
    assert isinstance(late, Wait) is lacking  # without an answer ten tries are enough


@pytest.mark.parametrize(
    ("error", "since", "failures", "is_again"),
    [
        (busy(), 0.0, 0, True),
        (busy(), 4 * KEPT, DOWNLOADS - 1, True),
        (busy(), 4 * KEPT, DOWNLOADS, False),
        (busy(), 2 * KEPT, DOWNLOADS, True),
        (refused(404), KEPT - DAY, DOWNLOADS, True),
        (refused(404), KEPT + 1000.0, DOWNLOADS - 1, True),  # a clock alone gives nothing up
        (refused(404), KEPT + 1000.0, DOWNLOADS, False),
        (refused(410), KEPT + 1000.0, DOWNLOADS, False),
        (refused(400), KEPT + 1000.0, 0, True),
    ],
)
def test_a_failed_download_is_tried_as_long_as_results_may_be_kept(
    error: ProviderError, since: float, failures: int, is_again: bool
) -> None:
    before = ended(ended_at=NOW - since, failures=failures)
    decision = failed(before, error)
    assert isinstance(decision, Wait) is is_again
    if is_again:
        due = NOW + PACING.backoff(failures)
        claim(before, decision, "download_again", failures=failures + 1, due_at=due, failed_status=error.status)


@pytest.mark.parametrize("error", [refused(404), NOT_FOUND])
def test_a_refusal_by_another_account_does_not_show_that_results_are_gone(error: ProviderError) -> None:
    other = replace(AT, account=Account("other"))
    before = ended(ended_at=NOW - KEPT - 1000.0, failures=DOWNLOADS, account="key")
    assert isinstance(failed(before, error, replace(AT, account=Account("key"))), Collect)
    waits = failed(before, error, other)
    assert isinstance(waits, Wait)
    assert waits.after.needs_person
    assert not failed(waits.after, busy()).after.needs_person
    assert isinstance(failed(replace(before, ended_at=NOW - 4 * KEPT), error, other), Collect)


def test_a_download_that_did_not_leave_the_machine_counts_for_nothing() -> None:
    before = ended(ended_at=NOW - 400 * DAY, failures=DOWNLOADS)
    for attempt in range(3 * DOWNLOADS):
        decision = failed(before, unsent())
        assert isinstance(decision, Wait), attempt
        before = decision.after
    assert before.due_at <= NOW + LONGEST_PAUSE
    assert isinstance(failed(before, busy()), Wait)


def test_a_clock_that_was_behind_when_the_batch_ended_gives_up_no_download() -> None:
    before = ended(ended_at=NOW - 100 * DAY, failures=DOWNLOADS)
    assert isinstance(failed(before, busy()), Collect)
    assert isinstance(failed(replace(before, submitted_at=NOW - DAY), busy()), Wait)
    for error in (busy(), refused(404)):
        assert isinstance(failed(before, error, replace(AT, run_began=NOW - DAY)), Wait)


ANSWERED, MISSING = (RequestOutcome.SUCCEEDED, ErrorClass.NONE), (RequestOutcome.MISSING, ErrorClass.NOT_EXECUTED)
CANCELLED = (RequestOutcome.CANCELLED, ErrorClass.NOT_EXECUTED)
ALL = {"r1": ANSWERED, "r2": ANSWERED, "r3": MISSING}


@pytest.mark.parametrize(
    ("lacking", "message", "reason", "events"),
    [
        (None, None, None, ()),
        (None, "done", "done", ()),
        ("out of reach", "done", "out of reach", (("given_up", "x"),)),
    ],
)
def test_a_collected_batch_has_an_outcome_for_each_request(
    lacking: str | None, message: str | None, reason: str | None, events: tuple[tuple[str, str], ...]
) -> None:
    before, spent = ended(due_at=0.0, unknown_usd=COST), Decimal("0.40")  # unknown: of a create that nobody can tell of
    move = machine.collected(
        Collect(before, lacking, events), message, NOW + 1, ends=ALL, events=[("odd", "a row")], spent=spent,
        unknown=COST, again={"r3"},
    )  # fmt: skip
    claim(
        before, move, *(kind for kind, _ in events), "odd", "collected", state=Lifecycle.COLLECTED, due_at=NOW + 1,
        spent_usd=spent, unknown_usd=2 * COST,
    )  # fmt: skip
    assert (move.ends, move.again, move.after.reason) == (ALL, {"r3"}, reason)


@pytest.mark.parametrize("ends", [{}, {"r1": ANSWERED}, {**ALL, "r4": ANSWERED}])
def test_a_batch_whose_outcomes_do_not_add_up_is_not_collected(ends: Mapping[str, End]) -> None:
    with pytest.raises(AssertionError, match="3 requests, but"):
        machine.collected(Collect(ended()), None, NOW, ends=ends)


# ---- lost: a person decides ----------------------------------------------------------------------------------------

GONE_BY = {"state": LOST, "reason": "look in the console", "failures": 3, "due_at": 0.0}


@pytest.mark.parametrize(("submitting_at", "submitted_at"), [(NOW - DAY, NOW - DAY), (None, NOW)])
def test_a_lost_batch_that_a_person_found_is_in_flight_since_its_create(
    submitting_at: float | None, submitted_at: float
) -> None:
    before = planned(**GONE_BY, submitting_at=submitting_at, unclear_since=1.0)
    claim(
        before, machine.adopted(before, "b-7", "in_progress", replace(AT, account=Account("key"))), "adopted",
        state=IN_FLIGHT, provider_id="b-7", provider_status="in_progress", submitted_at=submitted_at, due_at=NOW,
        deadline_at=NOW + AT.deadline, failures=0, reason=None, account="key", unclear_since=None,
    )  # fmt: skip


MADE = {"provider_id": "b-1", "provider_status": "validating", "submitted_at": NOW, "deadline_at": NOW + DAY}
COUNTS = {"absent_looks": 1, "short_downloads": 2, "given_up_creates": 2}


@pytest.mark.parametrize("made", [{}, MADE])
def test_a_lost_batch_that_is_sent_again_begins_anew_and_keeps_what_it_may_have_cost(made: dict[str, object]) -> None:
    before = planned(**GONE_BY, **made, input_ref="file-1", submitting_at=NOW - DAY, unclear_since=1.0, **COUNTS)
    decision = machine.sent_again(before, COST, NOW)
    counts = {**COUNTS, "given_up_creates": 3, "extra_batches": int(bool(made))}
    assert decision.after == planned(**counts, creates_usd=COST)
    assert told(decision) == ["resubmit"]


def test_a_lost_batch_that_was_never_made_is_planned_again_and_none_of_its_creates_cost_anything() -> None:
    before = planned(**GONE_BY, input_ref="file-1", submitting_at=NOW - DAY, **COUNTS, creates_usd=2 * COST)
    decision = machine.never_made(before, NOW, bound=COST)
    assert decision.after == planned(**COUNTS, closed_creates=2)
    assert told(decision) == ["never_made", "create_closed"]


def test_a_lost_batch_that_a_person_gives_up_ends_as_one_that_may_have_been_billed() -> None:
    before = flying(**GONE_BY)
    claim(
        before, machine.given_up(before, NOW), "given_up", state=ENDED, outcome=BatchOutcome.FAILED,
        error_class=ErrorClass.OUT_OF_REACH, provider_id=None, ended_at=NOW, due_at=NOW, failures=0,
    )  # fmt: skip
