"""Row conservation: whatever comes back, each request ends exactly one way."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.records import Batch, Response
from layton_batch.stages.outcomes import count_rows, settle
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome

SENT = [f"c{n}" for n in range(5)]


def batch(outcome: BatchOutcome = BatchOutcome.COMPLETED, error_class: ErrorClass = ErrorClass.NONE) -> Batch:
    return Batch(
        "b", "j", "s", "openai", "m", 1, Lifecycle.ENDED, "t", len(SENT), "p", "h", 1,
        outcome=outcome, error_class=error_class, reason="why",
    )  # fmt: skip


lines = st.lists(
    st.one_of(
        st.text(max_size=5),
        st.builds(
            Response,
            custom_id=st.sampled_from([*SENT, "stranger"]),
            outcome=st.sampled_from(RequestOutcome),
            text=st.none() | st.text(max_size=3),
        ),
    ),
    max_size=20,
)


@given(decoded=lines, outcome=st.sampled_from(BatchOutcome))
def test_each_request_has_one_outcome_and_the_counts_add_up(
    decoded: list[Response | str], outcome: BatchOutcome
) -> None:
    one = batch(outcome)
    tally = settle(decoded, SENT, one)
    assert list(tally.responses) == SENT
    counts = count_rows(one, tally, frozenset(SENT[:2]))
    assert sum(row.count for row in counts) == len(SENT)
    assert sum(row.resubmitted for row in counts) == 2
    answered = {entry.custom_id for entry in decoded if isinstance(entry, Response)
                and entry.outcome is RequestOutcome.SUCCEEDED} & set(SENT)  # fmt: skip
    assert {name for name, got in tally.responses.items() if got.outcome is RequestOutcome.SUCCEEDED} == answered
    kinds = Counter(kind for kind, _ in tally.oddities)
    assert kinds["unreadable_line"] == sum(isinstance(entry, str) for entry in decoded)


@pytest.mark.parametrize(
    ("outcome", "ends"),
    [
        (BatchOutcome.COMPLETED, RequestOutcome.MISSING),
        (BatchOutcome.EXPIRED, RequestOutcome.EXPIRED),
        (BatchOutcome.CANCELLED, RequestOutcome.CANCELLED),
        (BatchOutcome.FAILED, RequestOutcome.ERRORED),
    ],
)
def test_a_request_that_no_line_names_ends_as_its_batch_did(outcome: BatchOutcome, ends: RequestOutcome) -> None:
    tally = settle([], SENT, batch(outcome))
    assert {response.outcome for response in tally.responses.values()} == {ends}


def test_of_two_answers_the_first_counts_and_the_second_is_told() -> None:
    first = Response("c0", RequestOutcome.SUCCEEDED, "one")
    tally = settle([first, Response("c0", RequestOutcome.SUCCEEDED, "two")], SENT, batch())
    assert tally.responses["c0"] is first
    assert [kind for kind, _ in tally.oddities] == ["duplicate_result"]


def test_an_answer_beats_an_error_whichever_comes_first() -> None:
    error, answer = Response("c0", RequestOutcome.ERRORED), Response("c0", RequestOutcome.SUCCEEDED, "x")
    for order in ([error, answer], [answer, error]):
        assert settle(order, SENT, batch()).responses["c0"] is answer


def test_the_class_of_a_batch_that_failed_as_a_whole_is_its_rows_class() -> None:
    tally = settle([], SENT, batch(BatchOutcome.FAILED, ErrorClass.INVALID_REQUEST))
    assert {response.error_class for response in tally.responses.values()} == {ErrorClass.INVALID_REQUEST}
