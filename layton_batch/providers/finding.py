"""Our batches in a provider's list, known by their name or file, or, without a name, by the requests they hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeVar

from layton_batch.errors import ProviderReplyError
from layton_batch.providers.inline import custom_ids
from layton_batch.providers.wire_json import JsonObject, objects
from layton_batch.records import JsonValue, MatchingBatch, Submission

_Page = TypeVar("_Page")

MAX_PAGES = 1_000
"""Most pages of one list: beyond that it is taken for one that never ends."""
APART = 86_400.0
"""Most seconds between times of our clock and another that may be the same: if nothing but the time tells whose a
batch is, one within it is not ruled out."""


@dataclass(frozen=True, slots=True)
class ListedBatch:
    """A batch as a provider's list shows it. Times are epoch seconds, None if the list or the reply does not say them.

    ``now``: the provider's clock as of the reply. ``name``: the tag it carries; ``inputs``: its files; ``requests``:
    their number, 0 if it is not known. ``is_blank``: the list shows nothing of it but its id.
    """

    provider_id: str
    created_at: float | None
    now: float | None = None
    name: str | None = None
    inputs: Collection[JsonValue] = ()
    requests: int = 0
    has_ended: bool = False
    has_results: bool = False
    is_blank: bool = False


# ---- lists


def pages(
    provider: str, read: Callable[[str | None], _Page], following: Callable[[_Page], str | None]
) -> Iterator[_Page]:
    """Yield every page of a list. ``following``: what asks for the page after this one; None after the last one, empty
    if there is one and it is not said which. Raises ProviderReplyError if the list goes on and cannot be followed."""
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
    """Return the error of a list that says there is more and not where: what was not seen must not count as absent."""
    return ProviderReplyError(
        f"{provider}: the list of batches says that it goes on, but its next page cannot be found"
    )


def rows(page: JsonObject, key: str, provider: str, *, may_lack: Collection[str] = ()) -> list[JsonObject]:
    """Return the objects of a page. Raises ProviderReplyError for what is no page, such as an error told with HTTP 200:
    it must not count as an empty one. ``may_lack``: keys of a page from an API that leaves out what is empty."""
    if may_lack and "error" not in page and (not page or page.keys() & {key, *may_lack}):
        page = {key: []} if page.get(key) is None else page
    elif may_lack:
        page = {}
    listed = objects(page, key)
    if page.get(key) != listed:
        raise ProviderReplyError(f"{provider}: what was to be a list holds no list of objects named {key!r}")
    return listed


# ---- by name or file


def by_name(batches: Iterable[ListedBatch], submission: Submission, name: str) -> list[MatchingBatch]:
    """Return the batches of our name, or of our file if they show no name. A batch that shows neither may be ours, and
    only a person can know."""
    matches = []
    for batch in batches:
        is_ours = batch.name == name
        if batch.name is None:
            is_ours = submission.input_ref is not None and submission.input_ref in batch.inputs
        tag = (batch.name or "").partition("/")[0]
        if is_ours or batch.is_blank:
            matches.append(MatchingBatch(batch.provider_id, certain=is_ours, created_at=batch.created_at))
        elif submission.is_of_a_copy(batch.provider_id, [tag]):
            matches.append(MatchingBatch(batch.provider_id, certain=False, of_a_copy=True))
    return matches


# ---- by requests


def by_requests(
    batches: Iterable[ListedBatch], submission: Submission, first_custom_ids: Callable[[str], Collection[str]]
) -> list[MatchingBatch]:
    """Return the batches that may be ours. One that runs is told by its size; one that has ended by the ``custom_id``s
    of its results, within a day of our intent whatever their number: rows go missing, lines are damaged.

    A batch with custom_ids of ours is ours, for they carry the run's mark. No time rules out a batch that shows whose
    it is, or still runs: between the intent and now our clock may have been set by any amount. It does rule out a batch
    that will never show results, and, before a create, one a day older than the run.
    """
    ours: set[str] | None = None
    matches = []
    for batch in batches:
        name, seen = batch.provider_id, frozenset[str]()
        since = intended_at(submission, batch.now)
        is_near = batch.created_at is None or since is None or abs(batch.created_at - since) <= APART
        is_of_our_size = batch.requests in (0, submission.requests)
        shows_nothing = batch.has_ended and not batch.has_results
        if name in submission.known_ids or not (is_of_our_size or (batch.has_results and is_near)):
            continue
        if shows_nothing and not is_near:
            continue
        if batch.has_results:
            if _is_older_than_run(submission, batch.created_at, since):
                continue
            ours = custom_ids(submission.path) if ours is None else ours
            if name not in submission.custom_ids and (ids := frozenset(first_custom_ids(name))):
                submission.custom_ids[name] = ids
            seen = submission.custom_ids.get(name, seen)
            if seen and ours and not seen & ours:
                if submission.is_of_a_copy(name, seen):
                    matches.append(MatchingBatch(name, certain=False, of_a_copy=True))
                continue
        certain = bool(seen and ours)
        may_tell = not seen and not shows_nothing
        matches.append(MatchingBatch(name, certain=certain, created_at=batch.created_at, may_tell=may_tell))
    return matches


def _is_older_than_run(submission: Submission, created_at: float | None, born: float | None) -> bool:
    """Return whether a batch is a day older than the run, whose birth ``born`` is on the provider's clock, so that no
    copy of the run made it. Only before a create: if one was tried, no time of ours counts."""
    if submission.reading is None or created_at is None or born is None:
        return False
    return created_at < born - APART


# ---- the provider's clock

# Our clock may be wrong by hours (a time zone, a machine that has just started), so the `date` header of the reply that
# lists the batches (RFC 9110, 6.6.1) says how far apart the two are.


def clock_of(headers: Mapping[str, str]) -> float | None:
    """Return the provider's time, epoch seconds, as of a reply with these headers; None if they do not say it."""
    try:
        return parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def intended_at(submission: Submission, now: float | None) -> float | None:
    """Return when the intent to create was committed, on the provider's clock, which shows ``now``."""
    if submission.intended_at is None or submission.asked_at is None or now is None:
        return submission.intended_at
    return submission.intended_at + now - submission.asked_at


class ListOrder:
    """Tells how far a list has to be read that shows the newest batches first: until a page shows only batches that are
    a day older than all that is looked for. A list that turns out to be in another order, or to show no times, is read
    to its end; and so is one if our clock is behind the time that is looked for, because it was set meanwhile."""

    def __init__(self, submission: Submission) -> None:
        self._oldest, self._ours = submission.oldest_at, submission.asked_at
        self._last: float | None = math.inf

    def is_read(self, created: Sequence[float | None], now: float | None) -> bool:
        """Return whether no page after this one matters, which shows batches with these times."""
        for moment in created:
            is_in_order = self._last is not None and moment is not None and moment <= self._last
            self._last = moment if is_in_order else None
        if self._oldest is None or self._ours is None or not created or self._last is None:
            return False
        since = self._oldest - APART + (now if now is not None else self._ours) - self._ours
        return self._oldest <= self._ours and max(moment for moment in created if moment is not None) < since
