"""Looking for a batch: which calls it takes, and how far a list is read (what a page says: test_forms)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from email.utils import formatdate

import pytest

from layton_batch.records import JsonValue, ListReading, Submission
from layton_batch.testing.providers import Answer, HandlerCall

from .conftest import Play, Serve, reply
from .documents import NOW, anthropic_batch

DAY = 86_400.0


def listed(name: str, status: str = "ended", made: str = "2027-01-15T08:00:10Z", of: str = "a") -> dict[str, JsonValue]:
    """Return a list of Anthropic with one batch, whose results are of the request ``of``."""
    page: JsonValue = {"data": [anthropic_batch(status, made, id=name)], "has_more": False, "last_id": name}
    results = json.dumps({"custom_id": of, "result": {"type": "expired"}}) + "\n"
    return {"/results": {"$text": results}, "": page}


def test_only_what_may_be_ours_is_asked_for_and_once(play: Play, submission: Submission) -> None:
    """Batches that the run knows are not; one that ended a day before the run began is where a create was tried; what
    several connections have seen they share, as batches that are sent together share the list."""

    def found(looked_for: Submission, calls: int, *expected: tuple[str, bool]) -> None:
        assert [(match.provider_id, match.certain) for match in provider.find(looked_for)] == [*expected]
        assert len(server.calls) == calls

    provider, server = play("anthropic", listed("a"))
    found(replace(submission, known_ids=frozenset({"a"})), 1)
    provider, server = play("anthropic", listed("old", made="2027-01-14T07:00:00Z"))
    found(replace(submission, reading=ListReading(NOW)), 1)
    found(submission, 3, ("old", True))
    provider, server = play("anthropic", listed("b", of="theirs"))
    shared = replace(submission, custom_ids={})
    for calls in (2, 3):  # the list each time, the results once
        found(shared, calls)
    provider, server = play("anthropic", listed("x", "in_progress"))
    together = replace(submission, reading=ListReading(NOW))
    for _ in range(3):
        found(together, 1, ("x", False))


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


@pytest.mark.parametrize(("moments", "oldest", "asked", "pages"), [
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
])  # fmt: skip
def test_a_list_of_the_newest_first_is_read_back_to_what_is_looked_for(
    serve: Serve, submission: Submission, moments: Sequence[float | None], oldest: float | None, asked: float,
    pages: int,
) -> None:  # fmt: skip
    provider, server = serve("openai", days_back(moments, NOW))
    provider.find(replace(submission, oldest_at=oldest, asked_at=asked, intended_at=oldest))
    assert len(server.calls) == pages
