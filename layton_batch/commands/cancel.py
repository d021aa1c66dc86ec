"""cancel: stop paying, and wait until the run's batches have ended, whichever process drives it meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from layton_batch.clock import Clock, SystemClock
from layton_batch.commands.driving import Conversation, drive_with_reports
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import OneRun, Runs, environment, run_folders
from layton_batch.errors import AnotherDriverError
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch
from layton_batch.reports.run_result import CALL_AGAIN, NEEDS_PERSON, RunResult
from layton_batch.runs.environment_notes import address_notes
from layton_batch.runs.open import open_folder
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.runs.stores import open_store
from layton_batch.states import OPEN, Lifecycle
from layton_batch.store.run_lock import driving
from layton_batch.store.run_store import RunStore
from layton_batch.text import one_line

LOOK_SECONDS = 1.0
"""Between two looks at a run that another process drives."""


def cancel(
    run: OneRun = None,
    *,
    runs: Runs = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Ask providers to stop, and return.")] = False,
    conversation: Conversation | None = None,
    clock: Clock | None = None,
) -> RunResult:
    """Stop paying: cancel a run's batches at the providers.

    Waits until each has ended, and collects what was answered before. A cancel that fails is tried again until then.
    Where another process drives the run, that one stops the batches at its next step.
    Exit codes: 0 all ended, 75 (after --no-wait or Ctrl-C) call again, 4 a person must decide about a lost batch.
    """
    settings, clock, conversation = environment(), clock or SystemClock(), conversation or Conversation()
    (folder,) = run_folders(run, runs, settings)
    with open_store(folder, settings) as store:
        is_done = read_status(store).state is RunState.DONE
        if not is_done:
            store.set_cancelled(clock.now())
        is_sent = bool(store.batches(OPEN - {Lifecycle.PLANNED}))  # a provider has, or may have, a batch
        while True:
            try:
                with open_folder(folder, settings, clock=clock, calls_providers=is_sent) as opened:
                    if is_done:
                        warn((f"{store.run_id} is done: there is nothing to cancel",))
                    if is_sent:
                        warn(address_notes(opened.manifest, settings))
                    status = drive_with_reports(opened, conversation, once=no_wait)
                    _tell_of_refusals(status)
                    return _result(RunResult.read(folder, opened.store, status, opened.engine.trouble))
            except AnotherDriverError as error:
                warn((f"{error.driver} drives run {store.run_id} and stops its batches at its next step",))
                while not no_wait and _goes_on(read_status(store)) and _is_driven(store, folder, clock):
                    clock.sleep(LOOK_SECONDS)
                if no_wait or not _goes_on(read_status(store)):
                    return _result(RunResult.read(folder, store))


def _tell_of_refusals(status: Status) -> None:
    """Say which batches a provider does not stop yet."""
    for batch in status.batches:
        if batch.state is Lifecycle.CANCELLING and batch.failures:
            warn((one_line(f"not stopped yet  {batch.id} ({batch.provider} {batch.provider_id}): {batch.reason}"),))


def _is_driven(store: RunStore, folder: RunFolder, clock: Clock) -> bool:
    """Return whether another process drives the run: whether its lock cannot be had for a moment."""
    try:
        with driving(store, folder.lock, clock.now()):
            return False
    except AnotherDriverError:
        return True


def _result(result: RunResult) -> RunResult:
    return replace(result, code=_code(result.status))


def _goes_on(status: Status) -> bool:
    """Return whether a provider may go on with a batch, or has results that are not here, and no person is needed."""
    return _code(status) == CALL_AGAIN


def _code(status: Status) -> int:
    """Return 0 if no provider has a batch of the run any more, 4 if a person must decide about a batch."""
    if status.state is RunState.NEEDS_PERSON:
        return NEEDS_PERSON
    return CALL_AGAIN if any(_is_outstanding(batch) for batch in status.batches) else 0


def _is_outstanding(batch: Batch) -> bool:
    """Return whether a provider may go on with the batch, or has results that are not here. A batch that was withdrawn
    before it was sent is not outstanding.
    """
    withdrawn = batch.state is Lifecycle.ENDED and batch.provider_id is None
    return batch.state in OPEN and not withdrawn
