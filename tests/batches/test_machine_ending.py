"""From in flight to collected: what each reading, download and word makes of a batch, without any I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from layton_batch.batches import machine
from layton_batch.batches.batch_results import DownloadResult, Lack, Shortfall
from layton_batch.batches.machine import DOWNLOADS, DOWNLOADS_UNCOUNTED
from layton_batch.clock import LONGEST_PAUSE
from layton_batch.errors import (
    AmbiguousCallError,
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    UnknownStatusError,
)
from layton_batch.records import Account, Batch, BatchFacts, Collect, End, Move, Snapshot, Wait
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome
from tests.support.batch_states import (
    AT,
    COST,
    DAY,
    NO_CREDIT,
    PACING,
    busy,
    check,
    ended,
    flying,
    planned,
    refused,
    told,
    unsent,
)
from tests.support.store_rows import NOW

# ---- at the provider -----------------------------------------------------------------------------------------------


def reading(state: Lifecycle = Lifecycle.IN_FLIGHT, status: str = "in_progress", **more: Any) -> Snapshot:
    return Snapshot("b-1", status, state, **more)


def test_a_batch_that_goes_on_is_read_again_and_a_new_word_is_told() -> None:
    before = flying(failures=2, reason="old")
    decision = machine.after_snapshot(before, reading(), AT)
    check(
        before, decision, Wait, due_at=NOW + 30.0, provider_status="in_progress", failures=0, reason=None, read_at=NOW
    )
    assert told(decision) == ["status"]
    assert machine.after_snapshot(decision.after, reading(), AT).events == ()
    slow = replace(AT, poll=99_999.0)
    for batch in (before, replace(before, deadline_at=NOW - 1)):
        assert machine.after_snapshot(batch, reading(), slow).after.due_at == NOW + LONGEST_PAUSE


@pytest.mark.parametrize(
    ("before", "outcome", "stopped_elsewhere"),
    [
        (flying(), BatchOutcome.CANCELLED, True),
        (flying(), BatchOutcome.EXPIRED, False),
        (flying(facts=BatchFacts(stop_refused=True)), BatchOutcome.CANCELLED, False),
        (flying(state=Lifecycle.CANCELLING), BatchOutcome.CANCELLED, False),
        (flying(deadline_at=NOW - 1.0), BatchOutcome.CANCELLED, False),
    ],
)
def test_a_cancel_that_nobody_here_asked_for_is_a_persons(
    before: Batch, outcome: BatchOutcome, stopped_elsewhere: bool
) -> None:
    stopping = machine.after_snapshot(flying(), reading(Lifecycle.CANCELLING, "cancelling"), AT)
    assert (type(stopping), stopping.after.provider_status) == (Wait, "cancelling")
    end = machine.after_snapshot(before, reading(Lifecycle.ENDED, "cancelled", outcome=outcome), AT).after
    assert end.facts.stopped_elsewhere is stopped_elsewhere
    left = (RequestOutcome.CANCELLED, ErrorClass.NOT_EXECUTED)
    answered = (RequestOutcome.SUCCEEDED, ErrorClass.NONE)
    for ends, needs_person in ((left, stopped_elsewhere), (answered, False)):
        filed = machine.collected(Collect(end), None, NOW, ends={"a": answered, "b": ends, "c": answered})
        assert filed.after.needs_person is needs_person
        assert ("retry" in str(filed.after.reason)) is needs_person


def test_a_provider_that_does_not_show_that_it_was_asked_to_stop_is_asked_again_and_told_of_once() -> None:
    before = flying(state=Lifecycle.CANCELLING)
    for found in (reading(), UnknownStatusError("what?", code="odd")):
        decision = machine.after_snapshot(before, found, AT)
        assert decision.stop
        stopped = machine.not_stopped(decision, "cancel failed: 503")
        assert told(stopped)[0] == "cancel_failed"
        assert stopped.after.facts.stop_refused
        again = machine.not_stopped(machine.after_snapshot(stopped.after, found, AT), "cancel failed: 503")
        assert "cancel_failed" not in told(again)
    assert not machine.after_snapshot(before, reading(Lifecycle.CANCELLING, "cancelling"), AT).stop
    assert not machine.after_snapshot(before, busy(), AT).stop


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
    found = reading(
        Lifecycle.ENDED, "done", outcome=outcome, message=said, error_class=by_code, results_ref="out", errors_ref="err"
    )
    before = flying(deadline_at=NOW - DAY, facts=BatchFacts(short_downloads=2))  # also past its deadline
    decision = machine.after_snapshot(before, found, AT)
    assert type(decision) is Move
    after = decision.after
    assert (after.state, after.outcome, after.error_class) == (Lifecycle.ENDED, outcome, error_class)
    assert (after.results_ref, after.errors_ref, after.reason, after.ended_at) == ("out", "err", said, NOW)
    assert after.facts.short_downloads == 0


def test_past_its_deadline_the_provider_is_asked_to_stop_and_then_a_person_is_asked() -> None:
    past = flying(deadline_at=NOW - 1.0)
    for found in (reading(), UnknownStatusError("what?", code="odd")):
        decision = machine.after_snapshot(past, found, AT)
        assert (decision.after.state, decision.stop) == (Lifecycle.CANCELLING, True)
        assert decision.after.deadline_at == NOW + PACING.stopping
        refused_to = machine.not_stopped(decision, "cancel failed: 409")
        assert str(refused_to.after.reason).endswith("cancel failed: 409")
        assert refused_to.events == (("deadline", str(refused_to.after.reason)),)
        gone = machine.after_snapshot(replace(past, state=Lifecycle.CANCELLING), found, AT)
        assert gone.after.state is Lifecycle.LOST


def test_a_batch_that_the_provider_does_not_know_is_asked_for_until_its_deadline() -> None:
    error = NotFoundError("no such batch", status=404)
    new = machine.after_snapshot(flying(), error, AT)
    assert (type(new), new.after.failures) == (Wait, 1)
    assert "not shown there yet" in str(new.after.reason)
    old = machine.after_snapshot(flying(read_at=NOW - DAY), error, AT)
    assert old.after.reason == str(error)
    past = machine.after_snapshot(flying(deadline_at=NOW - 1.0), error, AT)
    assert past.after.state is Lifecycle.LOST


@pytest.mark.parametrize("error", [busy(60.0), refused(401), ProviderReplyError("HTML"), AmbiguousCallError("timeout")])
def test_a_provider_that_cannot_be_asked_says_nothing_of_the_batch(error: ProviderError) -> None:
    kept = AT.retention
    for since, state in ((2 * DAY, Lifecycle.IN_FLIGHT), (kept + 1000.0, Lifecycle.LOST)):
        decision = machine.after_snapshot(flying(deadline_at=NOW - since), error, AT)
        assert decision.after.state is state
    decision = machine.after_snapshot(flying(), error, AT)
    assert told(decision) == ["unclear"]
    assert machine.after_snapshot(decision.after, error, AT).events == ()  # said once
    assert decision.after.provider_status == "validating"


KEPT = AT.retention
WARN_AFTER = KEPT * machine.RETENTION_SHARE


@pytest.mark.parametrize(
    ("before", "warning"),
    [
        (flying(submitted_at=NOW - WARN_AFTER + 1.0), None),
        (flying(submitted_at=NOW - WARN_AFTER), "will be gone soon"),
        (flying(submitted_at=NOW - KEPT, state=Lifecycle.CANCELLING), "may be gone already"),
        (ended(submitted_at=NOW - KEPT), "may be gone already"),
        (ended(submitted_at=NOW - KEPT, facts=BatchFacts(expiry_warned=True)), None),
        (ended(submitted_at=NOW - KEPT, provider_id=None), None),
        (ended(submitted_at=None), None),
        (ended(submitted_at=NOW - KEPT, state=Lifecycle.COLLECTED), None),
        (flying(submitted_at=NOW - KEPT, state=Lifecycle.LOST), None),
    ],
)
def test_results_that_will_not_be_kept_much_longer_are_warned_of_once(before: Batch, warning: str | None) -> None:
    decision = machine.expiring(before, KEPT, NOW)
    assert (decision is None) is (warning is None)
    if decision is not None:
        check(before, decision, Wait, facts=BatchFacts(expiry_warned=True))
        assert told(decision) == ["results_expiring"]
        assert str(warning) in decision.events[0][1]
        assert machine.expiring(decision.after, KEPT, NOW + DAY) is None


# ---- its results ---------------------------------------------------------------------------------------------------

ANSWERS = Shortfall(Lack.ANSWERS, "2 answers came, the provider counts 3", billed=True)
ROWS = Shortfall(Lack.ROWS, "2 of 3 requests are named", billed=False)
CONTENT = Shortfall(Lack.CONTENT, "names none of its requests", billed=True)
EVERYTHING = Shortfall(Lack.EVERYTHING, "names none of its requests", billed=True)


def failed(before: Batch, error: ProviderError, at: machine.DecisionLimits = AT, **more: Any) -> Wait | Collect:
    return machine.after_download(before, DownloadResult(ROWS, error, **more), at)


def test_what_is_all_there_is_filed_also_where_a_call_failed() -> None:
    assert machine.after_download(ended(), DownloadResult(), AT) == Collect(ended())
    assert machine.after_download(ended(), DownloadResult(error=busy()), AT) == Collect(ended())


def test_a_day_in_which_nobody_could_ask_is_no_day_of_downloads_that_name_nothing() -> None:
    before = ended(ended_at=NOW - 2 * DAY, failures=50, facts=BatchFacts(short_downloads=DOWNLOADS - 2))
    again = machine.after_download(before, DownloadResult(EVERYTHING), AT)
    assert isinstance(again, Wait)
    assert again.after.facts.short_downloads == DOWNLOADS - 1
    assert isinstance(machine.after_download(again.after, DownloadResult(EVERYTHING), AT), Collect)


@pytest.mark.parametrize(("shortfall", "downloads"), [(ANSWERS, DOWNLOADS), (ROWS, DOWNLOADS_UNCOUNTED)])
def test_a_short_download_is_repeated_while_that_may_help(shortfall: Shortfall, downloads: int) -> None:
    again = machine.after_download(ended(failures=3), DownloadResult(shortfall, grew=True), AT)
    for number in range(1, downloads):
        assert isinstance(again, Wait)
        assert told(again) == ["download_short"]
        assert (again.after.facts.short_downloads, again.after.failures) == (number - 1, number + 3)
        again = machine.after_download(again.after, DownloadResult(shortfall), AT)
    assert isinstance(again, Collect)
    assert again.lacking == (shortfall.reason if shortfall.billed else None)
    assert told(again) == (["download_given_up"] if shortfall.billed else [])


@pytest.mark.parametrize(
    ("shortfall", "since", "kind"),
    [
        (CONTENT, 3 * 29 * DAY, Wait),
        (CONTENT, 3 * 29 * DAY + 1000.0, Collect),
        (EVERYTHING, DAY, Wait),
        (EVERYTHING, DAY + 1000.0, Collect),
    ],
)
def test_results_without_a_row_are_downloaded_again_as_long_as_there_may_be_some(
    shortfall: Shortfall, since: float, kind: type
) -> None:
    before = ended(ended_at=NOW - since, facts=BatchFacts(short_downloads=DOWNLOADS - 1))
    decision = machine.after_download(before, DownloadResult(shortfall), AT)
    assert type(decision) is kind
    too_early = replace(before, facts=BatchFacts())
    assert type(machine.after_download(too_early, DownloadResult(shortfall), AT)) is Wait
    if isinstance(decision, Collect):
        assert decision.lacking == shortfall.reason


@pytest.mark.parametrize(("answers", "lacking"), [(None, True), (2, True), (0, False)])
def test_a_download_that_failed_for_good_leaves_the_rest_out_of_reach_where_it_may_have_been_billed(
    answers: int | None, lacking: bool
) -> None:
    gone = ended(ended_at=NOW - 30 * DAY, failures=DOWNLOADS)
    decision = failed(gone, refused(404), answers=answers)
    assert isinstance(decision, Collect)
    assert (decision.lacking is not None) is lacking
    assert told(decision) == ["download_given_up"]
    late = failed(replace(gone, ended_at=NOW), busy(), answers=answers)
    assert isinstance(late, Wait) is lacking  # without an answer ten tries are enough


@pytest.mark.parametrize(
    ("error", "since", "failures", "is_again"),
    [
        (busy(), 0.0, 0, True),
        (busy(), 4 * 29 * DAY, DOWNLOADS - 1, True),
        (busy(), 4 * 29 * DAY, DOWNLOADS, False),
        (busy(), 2 * 29 * DAY, DOWNLOADS, True),
        (refused(404), 28 * DAY, DOWNLOADS, True),
        (refused(404), 29 * DAY + 1000.0, DOWNLOADS - 1, True),  # a clock alone gives nothing up
        (refused(404), 29 * DAY + 1000.0, DOWNLOADS, False),
        (refused(410), 29 * DAY + 1000.0, DOWNLOADS, False),
        (refused(400), 29 * DAY + 1000.0, 0, True),
    ],
)
def test_a_failed_download_is_tried_as_long_as_results_may_be_kept(
    error: ProviderError, since: float, failures: int, is_again: bool
) -> None:
    decision = failed(ended(ended_at=NOW - since, failures=failures), error)
    assert isinstance(decision, Wait) is is_again
    if is_again:
        assert (decision.after.failures, told(decision)) == (failures + 1, ["download_again"])


@pytest.mark.parametrize("error", [refused(404), NotFoundError("no such batch", status=404)])
def test_a_refusal_by_another_account_does_not_show_that_results_are_gone(error: ProviderError) -> None:
    before = ended(ended_at=NOW - 29 * DAY - 1000.0, failures=DOWNLOADS, account="key")
    assert isinstance(failed(before, error, replace(AT, account=Account("key"))), Collect)
    waits = failed(before, error, replace(AT, account=Account("other")))
    assert isinstance(waits, Wait)
    assert waits.after.needs_person
    assert "with another key, at another address or for another organisation" in str(waits.after.reason)
    assert not failed(waits.after, busy()).after.needs_person
    never = replace(before, ended_at=NOW - 4 * 29 * DAY)
    assert isinstance(failed(never, error, replace(AT, account=Account("other"))), Collect)


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
    begun_since = replace(AT, run_began=NOW - DAY)
    assert isinstance(failed(before, busy(), begun_since), Wait)
    assert isinstance(failed(before, refused(404), begun_since), Wait)


def test_waiting_grows_and_is_bounded_whatever_a_provider_asks() -> None:
    pauses = [PACING.backoff(failures) for failures in range(40)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == PACING.longest_pause
    assert PACING.backoff(0, 3600.0) == PACING.longest_pause
    assert PACING.backoff(0, 60.0) == 60.0


ANSWERED, MISSING = (RequestOutcome.SUCCEEDED, ErrorClass.NONE), (RequestOutcome.MISSING, ErrorClass.NOT_EXECUTED)
ALL = {"r1": ANSWERED, "r2": ANSWERED, "r3": MISSING}


@pytest.mark.parametrize(
    ("decision", "message", "reason", "events"),
    [
        (Collect(ended()), None, None, ["odd", "collected"]),
        (Collect(ended(reason="old")), "done", "done", ["odd", "collected"]),
        (
            Collect(ended(), "out of reach", (("given_up", "x"),)),
            "done",
            "out of reach",
            ["given_up", "odd", "collected"],
        ),
    ],
)
def test_a_collected_batch_has_an_outcome_for_each_request(
    decision: Collect, message: str | None, reason: str | None, events: list[str]
) -> None:
    decision = replace(decision, after=replace(decision.after, unknown_usd=COST))  # of a create that nobody can tell of
    spent, unknown = Decimal("0.40"), Decimal("0.10")
    move = machine.collected(
        decision, message, NOW + 1, ends=ALL, events=[("odd", "a row")], spent=spent, unknown=unknown, again={"r3"}
    )
    assert isinstance(move, Move)
    paid = {"spent_usd": spent, "unknown_usd": COST + unknown}
    assert move.after == replace(decision.after, state=Lifecycle.COLLECTED, due_at=NOW + 1, reason=reason, **paid)
    assert (move.ends, move.again) == (ALL, {"r3"})
    assert (told(move), move.events[-1][1]) == (events, "2 succeeded, 1 missing")


@pytest.mark.parametrize("ends", [{}, {"r1": ANSWERED}, {**ALL, "r4": ANSWERED}])
def test_a_batch_whose_outcomes_do_not_add_up_is_not_collected(ends: Mapping[str, End]) -> None:
    with pytest.raises(AssertionError, match="3 requests, but"):
        machine.collected(Collect(ended()), None, NOW, ends=ends)


@pytest.mark.parametrize(
    ("outcome", "attempt", "turned_away", "pause"),
    [
        (BatchOutcome.COMPLETED, 1, 0, 0.0),
        (BatchOutcome.EXPIRED, 3, 2, 0.0),
        (BatchOutcome.FAILED, 1, 0, PACING.backoff(1)),
        (BatchOutcome.FAILED, 2, 1, PACING.no_room),
        (BatchOutcome.FAILED, 12, 9, PACING.longest_pause),
    ],
)
def test_the_wait_before_next_waits_only_where_the_whole_batch_failed(
    outcome: BatchOutcome, attempt: int, turned_away: int, pause: float
) -> None:
    failed = ended(outcome=outcome, attempt=attempt)
    assert machine.wait_before_next(failed, turned_away, PACING) == machine.AttemptWait(pause)


@pytest.mark.parametrize("outcome", [BatchOutcome.COMPLETED, BatchOutcome.FAILED])
def test_what_was_refused_to_the_account_is_asked_again_with_pauses_and_a_person_is_told_in_the_end(
    outcome: BatchOutcome,
) -> None:
    end = Collect(ended(outcome=outcome))
    refusal = {**ALL, "r3": (RequestOutcome.ERRORED, ErrorClass.ACCOUNT)}
    filed = machine.collected(end, "no credit", NOW, ends=refusal)
    assert told(filed) == ["account_refused", "collected"]
    for turned_away, needs_person in ((1, False), (machine.REFUSED_CALLS, True)):
        wait = machine.wait_before_next(filed.after, turned_away, PACING)
        assert (wait.pause >= PACING.no_room, wait.needs_person) == (True, needs_person)
        assert "no credit" in str(wait.reason)


@pytest.mark.parametrize("error", [refused(401), NO_CREDIT])
def test_a_provider_that_tells_this_account_nothing_more_has_a_person_told_in_the_end(error: ProviderError) -> None:
    for failures, needs_person in ((0, False), (machine.REFUSED_CALLS - 1, True)):
        reading_failed = machine.after_snapshot(flying(failures=failures), error, AT)
        download_failed = failed(ended(failures=failures), error)
        for decision in (reading_failed, download_failed):
            assert decision.after.needs_person is needs_person
            assert str(error) in str(decision.after.reason)
        assert not machine.after_snapshot(reading_failed.after, reading(), AT).after.needs_person


# ---- a person ------------------------------------------------------------------------------------------------------


def test_a_batch_that_a_person_stops() -> None:
    before = flying()
    decision = machine.after_cancel(before, None, AT)
    check(before, decision, Move, state=Lifecycle.CANCELLING, due_at=NOW)
    failed = machine.after_cancel(before, busy(), AT)
    check(before, failed, Wait, facts=BatchFacts(stop_refused=True))
    assert "asked again" in failed.events[0][1]
    assert machine.after_cancel(failed.after, busy(), AT).events == ()


LOST = {"state": Lifecycle.LOST, "reason": "look in the console", "failures": 3}


@pytest.mark.parametrize(("submitting_at", "submitted_at"), [(NOW - DAY, NOW - DAY), (None, NOW)])
def test_a_lost_batch_that_a_person_found_is_in_flight_since_its_create(
    submitting_at: float | None, submitted_at: float
) -> None:
    before = planned(**LOST, submitting_at=submitting_at, due_at=0.0)
    decision = machine.adopted(before, "b-7", "in_progress", AT)
    check(
        before, decision, Move, state=Lifecycle.IN_FLIGHT, provider_id="b-7", provider_status="in_progress",
        submitted_at=submitted_at, due_at=NOW, deadline_at=NOW + AT.deadline, failures=0, reason=None,
    )  # fmt: skip
    assert decision == Move(decision.after, (("adopted", "b-7"),))


@pytest.mark.parametrize(
    ("provider_id", "words"),
    [(None, "a person has it sent again"), ("b-1", "it was b-1: a person has it paid for once more")],
)
def test_a_lost_batch_that_is_sent_again_begins_anew_and_keeps_what_it_may_have_cost(
    provider_id: str | None, words: str
) -> None:
    before = flying(
        **LOST, provider_id=provider_id, input_ref="file-1", submitting_at=NOW - DAY,
        facts=BatchFacts(1, 2, 3, 4, absent_creates=1, resent=1),
    )  # fmt: skip
    decision = machine.sent_again(before, COST, NOW + 1)
    assert isinstance(decision, Move)
    assert decision.after == planned(
        due_at=NOW + 1, facts=BatchFacts(1, 2, absent_creates=1, resent=2, extra_batches=int(provider_id is not None)),
        creates_usd=COST,
    )  # fmt: skip
    assert decision.events == (
        ("resubmit", f"{words}; its maximum cost stays reserved because the provider may have billed it"),
    )


def test_a_lost_batch_that_a_person_gives_up_ends_as_one_that_may_have_been_billed() -> None:
    before = flying(state=Lifecycle.LOST)
    decision = machine.given_up(before, NOW + 1)
    check(
        before, decision, Move, state=Lifecycle.ENDED, outcome=BatchOutcome.FAILED,
        error_class=ErrorClass.OUT_OF_REACH, provider_id=None, ended_at=NOW + 1, due_at=NOW + 1,
        reason=decision.after.reason,
    )  # fmt: skip
    assert "b-1" in str(decision.after.reason)
