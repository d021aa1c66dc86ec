"""Reports on a run's progress: a screen on a terminal, plain lines elsewhere, nothing with ``--json``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from layton_batch.cli.outages import ProviderOutages
from layton_batch.cli.terminal import say
from layton_batch.clock import Clock, iso, utc
from layton_batch.records import Batch, Event
from layton_batch.reports.status_tables import batches_table, expectation, jobs_table, money_line, most_urgent
from layton_batch.reports.table import console, grid
from layton_batch.runs.environment_notes import outage_advice
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.settings import Settings
from layton_batch.states import AT_PROVIDER, OPEN
from layton_batch.text import money, one_line, plural

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from layton_batch.runs.context import Run
    from layton_batch.store.run_store import RunStore

QUIET_KINDS = frozenset(
    {
        "submitting",
        "status",
        "looking",
        "unsure",
        "download_again",
        "download_short",
        "download_grew",
        "unclear",
        "upload_failed",
        "jobs_planned",
        "job_planned",
        "ended",
        "job_graded",
        "run_stopped",
    }
)
"""Events that only ``events`` shows; the status at the end of `run` tells why it was stopped."""
ROUTINE_KINDS = frozenset({"submitted", "collected", "withdrawn"})
"""Events that come once a batch: lines add up what happened since the last ones."""
LINES_SECONDS = 2.0
"""How long routine events are gathered before a line tells of them."""
QUIET_SECONDS = 60.0
"""After so long without a line, one says that the run is still at it."""
FOLLOW_SECONDS = 1.0
_GOES_ON = frozenset({RunState.RUNNING, RunState.NEEDS_PERSON, RunState.OVER_BUDGET})
GOES_ON_HINT = "Ctrl-C stops this program; batches go on at the providers, and nothing is lost."
LIVE_BATCHES = 6
"""Open batches in the live view; it stays on one screen of 24 lines."""


class Reporter(Protocol):
    """Receiver of a run's status after every tick."""

    def update(self, status: Status) -> None: ...


@contextmanager
def reporter(run: Run, outages: ProviderOutages, *, quiet: bool) -> Iterator[Reporter]:
    """Return the reporter for the kind of output: a terminal or a file."""
    if quiet:
        yield _Silent()
    elif sys.stderr.isatty():
        with live_screen() as live:
            yield _Screen(run, live, outages)
    else:
        lines = EventLines(run, outages=outages)
        try:
            yield lines
        finally:
            lines.flush()


def drive_and_report(run: Run, settings: Settings, *, once: bool, stop_at: float | None, quiet: bool) -> Status:
    """Drive the run and report on it, unless ``quiet``; see :func:`layton_batch.loop.drive`."""
    from layton_batch.loop import STOPPING, drive

    try:
        with reporter(run, ProviderOutages(partial(outage_advice, settings)), quiet=quiet) as report:
            return drive(run, once=once, stop_at=stop_at, progress=report.update)
    except KeyboardInterrupt:
        say(STOPPING)
        raise


def event_line(event: Event) -> str:
    """Return an event as one line, in UTC: ``12:03:04 collected  predict-…: 186 succeeded``."""
    about = f"{event.batch_id}: " if event.batch_id else ""
    return one_line(f"{utc(event.at):%H:%M:%S} {event.kind.replace('_', ' ')}  {about}{event.detail}".rstrip())


def event_json(event: Event) -> dict[str, object]:
    """Return an event in the form of ``events --json``."""
    names = ("seq", "batch_id", "kind", "detail")
    return {**{name: getattr(event, name) for name in names}, "at": iso(event.at)}


def followed(store: RunStore, clock: Clock, every: float = FOLLOW_SECONDS) -> Iterator[Event]:
    """Yield the run's events as they come, until the run is over."""
    last = 0
    while True:
        over = read_status(store).state not in _GOES_ON
        for event in store.events(last):
            last = event.seq
            yield event
        if over:
            return
        clock.sleep(every)


class _Silent:
    def update(self, status: Status) -> None:
        pass


class _Fresh:
    """Events since the last look that are worth showing."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._after = max((event.seq for event in run.store.events()), default=0)

    def events(self) -> list[Event]:
        events = self._run.store.events(self._after)
        self._after = max((event.seq for event in events), default=self._after)
        return [event for event in events if event.kind not in QUIET_KINDS]


class EventLines:
    """A line for every event that people must see; routine ones are added up, so that a large run fits a log.

    ``write`` takes each line.
    """

    def __init__(self, run: Run, write: Callable[[str], None] = say, outages: ProviderOutages | None = None) -> None:
        self._run, self._write, self._fresh, self._outages = run, write, _Fresh(run), outages or ProviderOutages()
        self._gathered: list[Event] = []
        self._status: Status | None = None
        self._flushed_at = self._said_at = run.clock.now()

    def update(self, status: Status) -> None:
        events, now = self._fresh.events(), self._run.clock.now()
        for event in events:
            if not is_routine(event):
                self._say(event_line(event), now)
        for line in self._outages.lines(status, now):
            self._say(f"{utc(now):%H:%M:%S} {line}", now)
        self._gathered += [event for event in events if is_routine(event)]
        self._status = status
        if abs(now - self._flushed_at) >= LINES_SECONDS:  # the clock may be put back
            self.flush()
        if abs(now - self._said_at) >= QUIET_SECONDS:
            self._say(waiting_line(status, now), now)

    def flush(self) -> None:
        """Tell what was gathered."""
        now = self._run.clock.now()
        for line in routine_lines(self._gathered, self._status) if self._status else ():
            self._say(line, now)
        self._gathered, self._flushed_at = [], now

    def _say(self, line: str, now: float) -> None:
        self._write(line)
        self._said_at = now


def waiting_line(status: Status, now: float) -> str:
    """Return ``12:03:04 waiting  3 batches at providers (openai 2, groq 1); spent $0.12; next look 12:03:34``."""
    at = Counter(batch.provider for batch in status.batches if batch.state in AT_PROVIDER)
    to_send = Counter(batch.provider for batch in status.batches if batch.state in OPEN - AT_PROVIDER)
    due = min((batch.due_at for batch in status.batches if batch.state in OPEN), default=now)
    parts = [
        f"{plural(sum(counts.values()), 'batch', 'batches')} {place} ({_listed(counts)})"
        for place, counts in (("at providers", at), ("here", to_send))
        if counts
    ]
    parts += [f"spent {money(status.spent_usd)}", f"next look {utc(max(due, now)):%H:%M:%S}"]
    return one_line(f"{utc(now):%H:%M:%S} waiting  {'; '.join(parts)}")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def is_routine(event: Event) -> bool:
    """Return whether the event comes with every batch and reports success."""
    if event.kind == "collected":
        return event.detail.endswith(" succeeded") and "," not in event.detail
    return event.kind in ROUTINE_KINDS


def routine_lines(events: Sequence[Event], status: Status) -> list[str]:
    """Return a line for each kind and stage: ``12:03:04 collected  judge: 27 batches, 1,122 requests (…)``. A kind with
    a single event keeps the event's own line. A removed model's batches are of no stage of the status.
    """
    batches = {batch.id: batch for batch in status.batches}
    roles = {job.id: job.role for job in status.jobs}
    groups: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        batch = batches.get(event.batch_id or "")
        role = roles.get(batch.job_id, "removed models") if batch else ""
        groups.setdefault((event.kind, role), []).append(event)
    return [
        event_line(group[0]) if len(group) == 1 else _sum_line(kind, role, group, batches)
        for (kind, role), group in sorted(groups.items(), key=lambda entry: entry[1][-1].at)
    ]


def _sum_line(kind: str, role: str, group: Sequence[Event], batches: Mapping[str, Batch]) -> str:
    event_batches = [batch for event in group if (batch := batches.get(event.batch_id or ""))]
    providers = Counter(batch.provider for batch in event_batches)
    provider_list = _listed(providers)
    requests = sum(batch.requests for batch in event_batches)
    text = f"{utc(group[-1].at):%H:%M:%S} {kind}  {role}: {len(group)} batches, {requests:,} requests ({provider_list})"
    return one_line(text)


class _Screen:
    """One screen: where requests are by stage and provider, the open batches, the money; events that people must see
    scroll above it."""

    def __init__(self, run: Run, live: Live, outages: ProviderOutages) -> None:
        self._run, self._live = run, live
        self._fresh, self._outages = _Fresh(run), outages

    def update(self, status: Status) -> None:
        now = self._run.clock.now()
        lines = [event_line(event) for event in self._fresh.events() if not is_routine(event)]
        for line in (*lines, *self._outages.lines(status, now)):
            self._live.console.print(line, markup=False)
        self._live.update(screen(status, now, self._live.console.width))


def screen(status: Status, now: float, width: int, hint: str = GOES_ON_HINT) -> RenderableType:
    """Return a status as one screen. ``hint``: what Ctrl-C does."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(f"{one_line(status.run)}  {money_line(status)}", style="bold")]
    parts.append(grid(jobs_table(status.jobs), width))
    if urgent := most_urgent(status.batches, LIVE_BATCHES):
        parts += [Text(""), grid(batches_table(urgent, now, folded=False), width, gap=1)]
    if expected := expectation(status, now):
        parts.append(Text(expected))
    parts.append(Text(hint, style="dim"))
    return Group(*parts)


def live_screen(*, stderr: bool = True) -> Live:
    """Return a part of the terminal that is drawn again at every update, and is gone at the end."""
    from rich.live import Live

    return Live(console=console(stderr=stderr), transient=True, refresh_per_second=2, vertical_overflow="crop")
