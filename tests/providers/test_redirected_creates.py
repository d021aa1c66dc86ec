"""A create that is answered with a redirect may have been carried out: it is neither followed nor taken for unsent."""

from __future__ import annotations

import pytest

from layton_batch.errors import AmbiguousCallError
from layton_batch.records import Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall, Loopback
from tests.providers.conftest import KEY, Serve, reply
from tests.support.tiers import tiered

NAMES = ("openai", "groq", "doubleword", "together", "openrouter")
NOBODY = "http://127.0.0.1:1/v1/batches"
REDIRECTS = (301, 302, 303, 307, 308)
ANSWERS = (200, 400, 404, 429)
ADDRESSES = (None, "", "htps://nowhere/", "http://[", "/v1/batches/%zz")


def redirect(status: int, to: str) -> Answer:
    return Answer(status, b"", {"location": to})


@pytest.mark.parametrize(
    ("name", "status"),
    tiered(NAMES, REDIRECTS, ci=[*(("openai", status) for status in REDIRECTS), *((name, 307) for name in NAMES)]),
)
def test_a_redirect_to_where_nobody_answers_does_not_mean_that_nothing_was_sent(
    serve: Serve, submission: Submission, name: str, status: int
) -> None:
    provider, server = serve(name, redirect(status, NOBODY))
    with pytest.raises(AmbiguousCallError, match=f"HTTP {status}.*redirect") as caught:
        provider.create(submission)
    assert caught.value.status == status
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("name", "status", "said"),
    tiered(
        NAMES,
        REDIRECTS,
        ANSWERS,
        ci=[*(("openai", 307, said) for said in ANSWERS), *((name, 302, 200) for name in NAMES)],
    ),
)
def test_what_another_address_says_is_not_taken_for_the_answer_to_a_create(
    serve: Serve, submission: Submission, name: str, status: int, said: int
) -> None:
    with Loopback(reply({"id": "batch_elsewhere"}, said)) as elsewhere:
        provider, server = serve(name, redirect(status, f"{elsewhere.url}/v1/batches"))
        with pytest.raises(AmbiguousCallError):
            provider.create(submission)
    assert (len(server.calls), elsewhere.calls) == (1, [])


@pytest.mark.parametrize(
    ("name", "to"),
    tiered(NAMES, ADDRESSES, ci=[*(("openai", to) for to in ADDRESSES), *((name, None) for name in NAMES)]),
)
def test_a_redirect_to_no_address_is_ambiguous(serve: Serve, submission: Submission, name: str, to: str | None) -> None:
    answer = Answer(302, b"<html>moved</html>", {} if to is None else {"location": to})
    provider, server = serve(name, answer)
    with pytest.raises(AmbiguousCallError):
        provider.create(submission)
    assert len(server.calls) == 1


@pytest.mark.parametrize("name", [name for name in NAMES if name != "openrouter"])  # its results come with the batch
def test_a_download_follows_its_redirect_without_the_key(serve: Serve, name: str) -> None:
    with Loopback(Answer(200, b"the answers")) as store:
        there = store.url.replace("127.0.0.1", "localhost")

        def answer(call: HandlerCall) -> Answer:
            return redirect(302, f"{there}/file-out") if call.path.endswith("/content") else reply({"bytes": 11})

        provider, _ = serve(name, answer)
        ended = Snapshot("b", "completed", Lifecycle.ENDED, BatchOutcome.COMPLETED, results_ref="file-out")
        assert [b"".join(part.chunks) for part in provider.results(ended)] == [b"the answers"]
    assert [KEY in str(call.headers) for call in store.calls] == [False]
