"""Whether the results of an ended batch that are on disk can be all there is.

They are believed at once only where they name every request. Else they are downloaded again, with growing pauses, as
often as it may help: the first reading of a batch that has just ended may be of files that are still being written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from layton_batch.batches.raw_results import StoredPart, kind_of
from layton_batch.batches.replies import Replies
from layton_batch.errors import ProviderError
from layton_batch.providers.protocol import NO_REASON, NO_REPLY
from layton_batch.records import Batch, Response, Snapshot
from layton_batch.states import BatchOutcome, RequestOutcome

DOWNLOADS, DOWNLOADS_UNCOUNTED = 10, 7
"""How often results are downloaded that come short of the provider's count, or only of our requests: those that bring
nothing new, with pauses that add up to 36 and to 5 minutes."""
ANSWERS = "output"
"""The kind of the result part that holds what was paid for; another may hold errors."""


@dataclass(frozen=True, slots=True)
class CompletenessCheck:
    """The replies on disk, of all downloads so far, beside the ids that were sent."""

    replies: Replies
    ids: frozenset[str]

    @property
    def ours(self) -> frozenset[str]:
        """The requests of ours that lines which can be read name."""
        return self.replies.named & self.ids

    @property
    def naming(self) -> frozenset[Path]:
        """The parts that name any request of ours, also in a damaged line."""
        return frozenset(path for path, named in self.replies.parts.items() if named & self.ids)

    @property
    def answers(self) -> int:
        """Count the requests with an answer."""
        return len(self._named(_is_answer))

    @property
    def as_counted(self) -> int:
        """Count the requests that a provider may count as answered. OpenAI was seen to count rows without a reply."""
        return len(self._named(lambda response: _is_answer(response) or _never_got_a_reply(response)))

    def _named(self, wanted: Callable[[Response], bool]) -> frozenset[str]:
        responses = (entry.response for entry in self.replies.entries if not isinstance(entry, str))
        return self.ids.intersection(response.custom_id for response in responses if wanted(response))

    @property
    def of_another(self) -> bool:
        """Return whether these are another batch's results: lines can be read, and name only what we did not send."""
        return bool(self.replies.named) and not self.naming

    def grew(self, parts: Sequence[StoredPart], *, is_first: bool) -> bool:
        """Return whether the last download names more requests of ours than the downloads before. What the first one
        brings is no growth; what comes after downloads that brought nothing is."""
        new = {part.path for part in parts if part.is_new}
        before = frozenset[str]().union(*(self.replies.parts[path] for path in self.naming - new))
        return not (is_first and not before) and any(
            self.replies.parts.get(path, before) & self.ids - before for path in new
        )


def _is_answer(response: Response) -> bool:
    return response.outcome is RequestOutcome.SUCCEEDED


def _never_got_a_reply(response: Response) -> bool:
    return response.outcome is RequestOutcome.ERRORED and response.error_code == NO_REPLY


@dataclass(frozen=True, slots=True)
class MissingResults:
    """Why what is on disk may not be all there is.

    ``downloads``: how many of them may bring nothing new before that is believed; None: what came is no results, and
    no better than a download that failed, which is tried again as long as results are kept. ``may_be_none``: for a day
    only; where the provider counts answers and names a file of them, they are there. ``billed``: what no line names may
    have been answered and billed all the same.
    """

    reason: str
    billed: bool
    downloads: int | None = None
    may_be_none: bool = False


@dataclass(frozen=True, slots=True)
class DownloadResult:
    """Result of a download. ``lack``: why what is on disk may not be all there is; None: it is. ``failed``: why the
    download failed for good; ``uncounted``: why the provider did not say this time how many answers there are;
    ``answers``: how many it counts. ``grew``: more requests are named than before."""

    lack: MissingResults | None = None
    failed: ProviderError | None = None
    uncounted: ProviderError | None = None
    answers: int | None = None
    named: int = 0
    grew: bool = False


def counted(batch: Batch, snapshot: Snapshot, reading: CompletenessCheck) -> Snapshot:
    """The provider's reading, without counts that cannot be of our requests: of another number of them (0 of a batch of
    four), or of more than there are."""
    rows = (snapshot.succeeded or 0) + (snapshot.failed or 0)
    of_others = snapshot.total is not None and snapshot.total != batch.requests
    if of_others or rows > batch.requests or reading.of_another:
        return replace(snapshot, total=None, succeeded=None, failed=None)
    return snapshot


def lack(
    batch: Batch, snapshot: Snapshot, parts: Sequence[StoredPart], reading: CompletenessCheck
) -> MissingResults | None:
    """Return what may be missing, by the counts of :func:`counted`; ``parts``: of the last download. None: every
    request is named, and no answer is missing (a row without a reply may be counted as one)."""
    if reading.of_another:
        reason = f"the results of {batch.provider_id} are of other requests than ours: is it the right batch?"
        return MissingResults(reason, billed=True, downloads=DOWNLOADS)
    if _never_began(batch, snapshot, reading):
        return None
    if len(reading.ours) == batch.requests and reading.as_counted >= (snapshot.succeeded or 0):
        return None
    return _nothing(batch, snapshot, parts, reading) or _shortage(batch, snapshot, parts, reading)


def _never_began(batch: Batch, snapshot: Snapshot, reading: CompletenessCheck) -> bool:
    """Return whether the provider says why the batch failed as a whole, counts no answer and names no file: it failed
    at validation, and no results will come."""
    has_results = snapshot.results_ref or snapshot.errors_ref or snapshot.succeeded or reading.replies.parts
    return batch.outcome is BatchOutcome.FAILED and snapshot.message not in (None, "", NO_REASON) and not has_results


def _nothing(
    batch: Batch, snapshot: Snapshot, parts: Sequence[StoredPart], reading: CompletenessCheck
) -> MissingResults | None:
    """Results that are not there yet, or a page of HTML in their place. None where what came may be what became of the
    batch."""
    succeeded, completed = snapshot.succeeded, batch.outcome is BatchOutcome.COMPLETED
    is_there = bool(snapshot.results_ref or snapshot.errors_ref)
    if succeeded is None:
        may_lack = completed or is_there
    else:
        uncounted = batch.requests - succeeded - (snapshot.failed or 0)
        may_lack = reading.answers < succeeded or (completed and uncounted > 0)
    if not may_lack:
        return None
    billed = succeeded != 0
    if any(kind_of(part.path) == ANSWERS and part.path in reading.replies.foreign for part in parts):
        return MissingResults(
            "what came in place of the answers is no results: not one line of it names a request", billed
        )
    if reading.naming:
        return None
    reason = f"the batch is {batch.outcome}, and its results name none of its requests"
    return MissingResults(reason, billed, may_be_none=not (succeeded and is_there))


def _shortage(
    batch: Batch, snapshot: Snapshot, parts: Sequence[StoredPart], reading: CompletenessCheck
) -> MissingResults:
    """Results without some of the requests. What the provider counts as answered is there for certain, and so is the
    rest of a damaged file; for what else is not named, its count or its silence is believed in the end."""
    if snapshot.succeeded is not None and reading.answers < snapshot.succeeded:
        return _certain(f"{reading.answers} answers came, the provider counts {snapshot.succeeded}")
    for part in parts:
        if part.path in reading.replies.cut:
            return _certain(f"{part.path.name} ends in the middle of a line")
        if part.is_short:
            return _certain(f"{part.arrived} of the {part.size} bytes of {part.path.name} came")
    reason = f"{len(reading.ours)} of {batch.requests} requests are named"
    if snapshot.succeeded is None and reading.replies.damaged:
        return _certain(reason)
    return MissingResults(reason, billed=False, downloads=DOWNLOADS_UNCOUNTED)


def _certain(reason: str) -> MissingResults:
    return MissingResults(reason, billed=True, downloads=DOWNLOADS)
