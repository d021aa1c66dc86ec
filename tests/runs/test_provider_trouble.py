"""What providers refuse or do not answer: which batches tell it, since when, and when a person is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layton_batch.records import Batch
from layton_batch.runs.status import (
    provider_troubles,
)
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle
from tests.support.batch_states import ended, flying, planned, submitting
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
