"""What `retry` and `resolve` say is to become of a run."""

from __future__ import annotations

from collections.abc import Iterator

from layton_batch.records import Batch
from layton_batch.run.status import RunState, Status
from layton_batch.states import OPEN, Lifecycle


def retried(count: int, status: Status, *, was_cancelled: bool) -> Iterator[str]:
    """Sentences on a run of which ``retry`` has so many requests go again; ``was_cancelled``: until then."""
    lost = [batch for batch in status.batches if batch.state is Lifecycle.LOST]
    waiting = sum(batch.state in OPEN for batch in status.batches) - len(lost)
    if count:
        yield f"{count} requests go again with the next `run`"
    elif waiting:
        yield f"no request that is over lacks an answer; {waiting} batches are not over: `run` goes on with them"
    elif status.unanswered:
        yield f"{status.unanswered} requests cannot be sent: a line of theirs alone is too large for its provider"
    elif lost:
        yield "no request that is over lacks an answer"
    elif status.state is RunState.DONE:
        yield "every request has an answer"
    else:
        yield "every request so far has an answer; `run` goes on with what is not asked yet"
    if lost:
        yield _lost(lost)
    if was_cancelled:
        yield "the run was cancelled: the next `run` goes on with it, and sends and pays for what it had left"


def _lost(batches: list[Batch]) -> str:
    return (
        f"{len(batches)} batches are lost, such as {batches[0].id}: `run` leaves them as they are until "
        "`layton-batch resolve` says what became of them"
    )


def resolved(batch_id: str, adopted: str | None, *, cancelled: bool) -> str:
    """What comes of a batch that was lost, adopted under an id or planned again."""
    if not cancelled:
        what = f"adopted as {adopted}" if adopted else "will be sent again"
        return f"{batch_id}: {what}; `run` goes on from here"
    if adopted:
        return f"{batch_id}: adopted as {adopted}; the run is cancelled: `run` has it stopped and collects its answers"
    return f"{batch_id}: not sent, for the run is cancelled; `retry`, before the next `run`, lets it go on and send it"
