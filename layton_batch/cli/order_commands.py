"""Leave `cancel`, `retry` and `resolve` to the process that drives the run."""

from __future__ import annotations

from layton_batch.cli.before_calling import say_addresses
from layton_batch.cli.driving import say_trouble
from layton_batch.cli.endings import ask_to_stop, cancel_exit_code
from layton_batch.cli.progress import drive_and_report
from layton_batch.cli.terminal import say
from layton_batch.clock import Clock, SystemClock
from layton_batch.errors import AnotherDriverError, ManifestError
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.open import open_folder
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings
from layton_batch.states import OPEN, Lifecycle
from layton_batch.store.orders import OrderKind, give_order

LOOK_SECONDS = 1.0
"""Between two looks of `cancel` at a run that another process drives."""


def ordered(
    folder: RunFolder,
    settings: Settings,
    driver: str,
    kind: OrderKind,
    batch_id: str | None = None,
    argument: str | None = None,
) -> tuple[str, str]:
    """Leave an order to the run's driver. Return the run's id and a sentence for the person.

    A driver that is not `run`, or that is just ending, does not look at it: the order stays for the next `run`.
    """
    with open_store(folder, settings) as store:
        give_order(store, kind, SystemClock().now(), batch_id=batch_id, argument=argument)
        about = "" if batch_id is None else f" {batch_id}"
        sentence = f"{driver} drives run {store.run_id} and carries out {kind}{about} at its next step, "
        return store.run_id, f"{sentence}or else the next `run` does; see `events`"


def require_lost(folder: RunFolder, settings: Settings, batch_id: str) -> None:
    """Raise ManifestError where the run's batch is not lost; needs no key, as the providers are not called."""
    with open_store(folder, settings) as store:
        states = {batch.id: batch.state for batch in store.batches()}
        if states.get(batch_id) is Lifecycle.LOST:
            return
        lost = [name for name, state in states.items() if state is Lifecycle.LOST]
        advice = f"the lost batches of the run: {', '.join(lost)}" if lost else "the run has no lost batch to resolve"
        if batch_id not in states:
            raise ManifestError(f"run {store.run_id} has no batch {batch_id!r}; {advice}")
        raise ManifestError(
            f"batch {batch_id} of run {store.run_id} is {states[batch_id]}, not lost: nothing to resolve; {advice}"
        )


def cancelled(
    folder: RunFolder, settings: Settings, clock: Clock, *, poll_seconds: float | None, no_wait: bool, quiet: bool
) -> tuple[Status, int]:
    """Cancel the run and, unless ``no_wait``, wait until its batches have ended. Return its status and the exit code
    for what was left to a person, 0 where nothing was."""
    while True:
        try:
            calls = _has_batches_to_stop(folder, settings)
            with open_folder(folder, settings, poll_seconds=poll_seconds, calls_providers=calls) as opened:
                if calls:
                    say_addresses(opened.manifest, settings)
                ask_to_stop(opened)
                if no_wait:
                    return read_status(opened.store), say_trouble(opened)
                status = drive_and_report(opened, settings, once=False, stop_at=None, quiet=quiet)
                return status, say_trouble(opened)
        except AnotherDriverError as error:
            status = _left_to_driver(folder, settings, clock, error.driver, no_wait=no_wait)
            if no_wait or not _goes_on(status):
                return status, 0


def _has_batches_to_stop(folder: RunFolder, settings: Settings) -> bool:
    """Return whether a provider has, or may have, a batch of the run whose results are not here."""
    with open_store(folder, settings) as store:
        return bool(store.batches(OPEN - {Lifecycle.PLANNED}))


def _left_to_driver(folder: RunFolder, settings: Settings, clock: Clock, driver: str, *, no_wait: bool) -> Status:
    """Mark the run cancelled; unless ``no_wait``, return when its batches have ended or nobody drives it any more."""
    with open_store(folder, settings) as store:
        status = read_status(store)
        if status.state is RunState.DONE:
            store.take_back_retries(clock.now())
            say(f"{status.run} is done: there is nothing to cancel")
            return status
        store.set_cancelled(clock.now())
        say(f"{driver} drives run {status.run} and stops its batches at its next step")
        status = read_status(store)
        while not no_wait and _goes_on(status):
            clock.sleep(LOOK_SECONDS)
            status = read_status(store)
            try:
                store.require_undriven()
            except AnotherDriverError:
                continue
            break
        return status


def _goes_on(status: Status) -> bool:
    """Return whether a provider may go on with a batch, or has results that are not here, and no person is needed."""
    return status.state is not RunState.NEEDS_PERSON and cancel_exit_code(status) != 0
