"""The only loop: tick, report, wait until something is due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from layton_batch.clock import Clock
from layton_batch.errors import ManifestError
from layton_batch.pipeline import advance, is_finished, next_due
from layton_batch.processes import terminating
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.store.orders import pending_orders

SHORTEST = 0.02
"""Seconds, at least, between two ticks that moved nothing; ``Pacing.idle`` says the most."""
STOPPING = "stopping: waiting a moment for calls in progress"
"""Message for a person who stopped a run while calls are in progress."""
PATIENCE = 1.0
"""Real seconds that a tick waits for providers that are slow to answer, before it goes on with what others brought."""


def drive(
    run: Run,
    *,
    once: bool,
    stop_at: float | None,
    progress: Callable[[Status], None] | None = None,
) -> Status:
    """Tick until the run is over, cannot go on, or time is up.

    ``once``: until nothing can be done without waiting. ``stop_at``: epoch seconds. ``progress`` gets the status after
    every tick. Ctrl-C and SIGTERM raise KeyboardInterrupt and leave batches running. Raises EngineError and
    ManifestError where the run's engine cannot be used; nothing was sent.
    """
    with terminating():
        return _ticks(run, progress or _ignore, once=once, stop_at=stop_at)


def _ignore(_status: Status) -> None:
    """Do nothing with a status."""


def _ticks(run: Run, progress: Callable[[Status], None], *, once: bool, stop_at: float | None) -> Status:
    run.store.wake()  # who calls again may have mended what these wait for
    if not is_finished(run):
        run.engine.check_folder(run.folder.root)  # before anything is paid whose tables could not be written
    status: Status | None = None
    while True:
        late = _late(run.clock, stop_at)
        moved = advance(run, None if once or late else PATIENCE)  # at the end no provider is left amid its work
        moved |= run.threads.are_busy
        status = read_status(run.store, counted=None if moved else status)
        progress(status)
        halted = (once or status.state in _HALTED) and not moved  # what moved may have let money go
        if is_finished(run) or late or (halted and not pending_orders(run.store)):
            return read_status(run.store)
        if not moved:
            _wait(run, stop_at)


_HALTED = frozenset({RunState.NEEDS_PERSON, RunState.OVER_BUDGET})


def _late(clock: Clock, stop_at: float | None) -> bool:
    return stop_at is not None and clock.now() >= stop_at


def _wait(run: Run, stop_at: float | None) -> None:
    now = run.clock.now()
    moments = [moment for moment in (next_due(run), stop_at) if moment is not None]
    run.clock.sleep(min(max(min(moments, default=now) - now, SHORTEST), run.pacing.idle))


def deadline(until: str | None, clock: Clock) -> float | None:
    """The next moment it is ``HH:MM`` here, as epoch seconds. Raises ManifestError for anything else."""
    if until is None:
        return None
    try:
        wanted = datetime.strptime(until, "%H:%M").time()  # noqa: DTZ007  a wall-clock time of this place is meant
    except ValueError as error:
        raise ManifestError(f"--until {until!r}: give a local time as HH:MM") from error
    here = datetime.fromtimestamp(clock.now()).astimezone()
    moment = here.replace(hour=wanted.hour, minute=wanted.minute, second=0, microsecond=0)
    return (moment if moment > here else moment + timedelta(days=1)).timestamp()
