"""Looking for a batch: by its tag or its file, without a tag by its requests, and lists that are none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from email.utils import formatdate

import pytest

from layton_batch.errors import ProviderReplyError
from layton_batch.providers.finding import clock_of, intended_at
from layton_batch.records import JsonValue, ListReading, Submission
from layton_batch.testing.providers import Answer, HandlerCall
from tests.support.tiers import tiered

from .conftest import Serve, reply, routes
from .documents import NOW, ODD_JOBS, Json, anthropic_batch, gemini_batch, mistral_job, openrouter_batch

HOUR, DAY = 3600.0, 86_400.0
OURS = {"layton_batch": "tag-b1"}


def pages(**by_query: JsonValue) -> Callable[[HandlerCall], Answer]:
    """The page of the last value that the call's query has; ``first`` where it has none."""

    def answer(call: HandlerCall) -> Answer:
        query = f"{call.path}&"
        return reply(next((page for mark, page in by_query.items() if f"={mark}&" in query), by_query["first"]))

    return answer


def listed(name: str, created: float = NOW, tag: str | None = None, file: str = "file-x") -> Json:
    return {"id": name, "created_at": created, "metadata": tag and {"layton_batch": tag}, "input_file_id": file}


def found(provider: object, submission: Submission) -> list[tuple[str, bool]]:
    return [(match.provider_id, match.certain) for match in provider.find(submission)]  # type: ignore[attr-defined]


# ---- by tag or file --------------------------------------------------------------------------------------------------

STRANGERS: list[JsonValue] = [mistral_job(id=f"s-{number}", metadata={"layton_batch": "x"}) for number in range(100)]
SEARCHES: dict[str, tuple[str, object, list[tuple[str, bool]]]] = {
    "openai: by tag, then by file, however old, over all pages": ("openai", pages(
        first={"data": [listed("newest", NOW + 9, "tag-b2"), listed("tagged", NOW + 5, "tag-b1"), listed("untagged")],
               "has_more": True, "last_id": "untagged"},
        untagged={"data": [
            listed("by-file", NOW + 3, None, "file-in"), listed("other attempt", NOW, "tag-b0", "file-in"),
            {"id": None, "metadata": OURS}, listed("a year ago", NOW - 365 * DAY),
            listed("made while our clock was ahead", NOW - 31 * DAY, "tag-b1")], "has_more": False},
    ), [("tagged", True), ("by-file", True), ("", True), ("made while our clock was ahead", True)]),
    "groq: along cursors": ("groq", pages(
        first={"data": [listed("old", 1)], "paging": {"next_cursor": "c2"}},
        c2={"data": [{"id": "ours", "input_file_id": "file-in"}], "paging": {"next_cursor": None}},
    ), [("ours", True)]),
    "groq: no batches": ("groq", reply({"data": None}), []),
    "together: by file, also without a time or an id": ("together", reply([
        {"id": name, "input_file_id": file, "created_at": created} for name, file, created in (
            ("ours", "file-in", "2027-01-15T08:00:30.123456789Z"), ("long before", "file-in", "2027-01-12T00:00:00Z"),
            ("other", "file-x", None), ("no time", "file-in", None), (None, "file-in", None), (7, "file-in", None))
    ]), [("ours", True), ("long before", True), ("no time", True), ("", True), ("", True)]),
    "together: no jobs": ("together", reply(None), []),
    "xai: by name": ("xai", pages(
        first={"batches": [{"batch_id": "a", "name": "one/1"}], "pagination_token": "p2"},
        p2={"batches": [{"batch_id": name, "name": name} for name in ("tag-b1/1", "tag-b1/2")]},
    ), [("tag-b1/1", True)]),
    "gemini: by tag": ("gemini", pages(
        first={"operations": [gemini_batch(tag="other")], "nextPageToken": "p2"},
        p2={"operations": [gemini_batch(name="batches/ours")]},
    ), [("batches/ours", True)]),
    "gemini: one that shows nothing of itself may be ours": ("gemini", reply(
        {"operations": [{"name": "batches/bare"}, gemini_batch(tag="another")]}), [("batches/bare", False)]),
    "gemini: ours without a name": ("gemini", reply({"operations": [gemini_batch(name="")]}), [("", True)]),
    "mistral: by tag": ("mistral", reply(
        {"data": [mistral_job(id="other", metadata={"layton_batch": "another"}), mistral_job()], "total": 2}),
        [("job-1", True)]),
    "mistral: where no metadata is shown, by file, whenever": ("mistral", reply({"data": [
        mistral_job(id="bare", metadata=None), mistral_job(id="behind", metadata=None, created_at=int(NOW) - 7_200),
        mistral_job(id="another", metadata=None, input_files=["file-else"])], "total": 3}),
        [("bare", True), ("behind", True)]),
    "mistral: on the second page": ("mistral", lambda call: reply(
        {"data": [mistral_job()] if "page=1&" in f"{call.path}&" else STRANGERS, "total": 101}), [("job-1", True)]),
    "mistral: fields left out": ("mistral", reply(
        {"data": [{"id": "another"}, {"id": "job-1", "metadata": OURS}], "total": 2}), [("job-1", True)]),
    **{f"mistral: {what}": ("mistral", reply({"data": [
        mistral_job(id="another") | odd | {"metadata": {"layton_batch": "x"}}, mistral_job() | odd], "total": 2}),
        [("job-1", True)]) for what, odd in ODD_JOBS.items()},
    "vertex: no list": ("vertex", reply({}), []),
}  # fmt: skip


@pytest.mark.parametrize("case", SEARCHES)
def test_what_carries_our_tag_or_our_file_is_found(serve: Serve, submission: Submission, case: str) -> None:
    name, answer, expected = SEARCHES[case]
    provider, server = serve(name, answer)
    assert found(provider, submission) == expected
    assert not any("created_after=" in call.path for call in server.calls)  # no clock of ours says how far to read


def test_a_batch_without_a_file_is_not_taken_for_one_that_was_never_uploaded(
    serve: Serve, submission: Submission
) -> None:
    nameless: JsonValue = {"id": "x", "created_at": NOW, "input_file_id": None}
    for name, page in (("openai", {"data": [nameless]}), ("together", [nameless])):
        assert serve(name, reply(page))[0].find(replace(submission, input_ref=None)) == []


def test_the_difference_between_the_clocks_is_taken_from_the_reply(submission: Submission) -> None:
    """Ours is ten minutes ahead: it is 08:20 here and 08:10 there."""
    asked = replace(submission, asked_at=NOW + 1200.0)
    assert intended_at(asked, clock_of({"date": "Fri, 15 Jan 2027 08:10:00 GMT"})) == NOW - 600.0
    assert intended_at(asked, clock_of({"date": "soon"})) == NOW


# ---- without a tag: Anthropic ----------------------------------------------------------------------------------------


def row(custom_id: str) -> bytes:
    return json.dumps({"custom_id": custom_id, "result": {"type": "expired"}}).encode() + b"\n"


def shown(*batches: Json, results: bytes | int = b"") -> Callable[[HandlerCall], Answer]:
    """A server that lists ``batches`` one a page and gives ``results`` for every one of them, or that status."""
    by_id = {str(one["id"]): one for one in batches}
    ids = list(by_id)

    def answer(call: HandlerCall) -> Answer:
        path, _, query = call.path.partition("?")
        if path.endswith("/results"):
            return Answer(results, b"{}") if isinstance(results, int) else Answer(200, results)
        after = next((part[9:] for part in query.split("&") if part.startswith("after_id=")), None)
        at = ids.index(after) + 1 if after else 0
        more, last = at + 1 < len(ids), ids[at] if ids else None
        return reply({"data": [by_id[ids[at]]] if ids else [], "has_more": more, "last_id": last})

    return answer


def over(name: str, made: str = "2027-01-15T08:00:10Z", **more: JsonValue) -> Json:
    return anthropic_batch("ended", made, id=name, **more)


LATER, EARLIER = "2027-01-18T08:00:00Z", "2027-01-06T08:00:00Z"
FEWER: Json = {"request_counts": {"succeeded": 0, "errored": 7}}
HOSTILE = json.dumps({"result": {"text": '{"custom_id": "a"}'}, "custom_id": "theirs"}).encode() + b"\n"


@pytest.mark.parametrize(("answer", "expected"), [
    (shown(), []),
    # one that runs is told by its size, whatever its time
    (shown(anthropic_batch(), anthropic_batch(id="three", request_counts={"processing": 3}),
           anthropic_batch(made=LATER, id="later"), anthropic_batch(made=EARLIER, id="earlier"),
           anthropic_batch(id="not counted yet", request_counts={"processing": 0})),
     [(name, False, True) for name in ("msgbatch_1", "later", "earlier", "not counted yet")]),
    # one that has ended by the ids of its results
    (shown(over("a"), results=row("a")), [("a", True, False)]),
    (shown(over("a"), results=row("theirs")), []),
    (shown(over("a"), results=HOSTILE), []),
    (shown(over("damaged"), results=b'{"custom_id": "not-ours", "resul\n' + row("a")), [("damaged", True, False)]),
    (shown(over("fewer", **FEWER), results=row("a")), [("fewer", True, False)]),
    (shown(over("not there yet"), results=404), [("not there yet", False, True)]),
    # days apart: if it has our size, and its results are there
    (shown(over("later", LATER), over("fewer", LATER, **FEWER), over("earlier", EARLIER),
           over("archived", EARLIER, archived_at="2027-02-01T08:00:00Z"), results=row("a")),
     [("later", True, False), ("earlier", True, False)]),
    (shown(over("x", EARLIER), results=row("theirs")), []),
])  # fmt: skip
def test_a_batch_of_anthropic_is_told_by_its_size_and_its_requests(
    serve: Serve, submission: Submission, answer: Callable[[HandlerCall], Answer], expected: list[object]
) -> None:
    provider, _ = serve("anthropic", answer)
    assert [(one.provider_id, one.certain, one.may_tell) for one in provider.find(submission)] == expected


def test_only_what_may_be_ours_is_asked_for_and_once(serve: Serve, submission: Submission) -> None:
    """Batches that the run knows are not; one that ended a day before the run began is where a create was tried; what
    several connections have seen they share, as batches that are sent together share the list."""
    known = replace(submission, known_ids=frozenset({"a", "b"}))
    provider, server = serve("anthropic", shown(over("a"), anthropic_batch(id="b"), results=row("a")))
    assert provider.find(known) == []
    assert not any("results" in call.path for call in server.calls)
    provider, server = serve("anthropic", shown(over("old", "2027-01-14T07:00:00Z"), results=row("a")))
    assert provider.find(replace(submission, reading=ListReading(NOW))) == []
    assert len(server.calls) == 1
    assert found(provider, submission) == [("old", True)]
    theirs = shown(over("a"), results=row("theirs"))
    (provider, server), shared = serve("anthropic", theirs), replace(submission, custom_ids={})
    for calls in (2, 3):  # the list each time, the results once
        assert provider.find(shared) == []
        assert len(server.calls) == calls
    provider, server = serve("anthropic", shown(anthropic_batch(id="x")))
    together = replace(submission, reading=ListReading(NOW))
    for _ in range(3):
        assert found(provider, together) == [("x", False)]
    assert len(server.calls) == 1


# ---- without a tag: OpenRouter ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "row_id", "expected"), [
    (openrouter_batch(), "a", [("batch_1", True, False)]),
    (openrouter_batch(created_at=NOW - HOUR), "a", [("batch_1", True, False)]),
    (openrouter_batch(), "z", []),
    (openrouter_batch("in_progress"), None, [("batch_1", False, True)]),
    (openrouter_batch("in_progress", request_counts={"total": 2}), None, []),
    (openrouter_batch("pondering"), None, [("batch_1", False, True)]),
    (openrouter_batch("expired"), None, [("batch_1", False, False)]),
    (openrouter_batch("expired", created_at=NOW - 2 * DAY - HOUR), None, []),
])  # fmt: skip
def test_a_batch_of_openrouter_is_told_by_its_results_alone(
    serve: Serve, submission: Submission, batch: Json, row_id: str | None, expected: list[object]
) -> None:
    whole = batch | {"results": [{"custom_id": row_id}] if row_id else None}
    page: JsonValue = {"object": "list", "data": [batch], "has_more": False}
    provider, _ = serve("openrouter", routes({"GET /batches": page, "GET /batches/batch_1": whole}))
    assert [(one.provider_id, one.certain, one.may_tell) for one in provider.find(submission)] == expected


# ---- lists that are none: a create whose reply was lost must not be repeated because of them -------------------------

NAMES = ("openai", "anthropic", "gemini", "mistral", "together", "groq", "doubleword", "openrouter", "xai")
NO_LIST: dict[str, JsonValue] = {
    "overloaded": {"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}},
    "unavailable": {"error": {"code": 503, "message": "unavailable"}},
    "maintenance": {"message": "down for maintenance"},
    "a text": "closed",
}
ROWS = {"gemini": "operations", "xai": "batches"}


@pytest.mark.parametrize(
    ("name", "page"),
    tiered(NAMES, NO_LIST, ci=[*((name, "overloaded") for name in NAMES), ("openai", "a text")]),
)
def test_an_error_told_with_status_200_is_not_an_empty_list(
    serve: Serve, submission: Submission, name: str, page: str
) -> None:
    provider, _ = serve(name, reply(NO_LIST[page]))
    with pytest.raises(ProviderReplyError):
        provider.find(submission)


ODD_ROWS: Sequence[JsonValue] = ({}, "none", 7, ["batch-1"], [None], [7], [["batch-1"]])


@pytest.mark.parametrize(("name", "page"), [
    *((name, {ROWS.get(name, "data"): rows, "has_more": False})
      for name in ("openai", "anthropic", "gemini", "mistral", "xai") for rows in ODD_ROWS if rows or name != "xai"),
    ("together", ["not a job"]), ("together", [{"id": "ours", "input_file_id": "file-in"}, "not a job"]),
    ("anthropic", {}), ("anthropic", {"data": None, "has_more": False}),
    ("gemini", {"operations": [{"name": ""}]}),
    ("xai", {"data": []}), ("xai", {"batches": [], "error": 1}),
    # a list that goes on and does not say where
    *((name, {"data": [batch], "has_more": True, **last}) for name, batch in (
        ("openai", listed("x")), ("openrouter", openrouter_batch()), ("anthropic", anthropic_batch(id="x")))
      for last in ({"last_id": "x"}, {"last_id": None}, {})),
    ("groq", {"data": [], "paging": {"next_cursor": "c"}}),
    ("xai", {"batches": [], "pagination_token": "again"}),
    ("gemini", {"operations": [{"name": "batches/x", "metadata": {}}], "nextPageToken": "again"}),
    ("gemini", {"operations": [], "nextPageToken": 5}),
    ("mistral", {"data": [{"id": "x"}], "object": "list", "total": 2}),
])  # fmt: skip
def test_a_list_that_cannot_be_read_to_its_end_is_an_error_not_an_absence(
    serve: Serve, submission: Submission, name: str, page: JsonValue
) -> None:
    provider, server = serve(name, reply(page))
    with pytest.raises(ProviderReplyError):
        provider.find(submission)
    assert len(server.calls) <= 2  # a page that brings nothing new is the last that is asked for


@pytest.mark.parametrize(("name", "page"), [
    ("anthropic", {"data": [], "has_more": False, "first_id": None, "last_id": None}),
    ("gemini", {}), ("gemini", {"operations": [], "nextPageToken": ""}),
    ("mistral", {"data": [], "object": "list", "total": 0}),
    ("xai", {}),
])  # fmt: skip
def test_an_empty_list_is_one(serve: Serve, submission: Submission, name: str, page: JsonValue) -> None:
    provider, server = serve(name, reply(page))
    assert provider.find(submission) == []
    assert len(server.calls) == (2 if name == "gemini" else 1)  # a batch made by the older version may show only there


def mistral_pages(size: int, jobs: Sequence[JsonValue], total: JsonValue) -> Callable[[HandlerCall], Answer]:
    """A server that gives pages of ``size`` whatever it was asked for."""

    def answer(call: HandlerCall) -> Answer:
        number = int(f"{call.path}&".partition("page=")[2].partition("&")[0])
        return reply({"data": jobs[number * size : (number + 1) * size], "object": "list", "total": total})

    return answer


MINE: JsonValue = {"id": "ours", "metadata": OURS}
JOBS: list[JsonValue] = [{"id": f"j-{number}"} for number in range(130)]


@pytest.mark.parametrize("answer", [
    *(mistral_pages(50, [*JOBS[:61], MINE, *JOBS[62:120]], total) for total in (120, None, 50, "120")),
    mistral_pages(2, [{"id": "a"}, MINE, MINE, {"id": "b"}], 3),  # shown on two pages
    # jobs come while the list is read
    lambda call: (mistral_pages(100, [*JOBS[:99], MINE, *JOBS[100:]], 130) if "page=0&" in call.path
                  else mistral_pages(100, [{"id": "new"}, *JOBS[:99], MINE, *JOBS[100:]], 131))(call),
])  # fmt: skip
def test_mistrals_pages_are_turned_to_the_end_and_a_job_is_found_once(
    serve: Serve, submission: Submission, answer: Callable[[HandlerCall], Answer]
) -> None:
    assert found(serve("mistral", answer)[0], submission) == [("ours", True)]


# ---- how far a list is read ----------------------------------------------------------------------------------------

PAGES_THERE = 12


def days_back(moments: Sequence[float | None], now: float) -> Callable[[HandlerCall], Answer]:
    """A list of two batches a page, with these times, by a provider whose clock shows ``now``."""

    def answer(call: HandlerCall) -> Answer:
        after = re.search(r"after=b(\d+)", call.path)
        first = int(after[1]) + 1 if after else 0
        rows = [{"id": f"b{at}", "created_at": moments[at]} for at in (first, first + 1)]
        page = {"data": rows, "has_more": first + 2 < len(moments), "last_id": f"b{first + 1}"}
        return reply(page, date=formatdate(now, usegmt=True))

    return answer


IN_ORDER = [NOW - half * DAY / 2 for half in range(2 * PAGES_THERE)]


@pytest.mark.parametrize(
    ("moments", "oldest", "asked", "pages"),
    [
        (IN_ORDER, NOW - 3.5 * DAY, NOW, 6),  # a day of slack, and the page that shows that there is no more
        (IN_ORDER, NOW, NOW, 3),
        (IN_ORDER, NOW + 6.5 * DAY, NOW + 10 * DAY, 6),  # our clock is ahead
        (IN_ORDER, NOW - 13.5 * DAY, NOW - 10 * DAY, 6),  # our clock is behind
        (IN_ORDER, None, NOW, PAGES_THERE),
        (IN_ORDER, NOW + DAY, NOW, PAGES_THERE),  # it was put back since
        (IN_ORDER[::-1], NOW, NOW, PAGES_THERE),
        ([*IN_ORDER[2:], NOW, NOW], NOW, NOW, 2),
        ([NOW - 9 * DAY, *IN_ORDER[1:]], NOW, NOW, PAGES_THERE),
        ([None, *IN_ORDER[1:]], NOW, NOW, PAGES_THERE),
    ],
)
def test_a_list_of_the_newest_first_is_read_back_to_what_is_looked_for(
    serve: Serve,
    submission: Submission,
    moments: Sequence[float | None],
    oldest: float | None,
    asked: float,
    pages: int,
) -> None:
    provider, server = serve("openai", days_back(moments, NOW))
    provider.find(replace(submission, oldest_at=oldest, asked_at=asked, intended_at=oldest))
    assert len(server.calls) == pages
