"""The only loop: tick, report, wait until something is due."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from layton_batch.clock import Clock
from layton_batch.errors import ManifestError
from layton_batch.pipeline import advance, is_finished, next_due
from layton_batch.processes import terminating
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState, Status, read_status

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
    every tick. Ctrl-C and SIGTERM raise KeyboardInterrupt and leave batches running.
    """
    with terminating() as heed_stop:
        return _ticks(run, progress or _ignore, heed_stop, once=once, stop_at=stop_at)


def _ignore(_status: Status) -> None:
    """Do nothing with a status."""


def _ticks(
    run: Run, progress: Callable[[Status], None], heed_stop: Callable[[], None], *, once: bool, stop_at: float | None
) -> Status:
    run.store.wake(run.clock.now())  # who calls again may have mended what these wait for
    status: Status | None = None
    while True:
        heed_stop()
        late = _late(run.clock, stop_at)
        with run.store.reading_once():
            moved = advance(run, None if once or late else PATIENCE)  # at the end no provider is left amid its work
            moved |= run.threads.are_busy
            status = read_status(run.store, counted=None if moved else status)
            progress(status)
            halted = (once or status.state in _HALTED) and not moved  # what moved may have let money go
            is_over = is_finished(run) or late or halted
            moments = () if is_over or moved else (next_due(run), stop_at)
        if is_over:
            return read_status(run.store)
        if not moved:
            _wait(run, moments)


_HALTED = frozenset({RunState.NEEDS_PERSON, RunState.OVER_BUDGET})


def _late(clock: Clock, stop_at: float | None) -> bool:
    return stop_at is not None and clock.now() >= stop_at


def _wait(run: Run, moments: Iterable[float | None]) -> None:
    now = run.clock.now()
    first = min((moment for moment in moments if moment is not None), default=now)
    run.clock.sleep(min(max(first - now, SHORTEST), run.pacing.idle))


def deadline(until: str | None, clock: Clock) -> float | None:
    """The next moment that the clock on the wall shows ``HH:MM``, as epoch seconds: also on the night on which it is
    changed. Raises ManifestError for anything else."""
    if until is None:
        return None
    try:
        wanted = datetime.strptime(until, "%H:%M").time()  # noqa: DTZ007  a wall-clock time of this place is meant
    except ValueError as error:
        raise ManifestError(f"--until {until!r}: give a local time as HH:MM") from error
    now = clock.now()
    today = datetime.fromtimestamp(now).date()  # noqa: DTZ006
    moments = (datetime.combine(today + timedelta(days=day), wanted).timestamp() for day in (0, 1))
    return next(moment for moment in moments if moment > now)
