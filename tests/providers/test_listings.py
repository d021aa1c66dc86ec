"""Listings that are none: a create whose reply was lost must not be repeated because of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from layton_batch.errors import ProviderReplyError
from layton_batch.records import JsonValue, Submission
from layton_batch.testing.providers import Answer, HandlerCall
from tests.support.tiers import FAMILIES, tiered

from .conftest import Serve, reply

NAMES = ("openai", "anthropic", "gemini", "mistral", "together", "groq", "doubleword", "openrouter")
OVERLOADED: JsonValue = {"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}}
ROWS = {"gemini": "operations"}


PAGES: dict[str, JsonValue] = {
    "overloaded": OVERLOADED,
    "unavailable": {"error": {"code": 503, "message": "unavailable"}},
    "maintenance": {"message": "down for maintenance"},
    "a text": "closed",
}


@pytest.mark.parametrize(
    ("name", "page"),
    tiered(
        NAMES,
        PAGES,
        ci=[*((name, "overloaded") for name in NAMES), *((name, page) for name in FAMILIES for page in PAGES)],
    ),
)
def test_an_error_told_with_status_200_is_not_an_empty_list(
    serve: Serve, submission: Submission, name: str, page: str
) -> None:
    provider, _ = serve(name, reply(PAGES[page]))
    with pytest.raises(ProviderReplyError):
        provider.find(submission)


@pytest.mark.parametrize("name", ["anthropic", "gemini", "mistral"])
@pytest.mark.parametrize("rows", [{}, "none", 7, ["batch-1"], [None]])
def test_a_list_of_what_are_no_batches_is_not_an_empty_list(
    serve: Serve, submission: Submission, name: str, rows: JsonValue
) -> None:
    provider, _ = serve(name, reply({ROWS.get(name, "data"): rows, "has_more": False}))
    with pytest.raises(ProviderReplyError):
        provider.find(submission)


@pytest.mark.parametrize("page", [{}, {"data": None, "has_more": False}])
def test_anthropic_always_shows_its_rows(serve: Serve, submission: Submission, page: JsonValue) -> None:
    provider, _ = serve("anthropic", reply(page))
    with pytest.raises(ProviderReplyError):
        provider.find(submission)


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("anthropic", {"data": [], "has_more": False, "first_id": None, "last_id": None}),
        ("gemini", {}),
        ("gemini", {"operations": [], "nextPageToken": ""}),
        ("mistral", {"data": [], "object": "list", "total": 0}),
    ],
)
def test_an_empty_list_is_one(serve: Serve, submission: Submission, name: str, page: JsonValue) -> None:
    provider, server = serve(name, reply(page))
    assert provider.find(submission) == []
    assert len(server.calls) == (2 if name == "gemini" else 1)  # a batch made by the older version may show only there


# ---- lists that go on


ANOTHER: JsonValue = {
    "id": "msgbatch_x", "processing_status": "in_progress", "request_counts": {"processing": 9},
    "created_at": "2027-01-15T08:00:00Z",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("anthropic", {"data": [ANOTHER], "has_more": True, "last_id": "msgbatch_x"}),
        ("anthropic", {"data": [ANOTHER], "has_more": True, "last_id": None}),
        ("anthropic", {"data": [ANOTHER], "has_more": True}),
        ("gemini", {"operations": [{"name": "batches/x", "metadata": {}}], "nextPageToken": "again"}),
        ("gemini", {"operations": [], "nextPageToken": 5}),
        ("mistral", {"data": [{"id": "x"}], "object": "list", "total": 2}),
    ],
)
def test_a_list_that_goes_on_and_does_not_say_where_is_not_at_its_end(
    serve: Serve, submission: Submission, name: str, page: JsonValue
) -> None:
    provider, server = serve(name, reply(page))
    with pytest.raises(ProviderReplyError, match="next page cannot be found"):
        provider.find(submission)
    assert len(server.calls) <= 2  # a page that brings nothing new is the last that is asked for


def turning(pages: list[JsonValue], marks: list[str]) -> Callable[[HandlerCall], Answer]:
    """The page whose mark the call names; the first where it names none."""

    def answer(call: HandlerCall) -> Answer:
        named = [number for number, mark in enumerate(marks) if f"={mark}&" in f"{call.path}&"]
        return reply(pages[named[-1] + 1 if named else 0])

    return answer


def test_pages_that_go_round_in_a_circle_are_not_read_for_ever(serve: Serve, submission: Submission) -> None:
    circle: list[JsonValue] = [{"data": [ANOTHER], "has_more": True, "last_id": last} for last in ("one", "two", "one")]
    provider, server = serve("anthropic", turning(circle, ["one", "two"]))
    with pytest.raises(ProviderReplyError, match="next page cannot be found"):
        provider.find(submission)
    assert len(server.calls) == 3
    tokens: list[JsonValue] = [{"operations": [], "nextPageToken": token} for token in ("one", "two", "one")]
    provider, server = serve("gemini", turning(tokens, ["one", "two"]))
    with pytest.raises(ProviderReplyError, match="next page cannot be found"):
        provider.find(submission)
    assert len(server.calls) == 3


def mistral_pages(size: int, jobs: list[JsonValue], total: JsonValue) -> Callable[[HandlerCall], Answer]:
    """A server that gives pages of ``size`` whatever it was asked for."""

    def answer(call: HandlerCall) -> Answer:
        number = int(f"{call.path}&".partition("page=")[2].partition("&")[0])
        return reply({"data": jobs[number * size : (number + 1) * size], "object": "list", "total": total})

    return answer


@pytest.mark.parametrize("total", [120, None, 50, "120"])
def test_mistrals_pages_are_turned_to_the_end_though_they_are_smaller_than_asked_for(
    serve: Serve, submission: Submission, total: JsonValue
) -> None:
    jobs: list[JsonValue] = [{"id": f"j-{number}", "metadata": {"layton_batch": f"t{number}"}} for number in range(120)]
    jobs[61] = {"id": "ours", "metadata": {"layton_batch": submission.tag}}
    provider, _ = serve("mistral", mistral_pages(50, jobs, total))
    assert [found.provider_id for found in provider.find(submission)] == ["ours"]


def test_a_job_shown_on_two_pages_of_mistrals_is_found_once(serve: Serve, submission: Submission) -> None:
    ours: JsonValue = {"id": "ours", "metadata": {"layton_batch": submission.tag}}
    provider, _ = serve("mistral", mistral_pages(2, [{"id": "a"}, ours, ours, {"id": "b"}], 3))
    assert [found.provider_id for found in provider.find(submission)] == ["ours"]


def test_jobs_that_come_while_mistrals_list_is_read_do_not_make_it_incomplete(
    serve: Serve, submission: Submission
) -> None:
    jobs: list[JsonValue] = [{"id": f"j-{number}"} for number in range(130)]
    jobs[99] = {"id": "ours", "metadata": {"layton_batch": submission.tag}}
    before, after = mistral_pages(100, jobs, 130), mistral_pages(100, [{"id": "new"}, *jobs], 131)
    provider, _ = serve("mistral", lambda call: (before if "page=0&" in call.path else after)(call))
    assert [found.provider_id for found in provider.find(submission)] == ["ours"]


def test_a_list_of_mistrals_that_ends_before_its_total_is_not_believed(serve: Serve, submission: Submission) -> None:
    provider, _ = serve("mistral", mistral_pages(100, [{"id": "a"}], 2))
    with pytest.raises(ProviderReplyError, match="next page cannot be found"):
        provider.find(submission)
