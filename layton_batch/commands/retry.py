"""retry: one more attempt for requests without an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layton_batch.clock import SystemClock
from layton_batch.commands.notes import TextDocument
from layton_batch.commands.parameters import OneRun, Runs, environment, run_folders
from layton_batch.records import Batch
from layton_batch.reports.run_result import missing_in_files, provider_jobs
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.runs.stores import open_store
from layton_batch.states import OPEN, Lifecycle
from layton_batch.text import plural


def retry(run: OneRun = None, *, runs: Runs = None) -> TextDocument:
    """Give requests without an answer one more attempt.

    The next `run` sends them, or the process that drives the run now.
    """
    settings = environment()
    (folder,) = run_folders(run, runs, settings)
    with open_store(folder, settings) as store:
        was_cancelled = store.row().cancelled
        count = store.retry(SystemClock().now())
        return TextDocument(tuple(_retried(count, read_status(store), was_cancelled=was_cancelled)))


def _retried(count: int, status: Status, *, was_cancelled: bool) -> Iterator[str]:
    """Describe a retry of so many requests, in sentences. ``was_cancelled``: the run was cancelled before it."""
    lost = [batch for batch in status.batches if batch.state is Lifecycle.LOST]
    if count:
        yield f"The next `run` sends {plural(count, 'request')} again."
    else:
        yield _nothing_to_retry(status, lost)
    if lost:
        yield _waiting_for_a_person(lost)
    if was_cancelled:
        yield "The run was cancelled. The next `run` continues it, and sends and pays for the remaining requests."


def _nothing_to_retry(status: Status, lost: Sequence[Batch]) -> str:
    still_open = sum(batch.state in OPEN for batch in status.batches) - len(lost)
    if still_open:
        return f"Nothing to retry; {plural(still_open, 'batch is', 'batches are')} still open. `run` continues."
    if unsent := sum(job.unanswered for job in provider_jobs(status)):
        return f"Nothing to retry; {plural(unsent, 'request')} cannot be sent: too large for the provider."
    if missing := missing_in_files(status):
        return f"Nothing to retry; {missing}."
    if lost:
        return "Nothing to retry."
    if status.state is RunState.DONE:
        return (
            "Nothing to retry; every request has an answer, and an answer is never bought again. To ask once more, "
            "set `samples = 2` under [[models]], or run a manifest with another name and `[policy] reuse = false`."
        )
    if to_send := sum(job.waiting for job in status.jobs):
        return f"Nothing to retry; {plural(to_send, 'request is', 'requests are')} still to be sent. `run` continues."
    return "Nothing to retry; every request so far has an answer. `run` sends the remaining requests."


def _waiting_for_a_person(lost: Sequence[Batch]) -> str:
    return (
        f"{plural(len(lost), 'batch is', 'batches are')} lost, such as {lost[0].id}. "
        "`run` does not touch a lost batch; decide what became of it with `layton-batch resolve`."
    )
