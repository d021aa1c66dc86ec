"""Row conservation: whatever comes back, each request ends exactly one way."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.batches.attempts import Attempts
from layton_batch.batches.outcomes import ReplyTally, assign_outcomes, summed
from layton_batch.batches.replies import Reply
from layton_batch.providers.damaged_rows import unreadable
from layton_batch.records import Batch, Response
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome

SENT = [f"c{n}" for n in range(5)]


def batch(outcome: BatchOutcome = BatchOutcome.COMPLETED, error_class: ErrorClass = ErrorClass.NONE) -> Batch:
    return Batch(
        "b", "j", "s", "openai", "m", 1, Lifecycle.ENDED, "t", len(SENT), "p", "h", 1,
        outcome=outcome, error_class=error_class, reason="why",
    )  # fmt: skip


def reply(custom_id: str, text: str = "x") -> Reply:
    """An answer."""
    return Reply(Response(custom_id, RequestOutcome.SUCCEEDED), hash(text))


lines = st.lists(
    st.one_of(
        st.text(max_size=5),
        st.builds(
            Reply,
            st.builds(
                Response,
                custom_id=st.sampled_from([*SENT, "stranger"]),
                outcome=st.sampled_from(RequestOutcome),
            ),
            st.integers(0, 3),
        ),
    ),
    max_size=20,
)


@given(decoded=lines, outcome=st.sampled_from(BatchOutcome))
def test_each_request_has_one_outcome(decoded: list[Reply | str], outcome: BatchOutcome) -> None:
    tally = assign_outcomes(decoded, SENT, batch(outcome))
    assert list(tally.replies) == list(tally.ends) == SENT
    answered = {entry.custom_id for entry in decoded if isinstance(entry, Reply)
                and entry.response.outcome is RequestOutcome.SUCCEEDED} & set(SENT)  # fmt: skip
    assert {name for name, got in tally.replies.items() if got.response.outcome is RequestOutcome.SUCCEEDED} == answered
    kinds = Counter(kind for kind, _ in tally.anomalies)
    nameless = sum(isinstance(entry, str) for entry in decoded)
    unread = sum(error_class is ErrorClass.UNREADABLE for _, error_class in tally.ends.values())
    assert kinds["unreadable_line"] == nameless + unread


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
    tally = assign_outcomes([], SENT, batch(outcome), "why")
    assert {reply.response.outcome for reply in tally.replies.values()} == {ends}
    says = "why" if outcome is BatchOutcome.FAILED else None  # why it was waited for is no part of another outcome
    assert {reply.response.error_message for reply in tally.replies.values()} == {says}


def test_of_two_answers_the_first_counts_and_the_second_is_told() -> None:
    first = reply("c0", text="one")
    tally = assign_outcomes([first, reply("c0", text="two")], SENT, batch())
    assert tally.replies["c0"] is first
    assert [kind for kind, _ in tally.anomalies] == ["duplicate_result"]


def test_an_answer_beats_an_error_whichever_comes_first() -> None:
    error, answer = Reply(Response("c0", RequestOutcome.ERRORED)), reply("c0")
    for order in ([error, answer], [answer, error]):
        assert assign_outcomes(order, SENT, batch()).replies["c0"] is answer


def test_the_class_of_a_batch_that_failed_as_a_whole_is_its_rows_class() -> None:
    tally = assign_outcomes([], SENT, batch(BatchOutcome.FAILED, ErrorClass.INVALID_REQUEST))
    assert {reply.response.error_class for reply in tally.replies.values()} == {ErrorClass.INVALID_REQUEST}


def again(tally: ReplyTally) -> frozenset[str]:
    first = batch()
    return Attempts.of(first, [first]).again(tally.ends, 3)


def unread(tally: ReplyTally) -> set[str]:
    return {name for name, got in tally.replies.items() if got.response.error_class is ErrorClass.UNREADABLE}


@pytest.mark.parametrize("outcome", BatchOutcome)
def test_requests_that_damaged_lines_explain_are_unreadable_and_do_not_go_again(outcome: BatchOutcome) -> None:
    answers = [reply(name) for name in SENT[2:]]
    tally = assign_outcomes([*answers, "half a line", "another"], SENT, batch(outcome))
    assert unread(tally) == {"c0", "c1"}
    assert not again(tally)
    told = [
        detail for kind, detail in tally.anomalies if kind == "unreadable_line" and "not in this run's bill" in detail
    ]
    assert len(told) == 2
    assert all("retry" in detail for detail in told)


def test_more_missing_requests_than_damaged_lines_are_missing() -> None:
    answers = [reply(name) for name in SENT[2:]]
    tally = assign_outcomes([*answers, "half a line"], SENT, batch())
    assert not unread(tally)
    assert {tally.replies[name].response.outcome for name in SENT[:2]} == {RequestOutcome.MISSING}
    assert again(tally) == set(SENT[:2])


def test_a_damaged_line_under_an_id_nobody_sent_may_be_any_request() -> None:
    answers = [reply(name) for name in SENT[1:]]
    tally = assign_outcomes([*answers, Reply(unreadable("stranger", "half a line"))], SENT, batch())
    assert unread(tally) == {"c0"}


def test_what_may_have_been_paid_for_beats_what_was_not_and_an_answer_beats_both() -> None:
    answer = reply("c0")
    failed = Reply(Response("c0", RequestOutcome.ERRORED, error_class=ErrorClass.PROVIDER_FAULT))
    damaged = Reply(unreadable("c0", "half a line"))
    for order in itertools.permutations([failed, damaged, answer]):
        assert assign_outcomes(order, SENT, batch()).replies["c0"] is answer
    for order in itertools.permutations([failed, damaged]):
        assert assign_outcomes(order, SENT, batch()).replies["c0"] is damaged


def test_any_number_of_odd_rows_is_told_in_one_sentence_for_each_kind() -> None:
    odd = [("a", f"line {number} " + "x" * 2000) for number in range(5000)] + [("b", "once")]
    told = dict(summed(odd))
    assert told["b"] == "once"
    assert told["a"].startswith("5000 times: line 0 ")
    assert told["a"].endswith("; and 4997 more")
    assert len(told["a"]) < 1600
    assert dict(summed(odd[:2]))["a"].count("line") == 2
