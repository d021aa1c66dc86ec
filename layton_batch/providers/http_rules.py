"""HTTP rules that the dialects share: a redirected create is not followed, the provider's clock, HTTP ranges of
downloads, lists of several pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from layton_batch.errors import ProviderReplyError
from layton_batch.records import Submission

_CREATE = "/batches"
"""End of the path of the paid call, in every OpenAI-shaped API."""

_Page = TypeVar("_Page")


class RedirectedError(Exception):
    """A paid call was answered with a redirect; ``response`` is that answer, ``body`` what to say of it."""

    def __init__(self, response: Any) -> None:
        self.body = "it is a redirect, which is not followed"
        super().__init__(self.body)
        self.response = response


def not_redirected(response: Any) -> None:
    """Raises RedirectedError where the answer to a create is a redirect.

    Followed, it would be sent a second time, or what became of the second call would be taken for what became of the
    first. Other calls may follow theirs: downloads do, to where the files are stored.
    """
    request = response.request
    if request.method == "POST" and request.url.path.endswith(_CREATE) and 300 <= response.status_code < 400:
        raise RedirectedError(response)


HOOKS: Mapping[str, list[Callable[[Any], None]]] = {"response": [not_redirected]}


# ---- the provider's clock

# Where a batch shows no mark (any more), its time of creation may rule it out. Our clock may be wrong by hours (a time
# zone, a machine that has just started), so the `date` header of the reply that lists the batches (RFC 9110, 6.6.1)
# says how far apart the two are.

APART = 86_400.0
"""Most seconds between times of our clock and another that may be the same: where nothing but the time tells whose a
batch is, one within it is not ruled out."""


def intended_at(submission: Submission, headers: Mapping[str, str]) -> float | None:
    """When the intent to create was committed, on the provider's clock as of a reply with these headers."""
    if submission.intended_at is None or submission.asked_at is None:
        return submission.intended_at
    return submission.intended_at + _now(headers, submission.asked_at) - submission.asked_at


def _now(headers: Mapping[str, str], ours: float) -> float:
    """Return the provider's time as of a reply with these headers; ours where it does not say."""
    try:
        return parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, TypeError, OverflowError):
        return ours


def is_near(created_at: float | None, since: float | None) -> bool:
    """Return whether a batch may have been created at ``since``. Unknown times match any time."""
    return created_at is None or since is None or abs(created_at - since) <= APART


def is_older_than_run(submission: Submission, created_at: float | None, born: float | None) -> bool:
    """Return whether a batch is a day older than the run, whose birth ``born`` is on the provider's clock, so that no
    copy of the run made it. Only before a create: where one was tried, no time of ours counts."""
    if submission.reading is None or created_at is None or born is None:
        return False
    return created_at < born - APART


class ListOrder:
    """Tells how far a list has to be read that shows the newest batches first: until a page shows only batches that are
    a day older than all that is looked for. A list that turns out to be in another order, or to show no times, is read
    to its end; and so is one where our clock is behind the time that is looked for, because it was set meanwhile."""

    def __init__(self, submission: Submission) -> None:
        self._oldest, self._ours = submission.oldest_at, submission.asked_at
        self._last: float | None = math.inf

    def is_read(self, created: Sequence[float | None], headers: Mapping[str, str]) -> bool:
        """Return whether no page after this one matters, which shows batches with these times."""
        for moment in created:
            is_in_order = self._last is not None and moment is not None and moment <= self._last
            self._last = moment if is_in_order else None
        if self._oldest is None or self._ours is None or not created or self._last is None:
            return False
        since = self._oldest - APART + _now(headers, self._ours) - self._ours
        return self._oldest <= self._ours and max(moment for moment in created if moment is not None) < since


# ---- a download that broke off, taken up where it broke: HTTP ranges (RFC 9110, section 14)

# No provider's documents promise them and none forbids them: what the reply says decides.


def range_headers(start: int) -> Mapping[str, str]:
    """Return the headers that ask for the bytes from ``start`` on, of the content and not of a compressed form."""
    return {"Range": f"bytes={start}-", "Accept-Encoding": "identity"} if start else {}


def check_range(provider: str, start: int, status: int, reply: Mapping[str, str]) -> None:
    """Raises ProviderReplyError where the reply is not what ``start`` asked for: servers may send everything again."""
    if start and not (status == 206 and reply.get("content-range", "").strip().startswith(f"bytes {start}-")):
        raise ProviderReplyError(f"{provider}: a download cannot be taken up where it broke off (HTTP {status})")


# ---- a list of several pages

MAX_PAGES = 1_000
"""Most pages of one list: beyond that it is taken for one that never ends."""


def turned(
    provider: str, read: Callable[[str | None], _Page], following: Callable[[_Page], str | None]
) -> Iterator[_Page]:
    """Every page of a list. ``following``: what asks for the page after this one; None after the last one, empty where
    there is one and it is not said which. Raises ProviderReplyError where the list goes on and cannot be followed."""
    cursor: str | None = None
    cursors: set[str] = set()
    while True:
        page = read(cursor)
        yield page
        cursor = following(page)
        if cursor is None:
            return
        if not cursor or cursor in cursors or len(cursors) == MAX_PAGES:
            raise stuck(provider)
        cursors.add(cursor)


def stuck(provider: str) -> ProviderReplyError:
    """A listing that says there is more and not where: what was not seen must not count as absent."""
    return ProviderReplyError(
        f"{provider}: the list of batches says that it goes on, but its next page cannot be found"
    )
