"""From in flight to collected: what each reading, download and word makes of a batch, without any I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from layton_batch.batches import machine
from layton_batch.batches.completeness import DOWNLOADS, DOWNLOADS_UNCOUNTED, Downloaded, Lack
from layton_batch.clock import LONGEST_PAUSE
from layton_batch.errors import (
    AmbiguousCallError,
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    UnknownStatusError,
)
from layton_batch.records import Collect, Facts, Move, Snapshot, Wait
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle
from tests.batches.states import (
    AT,
    DAY,
    PACING,
    busy,
    check,
    ended,
    flying,
    refused,
    told,
    unsent,
)
from tests.store.rows import NOW

# ---- at the provider -----------------------------------------------------------------------------------------------


def reading(state: Lifecycle = Lifecycle.IN_FLIGHT, status: str = "in_progress", **more: Any) -> Snapshot:
    return Snapshot("b-1", status, state, **more)


def test_a_batch_that_goes_on_is_read_again_and_a_new_word_is_told() -> None:
    before = flying(failures=2, reason="old")
    decision = machine.after_reading(before, reading(), AT)
    check(
        before, decision, Wait, due_at=NOW + 30.0, provider_status="in_progress", failures=0, reason=None, read_at=NOW
    )
    assert told(decision) == ["status"]
    assert machine.after_reading(decision.after, reading(), AT).events == ()
    slow = replace(AT, terms=replace(AT.terms, poll=99_999.0))
    assert machine.after_reading(before, reading(), slow).after.due_at == NOW + LONGEST_PAUSE


def test_a_batch_that_somebody_stopped_is_seen_to_be_stopping() -> None:
    decision = machine.after_reading(flying(), reading(Lifecycle.CANCELLING, "cancelling"), AT)
    assert (type(decision), decision.after.state) == (Move, Lifecycle.CANCELLING)


def test_a_provider_that_does_not_show_that_it_was_asked_to_stop_is_asked_again_and_told_of_once() -> None:
    before = flying(state=Lifecycle.CANCELLING)
    for found in (reading(), UnknownStatusError("what?", code="odd")):
        decision = machine.after_reading(before, found, AT)
        assert decision.stop
        stopped = machine.not_stopped(decision, "cancel failed: 503")
        assert told(stopped)[0] == "cancel_failed"
        assert stopped.after.facts.stop_refused
        again = machine.not_stopped(machine.after_reading(stopped.after, found, AT), "cancel failed: 503")
        assert "cancel_failed" not in told(again)
    assert not machine.after_reading(before, reading(Lifecycle.CANCELLING, "cancelling"), AT).stop
    assert not machine.after_reading(before, busy(), AT).stop


@pytest.mark.parametrize(
    ("outcome", "said", "by_code", "error_class"),
    [
        (BatchOutcome.COMPLETED, "too many requests", ErrorClass.NONE, ErrorClass.NONE),
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
    before = flying(deadline_at=NOW - DAY, facts=Facts(short_downloads=2))  # also past its deadline
    decision = machine.after_reading(before, found, AT)
    assert type(decision) is Move
    after = decision.after
    assert (after.state, after.outcome, after.error_class) == (Lifecycle.ENDED, outcome, error_class)
    assert (after.results_ref, after.errors_ref, after.reason, after.ended_at) == ("out", "err", said, NOW)
    assert after.facts.short_downloads == 0


def test_past_its_deadline_the_provider_is_asked_to_stop_and_then_a_person_is_asked() -> None:
    past = flying(deadline_at=NOW - 1.0)
    for found in (reading(), UnknownStatusError("what?", code="odd")):
        decision = machine.after_reading(past, found, AT)
        assert (decision.after.state, decision.stop) == (Lifecycle.CANCELLING, True)
        assert decision.after.deadline_at == NOW + PACING.last
        refused_to = machine.not_stopped(decision, "cancel failed: 409")
        assert str(refused_to.after.reason).endswith("cancel failed: 409")
        assert refused_to.events == (("deadline", str(refused_to.after.reason)),)
        gone = machine.after_reading(replace(past, state=Lifecycle.CANCELLING), found, AT)
        assert gone.after.state is Lifecycle.LOST


def test_a_batch_that_the_provider_does_not_know_is_asked_for_until_its_deadline() -> None:
    error = NotFoundError("no such batch", status=404)
    new = machine.after_reading(flying(submitted_at=NOW - 10.0), error, AT)
    assert (type(new), new.after.failures) == (Wait, 1)
    assert "just created" in str(new.after.reason)
    old = machine.after_reading(flying(submitted_at=NOW - DAY), error, AT)
    assert "just created" not in str(old.after.reason)
    past = machine.after_reading(flying(deadline_at=NOW - 1.0), error, AT)
    assert past.after.state is Lifecycle.LOST


@pytest.mark.parametrize("error", [busy(60.0), refused(401), ProviderReplyError("HTML"), AmbiguousCallError("timeout")])
def test_a_provider_that_cannot_be_asked_says_nothing_of_the_batch(error: ProviderError) -> None:
    kept = AT.terms.retention
    for since, state in ((2 * DAY, Lifecycle.IN_FLIGHT), (kept + 1000.0, Lifecycle.LOST)):
        decision = machine.after_reading(flying(deadline_at=NOW - since), error, AT)
        assert decision.after.state is state
    decision = machine.after_reading(flying(), error, AT)
    assert told(decision) == ["unclear"]
    assert machine.after_reading(decision.after, error, AT).events == ()  # said once
    assert decision.after.provider_status == "validating"


# ---- its results ---------------------------------------------------------------------------------------------------

SHORT = Lack("2 answers came, the provider counts 3", billed=True, downloads=DOWNLOADS)
UNCOUNTED = Lack("2 of 3 requests are named", billed=False, downloads=DOWNLOADS_UNCOUNTED)
PAGE = Lack("not one line names a request", billed=True)
NONE_YET = Lack("names none of its requests", billed=True, may_be_none=True)


def test_what_is_all_there_is_filed() -> None:
    assert machine.after_download(ended(), Downloaded(), AT) == Collect(ended())


def test_a_day_in_which_nobody_could_ask_is_no_day_of_downloads_that_name_nothing() -> None:
    before = ended(ended_at=NOW - 2 * DAY, failures=50, facts=Facts(short_downloads=DOWNLOADS - 2))
    again = machine.after_download(before, Downloaded(NONE_YET), AT)
    assert isinstance(again, Wait)
    assert again.after.facts.short_downloads == DOWNLOADS - 1
    assert isinstance(machine.after_download(again.after, Downloaded(NONE_YET), AT), Collect)


@pytest.mark.parametrize("lack", [SHORT, UNCOUNTED])
def test_a_short_download_is_repeated_while_that_may_help(lack: Lack) -> None:
    most = lack.downloads or 0
    before = ended(facts=Facts(short_downloads=most - 2), failures=3)
    again = machine.after_download(before, Downloaded(lack), AT)
    assert isinstance(again, Wait)
    assert (again.after.facts.short_downloads, again.after.failures) == (most - 1, 4)
    assert told(again) == ["download_short"]
    grew = machine.after_download(again.after, Downloaded(lack, grew=True), AT)
    assert (told(grew), grew.after.facts.short_downloads) == (["download_grew"], 0)
    last = machine.after_download(again.after, Downloaded(lack), AT)
    assert isinstance(last, Collect)
    assert last.lacking == (lack.reason if lack.billed else None)
    assert told(last) == (["download_given_up"] if lack.billed else [])


@pytest.mark.parametrize(
    ("lack", "since", "kind"),
    [
        (PAGE, 3 * 29 * DAY, Wait),
        (PAGE, 3 * 29 * DAY + 1000.0, Collect),
        (NONE_YET, DAY, Wait),
        (NONE_YET, DAY + 1000.0, Collect),
    ],
)
def test_what_is_no_results_is_downloaded_again_as_long_as_there_may_be_some(
    lack: Lack, since: float, kind: type
) -> None:
    tried = Facts(short_downloads=DOWNLOADS - 1)
    before = ended(ended_at=NOW - since, failures=DOWNLOADS, facts=tried)
    decision = machine.after_download(before, Downloaded(lack), AT)
    assert type(decision) is kind
    too_early = replace(before, failures=DOWNLOADS - 1, facts=Facts())
    assert type(machine.after_download(too_early, Downloaded(lack), AT)) is Wait
    if isinstance(decision, Collect):
        assert decision.lacking == lack.reason


@pytest.mark.parametrize(("answers", "lacking"), [(None, True), (2, True), (0, False)])
def test_a_download_that_failed_for_good_leaves_the_rest_out_of_reach_where_it_may_have_been_billed(
    answers: int | None, lacking: bool
) -> None:
    found = Downloaded(SHORT, failed=refused(404), answers=answers)
    decision = machine.after_download(ended(), found, AT)
    assert isinstance(decision, Collect)
    assert (decision.lacking is not None) is lacking
    assert told(decision) == ["download_given_up"]


def test_a_provider_that_does_not_say_how_many_there_are_is_asked_again() -> None:
    found = Downloaded(UNCOUNTED, uncounted=busy(), named=2)
    decision = machine.after_download(ended(), found, AT)
    assert isinstance(decision, Wait)
    assert "2 of 3 requests are named" in str(decision.after.reason)
    gone = ended(ended_at=NOW - 4 * 29 * DAY, failures=DOWNLOADS)
    assert isinstance(machine.after_download(gone, found, AT), Collect)


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
    before = ended(ended_at=NOW - since, failures=failures)
    decision = machine.after_failed_download(before, error, AT)
    assert (decision is not None) is is_again
    if decision is not None:
        assert (decision.after.failures, told(decision)) == (failures + 1, ["download_again"])


def test_a_download_that_did_not_leave_the_machine_counts_for_nothing() -> None:
    before = ended(ended_at=NOW - 400 * DAY, failures=DOWNLOADS)
    for attempt in range(3 * DOWNLOADS):
        decision = machine.after_failed_download(before, unsent(), AT)
        assert decision is not None, attempt
        before = decision.after
    assert before.due_at <= NOW + LONGEST_PAUSE
    assert machine.after_failed_download(before, busy(), AT) is not None
    found = Downloaded(UNCOUNTED, uncounted=unsent(), named=2)
    assert isinstance(machine.after_download(ended(ended_at=0.0, failures=DOWNLOADS), found, AT), Wait)


def test_a_clock_that_was_behind_when_the_batch_ended_gives_up_no_download() -> None:
    before = ended(ended_at=NOW - 100 * DAY, failures=DOWNLOADS)
    assert machine.after_failed_download(before, busy(), AT) is None
    sent_since = replace(before, submitted_at=NOW - DAY)
    assert machine.after_failed_download(sent_since, busy(), AT) is not None
    begun_since = replace(AT, terms=replace(AT.terms, born=NOW - DAY))
    assert machine.after_failed_download(before, busy(), begun_since) is not None
    assert machine.after_failed_download(before, refused(404), begun_since) is not None


# ---- a person stops it ---------------------------------------------------------------------------------------------


def test_a_batch_that_a_person_stops() -> None:
    before = flying()
    decision = machine.after_cancel(before, None, AT)
    check(before, decision, Move, state=Lifecycle.CANCELLING, due_at=NOW)
    failed = machine.after_cancel(before, busy(), AT)
    check(before, failed, Wait, facts=Facts(stop_refused=True))
    assert "asked again" in failed.events[0][1]
    assert machine.after_cancel(failed.after, busy(), AT).events == ()
