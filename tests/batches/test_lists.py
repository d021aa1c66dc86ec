"""Which reading of a provider's list counts before a batch is created."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from layton_batch.batches.steps import LIST_SECONDS, ProviderLists
from layton_batch.errors import TransientProviderError
from layton_batch.records import ListReading
from tests.support.batch_states import planned

PLANNED = planned()
NOW = 1_000.0


@pytest.mark.parametrize(
    ("later", "is_shared"),
    [(0.0, True), (LIST_SECONDS, True), (LIST_SECONDS + 0.1, False), (-LIST_SECONDS - 0.1, False)],
)
def test_a_list_counts_for_all_that_is_sent_within_seconds(later: float, is_shared: bool) -> None:
    lists = ProviderLists()
    first = lists.reading(PLANNED, NOW)
    assert first.begun == NOW
    assert (lists.reading(replace(PLANNED, id="another"), NOW + later) is first) == is_shared


def test_a_provider_has_its_own_list_and_so_has_a_batch_that_was_tried() -> None:
    lists = ProviderLists()
    first = lists.reading(PLANNED, NOW)
    assert lists.reading(replace(PLANNED, provider="another"), NOW) is not first
    tried = replace(PLANNED, submitting_at=NOW - 3600.0)
    assert lists.reading(tried, NOW) is not lists.reading(tried, NOW)
    assert lists.reading(PLANNED, NOW) is first


def test_a_list_that_could_not_be_read_is_read_by_the_next() -> None:
    reading, answers = ListReading(NOW), iter([None, ["a", "b"]])

    def read() -> Iterator[str]:
        answer = next(answers)
        yield "a row before the page that fails"
        if answer is None:
            raise TransientProviderError("openai: busy")
        yield from answer

    with pytest.raises(TransientProviderError):
        reading.rows(read)
    assert len(reading.rows(read)) == 3
    assert len(reading.rows(read)) == 3  # nobody reads any more
