"""cancel: stop paying, and wait until the run's batches have ended, whichever process drives it meanwhile."""

from __future__ import annotations

from typing import Annotated

import typer

from layton_batch.cli.conversation import TerminalConversation
from layton_batch.cli.endings import ask_to_stop, cancel_exit_code, say_trouble
from layton_batch.cli.options import Json, RunName, Runs
from layton_batch.cli.terminal import print_json, say
from layton_batch.clock import Clock, SystemClock
from layton_batch.commands.driving import driven
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import environment, runs_folder
from layton_batch.commands.run_result import RunResult
from layton_batch.errors import AnotherDriverError
from layton_batch.files.run_folder import RunFolder
from layton_batch.reports.status_tables import print_status
from layton_batch.runs.environment_notes import address_notes
from layton_batch.runs.folders import find_run
from layton_batch.runs.open import open_folder
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings
from layton_batch.states import OPEN, Lifecycle
from layton_batch.store.run_lock import driving
from layton_batch.store.run_store import RunStore

LOOK_SECONDS = 1.0
"""Between two looks at a run that another process drives."""


def cancel(
    run_name: RunName = None,
    runs: Runs = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Ask providers to stop, and return.")] = False,
    as_json: Json = False,
) -> None:
    """Stop paying: cancel a run's batches at the providers.

    Waits until each has ended, and collects what was answered before. A cancel that fails is tried again until then.
    Where another process drives the run, that one stops the batches at its next step.
    Exit codes: 0 all ended, 75 (after --no-wait or Ctrl-C) call again, 4 a person must decide about a lost batch.
    """
    settings, clock = environment(), SystemClock()
    folder = find_run(run_name, runs_folder(runs, settings))
    status, trouble = _cancelled(folder, settings, clock, no_wait=no_wait, quiet=as_json)
    if as_json:
        with open_store(folder, settings) as store:
            print_json(RunResult.read(folder, store).as_json())
    else:
        print_status(status, clock.now())
    raise typer.Exit(trouble or cancel_exit_code(status))


def _cancelled(
    folder: RunFolder, settings: Settings, clock: Clock, *, no_wait: bool, quiet: bool
) -> tuple[Status, int]:
    """Cancel the run and, unless ``no_wait``, wait until its batches have ended. Return its status and the exit code
    for what was left to a person, 0 where nothing was."""
    while True:
        try:
            calls = _has_batches_to_stop(folder, settings)
            with open_folder(folder, settings, calls_providers=calls) as opened:
                if calls:
                    warn(address_notes(opened.manifest, settings))
                ask_to_stop(opened)
                if no_wait:
                    return read_status(opened.store), say_trouble(opened)
                status = driven(opened, TerminalConversation(is_quiet=quiet))
                return status, say_trouble(opened)
        except AnotherDriverError as error:
            status = _cancelled_beside(folder, settings, clock, error.driver, no_wait=no_wait)
            if no_wait or not _goes_on(status):
                return status, 0


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
            say(f"{status.run} is done: there is nothing to cancel")
            return status
        store.set_cancelled(clock.now())
        say(f"{driver} drives run {status.run} and stops its batches at its next step")
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


def _goes_on(status: Status) -> bool:
    """Return whether a provider may go on with a batch, or has results that are not here, and no person is needed."""
    return status.state is not RunState.NEEDS_PERSON and cancel_exit_code(status) != 0
