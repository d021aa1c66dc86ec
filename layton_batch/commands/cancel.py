"""cancel: stop paying, and wait until the run's batches have ended, whichever process drives it meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from layton_batch.batches.person import cancel_run, is_done
from layton_batch.clock import Clock, SystemClock
from layton_batch.commands.driving import Conversation, drive_with_reports
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import OneRun, Runs, environment, run_folders
from layton_batch.errors import AnotherDriverError
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch
from layton_batch.reports.run_result import CALL_AGAIN, NEEDS_PERSON, RunResult
from layton_batch.runs.context import Run
from layton_batch.runs.environment_notes import address_notes
from layton_batch.runs.open import open_folder
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings
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
    while True:
        try:
            return _cancelled(folder, settings, conversation, clock, no_wait=no_wait)
        except AnotherDriverError as error:
            status = _cancelled_beside(folder, settings, clock, error.driver, no_wait=no_wait)
            if no_wait or not _goes_on(status):
                with open_store(folder, settings) as store:
                    return _result(RunResult.read(folder, store))


def _cancelled(
    folder: RunFolder, settings: Settings, conversation: Conversation, clock: Clock, *, no_wait: bool
) -> RunResult:
    """Cancel the run and, unless ``no_wait``, wait until the batches at providers have ended."""
    calls = _has_batches_to_stop(folder, settings)
    with open_folder(folder, settings, clock=clock, calls_providers=calls) as opened:
        if calls:
            warn(address_notes(opened.manifest, settings))
        _ask_to_stop(opened)
        status = read_status(opened.store) if no_wait and calls else drive_with_reports(opened, conversation)
        return _result(RunResult.read(opened.folder, opened.store, status, opened.engine.trouble))


def _ask_to_stop(run: Run) -> None:
    """Cancel the run. Say which batches are not stopped yet."""
    if is_done(run):
        warn((f"{run.id} is done: there is nothing to cancel",))
    for unstopped in cancel_run(run):
        batch = unstopped.batch
        line = f"not stopped yet  {batch.id} ({batch.provider} {batch.provider_id}): {unstopped.reason}"
        warn((one_line(line),))


def _has_batches_to_stop(folder: RunFolder, settings: Settings) -> bool:
    """Return whether a provider has, or may have, a batch of the run whose results are not here."""
    with open_store(folder, settings) as store:
        return bool(store.batches(OPEN - {Lifecycle.PLANNED}))


def _cancelled_beside(folder: RunFolder, settings: Settings, clock: Clock, driver: str, *, no_wait: bool) -> Status:
    """Mark the run cancelled, which another process drives. Unless ``no_wait``, return when its batches have ended or
    nobody drives it any more."""
    with open_store(folder, settings) as store:
        status = read_status(store)
        if status.state is RunState.DONE:
            warn((f"{status.run} is done: there is nothing to cancel",))
            return status
        store.set_cancelled(clock.now())
        warn((f"{driver} drives run {status.run} and stops its batches at its next step",))
        status = read_status(store)
        while not no_wait and _goes_on(status) and _is_driven(store, folder, clock):
            clock.sleep(LOOK_SECONDS)
            status = read_status(store)
        return status


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
