"""What `cancel` says, and the exit code it ends with."""

from __future__ import annotations

from layton_batch.batches.cancel import cancel_run, is_done
from layton_batch.cli.status_report import CODES
from layton_batch.cli.terminal import one_line, say
from layton_batch.records import Batch
from layton_batch.run.context import Run
from layton_batch.run.status import RunState, Status
from layton_batch.states import OPEN, Lifecycle

CALL_AGAIN = 75


def asked_to_stop(run: Run) -> None:
    """Cancel the run; what goes on all the same is told, a line a batch."""
    if is_done(run):
        say(f"{run.id} is done: there is nothing to cancel")
    for one in cancel_run(run):
        batch = one.batch
        say(one_line(f"not stopped yet  {batch.id} ({batch.provider} {batch.provider_id}): {one.reason}"))


def cancel_exit_code(status: Status) -> int:
    """0 where no provider has anything of the run any more, 4 where a person must say what became of a batch."""
    if status.state is RunState.NEEDS_PERSON:
        return CODES[status.state]
    return CALL_AGAIN if any(_is_outstanding(batch) for batch in status.batches) else 0


def _is_outstanding(batch: Batch) -> bool:
    """Whether a provider may go on with the batch, or has results of it that are not here. One that was withdrawn
    before it was sent is neither."""
    withdrawn = batch.state is Lifecycle.ENDED and batch.provider_id is None
    return batch.state in OPEN and not withdrawn
