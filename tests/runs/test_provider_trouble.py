"""What providers refuse or do not answer: which batches tell it, since when, and when a person is needed."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.records import Batch
from layton_batch.runs.failure_words import failure_words
from layton_batch.runs.folders import find_run
from layton_batch.runs.status import (
    ProviderTrouble,
    RunState,
    Status,
    provider_troubles,
    read_status,
    without_answers,
)
from layton_batch.sandbox import Fault
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle
from tests.support.batch_states import ended, flying, planned, submitting
from tests.support.lab import lab, quiz_text
from tests.support.store_rows import NOW

REFUSED = ended(
    id="first", state=Lifecycle.COLLECTED, outcome=BatchOutcome.FAILED, error_class=ErrorClass.ACCOUNT,
    reason="You exceeded your current quota",
)  # fmt: skip


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([planned(failures=2, reason="not created: HTTP 429: slow down")], "not created: HTTP 429: slow down"),
        ([flying(failures=1, reason="HTTP 503: busy")], "HTTP 503: busy"),
        ([submitting(reason="HTTP 500: oops")], "HTTP 500: oops"),
        ([REFUSED, planned(id="second", parent_id="first")], "You exceeded your current quota"),
        ([REFUSED, flying(id="second", parent_id="first")], "You exceeded your current quota"),
        ([planned(reason="held back: openai runs 1 batches at once")], None),
        ([submitting()], None),
        ([flying()], None),
        ([flying(state=Lifecycle.LOST, failures=3, reason="lost")], None),
        ([replace(REFUSED, error_class=ErrorClass.PROVIDER_FAULT), planned(id="second", parent_id="first")], None),
    ],
)
def test_a_trouble_is_what_keeps_open_batches_from_being_answered(batches: list[Batch], message: str | None) -> None:
    troubles = provider_troubles(batches, lambda _provider: NOW)
    assert [trouble.message for trouble in troubles] == ([] if message is None else [message])
    for trouble in troubles:
        assert (trouble.provider, trouble.since, trouble.requests) == ("openai", NOW, batches[-1].requests)


def status(*batches: Batch) -> Status:
    troubles = provider_troubles(batches, lambda _provider: NOW)
    return Status("lab", RunState.RUNNING, None, Decimal(0), Decimal(0), (), batches, troubles=troubles)


FAILING = planned(failures=9, reason="not created: HTTP 429: slow down")


HELD = planned(id="held")


@pytest.mark.parametrize(
    ("after", "has_answered", "batches"),
    [
        (status(FAILING), False, [FAILING]),
        (status(FAILING, HELD), False, [FAILING, HELD]),  # not tried, for the first one came back
        (status(FAILING, replace(HELD, provider="mistral")), False, [FAILING]),
        (status(FAILING), True, []),  # it answered others meanwhile
        (status(FAILING, flying(id="other")), False, []),  # the provider works on others
        (status(flying()), False, []),
        (replace(status(FAILING), state=RunState.OVER_BUDGET), False, []),
    ],
)
def test_a_person_is_needed_for_the_batches_of_a_provider_that_refused_everything_during_a_call(
    after: Status, has_answered: bool, batches: list[Batch]
) -> None:
    assert list(without_answers(after, lambda _provider: has_answered)) == [
        (batch, "not created: HTTP 429: slow down") for batch in batches
    ]


def test_the_trouble_began_with_the_first_refusal_after_the_last_answer(tmp_path: Path) -> None:
    busy = Fault(on="create", action="status", provider="openai", status=429, after=1, times=99)
    with lab(tmp_path, busy) as bench:
        bench.finish(quiz_text(limit=2))
        bench.clock.sleep(86_400)
        begun = bench.clock.now()
        bench.finish(quiz_text(limit=5), max_hours=3)
        bench.clock.sleep(3600)
        with bench.open(quiz_text(limit=5)) as run:
            [trouble] = read_status(run.store).troubles
    assert isinstance(trouble, ProviderTrouble)
    assert (trouble.provider, trouble.requests) == ("openai", 3)
    assert trouble.since is not None
    assert 0 <= trouble.since - begun < 60
    assert "429" in trouble.message


def test_reasons_are_those_of_requests_that_still_have_no_answer(tmp_path: Path) -> None:
    faults = (
        Fault(on="row", action="error", status=429, match=r"-000001\b", times=1),
        Fault(on="row", action="error", status=400, match=r"-000002\b", times=9),
    )
    with lab(tmp_path, *faults) as bench:
        assert bench.finish(quiz_text(limit=3)).unanswered == 1
        with bench.open(quiz_text(limit=3)) as run:
            status_now = read_status(run.store)
            words = failure_words(find_run("lab", bench.runs), status_now)
    assert [request.custom_id.split("-")[-2] for request in status_now.failed] == ["000002"]
    assert [[count for _, count in counts] for counts in words.values()] == [[1]]
