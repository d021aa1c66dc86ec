"""Row conservation: every request of a batch ends with exactly one outcome, whatever the provider sent back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from layton_batch.batches.replies import Reply
from layton_batch.providers.damaged_rows import unreadable
from layton_batch.providers.wire_errors import clean
from layton_batch.records import Batch, End, Response
from layton_batch.states import BatchOutcome, ErrorClass, RequestOutcome

EXAMPLES = 3
"""How many of a batch's odd rows of one kind are told in words."""


@dataclass(slots=True)
class ReplyTally:
    """One reply per request, in the order in which the requests were sent, and what was odd about what came back."""

    replies: dict[str, Reply] = field(default_factory=dict)
    anomalies: list[tuple[str, str]] = field(default_factory=list)

    @property
    def account_trouble(self) -> str | None:
        """Return the provider's sentence about the account, where it refused a request to that."""
        responses = (reply.response for reply in self.replies.values())
        return next((one.error_message for one in responses if one.error_class is ErrorClass.ACCOUNT), None)

    @property
    def ends(self) -> Mapping[str, End]:
        """Return the outcome and error class of each request, by custom_id."""
        return {name: (reply.response.outcome, reply.response.error_class) for name, reply in self.replies.items()}


def assign_outcomes(
    entries: Iterable[Reply | str], sent: Sequence[str], batch: Batch, message: str | None = None
) -> ReplyTally:
    """Give each sent custom_id one reply.

    An answer beats an error; of two answers the first counts and the second is noted. Lines naming unknown ids and
    lines that cannot be read are noted (their raw bytes are kept). What no line names ends as the batch did, unless
    the lines that name nobody are enough to be about all of it: then it may have been paid for, and is unreadable.
    ``message``: what the provider says of the batch as a whole.
    """
    tally, sent_ids = ReplyTally(), frozenset(sent)
    seen: dict[str, Reply] = {}
    nameless = 0
    for entry in entries:
        if isinstance(entry, str):
            nameless += 1
            tally.anomalies.append(("unreadable_line", entry))
        elif entry.custom_id not in sent_ids:
            nameless += entry.response.error_class is ErrorClass.UNREADABLE
            note = f"a result names {entry.custom_id[:80]!r}, which was not sent"
            tally.anomalies.append(("unknown_custom_id", note))
        else:
            _take(seen, entry, tally)
    explained = len(sent_ids) - len(seen) <= nameless
    for custom_id in sent:
        reply = seen.get(custom_id)
        if reply is None:
            reply = Reply(unreadable(custom_id, _NAMELESS) if explained else _silence(custom_id, batch, message))
        tally.replies[custom_id] = reply
        response = reply.response
        if response.error_class is ErrorClass.UNREADABLE:
            tally.anomalies.append(("unreadable_line", f"{custom_id}: {response.error_message}. {_UNKNOWN_COST}"))
    return tally


def put_out_of_reach(tally: ReplyTally, custom_ids: Iterable[str]) -> None:
    """Have requests that no line names end as they would, but out of reach: they were perhaps answered and paid for,
    and whether they are bought again is a person's word (`retry`)."""
    for custom_id in custom_ids:
        lost = replace(tally.replies[custom_id].response, error_class=ErrorClass.OUT_OF_REACH, error_message=_UNNAMED)
        tally.replies[custom_id] = Reply(lost)


def summed(anomalies: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """One anomaly of each kind: its number and its first examples. A provider may send any number of odd rows."""
    by_kind: dict[str, list[str]] = {}
    for kind, detail in anomalies:
        by_kind.setdefault(kind, []).append(detail)
    return [(kind, details[0] if len(details) == 1 else _together(details)) for kind, details in by_kind.items()]


def _together(details: Sequence[str]) -> str:
    rest = len(details) - EXAMPLES
    more = f"; and {rest} more" if rest > 0 else ""
    return f"{len(details)} times: " + "; ".join(clean(detail, 500) for detail in details[:EXAMPLES]) + more


_UNNAMED = "no line of the results names it, and it may have been answered and billed"
_NAMELESS = "no line names it, and there are lines that cannot be read"
_UNKNOWN_COST = (
    "It may have been carried out and billed; what it cost is not in this run's bill. It is not sent again by itself: "
    "`layton-batch retry` does that"
)


def _take(seen: dict[str, Reply], entry: Reply, tally: ReplyTally) -> None:
    earlier = seen.get(entry.custom_id)
    if earlier is None:
        seen[entry.custom_id] = entry
        return
    if earlier != entry:
        tally.anomalies.append(("duplicate_result", f"{entry.custom_id} came more than once, with different content"))
    if _weight(entry.response) > _weight(earlier.response):
        seen[entry.custom_id] = entry


def _weight(response: Response) -> int:
    """Weigh a line about a request. The heavier of two lines counts: what may have been paid for beats the rest."""
    if response.outcome is RequestOutcome.SUCCEEDED:
        return 2
    return int(response.error_class is ErrorClass.UNREADABLE)


def _silence(custom_id: str, batch: Batch, message: str | None) -> Response:
    """The response of a request that no line names: why, where the batch failed; the other outcomes say it all."""
    outcome = _OF_BATCH[batch.outcome or BatchOutcome.COMPLETED]
    if outcome is not RequestOutcome.ERRORED:
        return Response(custom_id, outcome, error_class=ErrorClass.NOT_EXECUTED)
    error_class = ErrorClass.NOT_EXECUTED if batch.error_class is ErrorClass.NONE else batch.error_class
    return Response(custom_id, outcome, error_class=error_class, error_message=message)


_OF_BATCH = {
    BatchOutcome.COMPLETED: RequestOutcome.MISSING,
    BatchOutcome.EXPIRED: RequestOutcome.EXPIRED,
    BatchOutcome.CANCELLED: RequestOutcome.CANCELLED,
    BatchOutcome.FAILED: RequestOutcome.ERRORED,
}
