"""Telling people how a run is going: bars on a terminal, plain lines elsewhere, nothing with ``--json``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from layton_batch.cli.terminal import say
from layton_batch.clock import utc
from layton_batch.records import Batch, Event
from layton_batch.reports.table import console
from layton_batch.run.context import Run
from layton_batch.run.status import Status
from layton_batch.text import one_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

QUIET_KINDS = frozenset(
    {
        "submitting",
        "status",
        "looking",
        "unsure",
        "download_again",
        "download_short",
        "download_grew",
        "jobs_planned",
        "job_planned",
        "ended",
        "job_graded",
    }
)
"""Events that only ``events`` shows."""
ROUTINE_KINDS = frozenset({"submitted", "collected", "withdrawn"})
"""Events that come once a batch: lines add up what happened since the last ones."""
LINES_SECONDS = 2.0
"""How long routine events are gathered before a line tells of them."""


class Reporter(Protocol):
    """Told after every tick."""

    def update(self, status: Status) -> None: ...


@contextmanager
def reporter(run: Run, *, quiet: bool) -> Iterator[Reporter]:
    """The reporter that fits where output goes."""
    if quiet:
        yield _Silent()
    elif sys.stderr.isatty():
        with _bars() as progress:
            yield _Bars(run, progress)
    else:
        lines = _Lines(run)
        try:
            yield lines
        finally:
            lines.flush()


def event_line(event: Event) -> str:
    """``12:03:04 collected  predict-…: 186 succeeded``, in UTC; always one line."""
    about = f"{event.batch_id}: " if event.batch_id else ""
    return one_line(f"{utc(event.at):%H:%M:%S} {event.kind.replace('_', ' ')}  {about}{event.detail}".rstrip())


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


class _Lines:
    """A line for every event that people must see; routine ones are added up, so that a large run fits a log."""

    def __init__(self, run: Run) -> None:
        self._run, self._fresh = run, _Fresh(run)
        self._gathered: list[Event] = []
        self._status: Status | None = None
        self._told_at = run.clock.now()

    def update(self, status: Status) -> None:
        events = self._fresh.events()
        for event in events:
            if not is_routine(event):
                say(event_line(event))
        self._gathered += [event for event in events if is_routine(event)]
        self._status = status
        if abs(self._run.clock.now() - self._told_at) >= LINES_SECONDS:  # the clock may be put back
            self.flush()

    def flush(self) -> None:
        """Tell what was gathered."""
        for line in routine_lines(self._gathered, self._status) if self._status else ():
            say(line)
        self._gathered, self._told_at = [], self._run.clock.now()


def is_routine(event: Event) -> bool:
    """Whether the event is one of a kind that comes with every batch, and says nothing but that all went well."""
    if event.kind == "collected":
        return event.detail.endswith(" succeeded") and "," not in event.detail
    return event.kind in ROUTINE_KINDS


def routine_lines(events: Sequence[Event], status: Status) -> list[str]:
    """``12:03:04 collected  judge: 27 batches, 1,122 requests (…)``: a line a kind and stage; a lone event as it is."""
    batches = {batch.id: batch for batch in status.batches}
    roles = {job.id: job.role for job in status.jobs}
    groups: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        batch = batches.get(event.batch_id or "")
        groups.setdefault((event.kind, roles[batch.job_id] if batch else ""), []).append(event)
    return [
        event_line(group[0]) if len(group) == 1 else _sum_line(kind, role, group, batches)
        for (kind, role), group in groups.items()
    ]


def _sum_line(kind: str, role: str, group: Sequence[Event], batches: Mapping[str, Batch]) -> str:
    known = [batch for event in group if (batch := batches.get(event.batch_id or ""))]
    providers = Counter(batch.provider for batch in known)
    who = ", ".join(f"{name} {count}" for name, count in providers.items())
    requests = sum(batch.requests for batch in known)
    text = f"{utc(group[-1].at):%H:%M:%S} {kind}  {role}: {len(group)} batches, {requests:,} requests ({who})"
    return one_line(text)


class _Bars:
    """A bar per stage and provider; events that people must see scroll above them."""

    def __init__(self, run: Run, progress: Progress) -> None:
        self._fresh = _Fresh(run)
        self._progress = progress
        self._tasks: dict[tuple[str, str], TaskID] = {}
        self._begin = progress.add_task("planning", total=None)

    def update(self, status: Status) -> None:
        for event in self._fresh.events():
            if not is_routine(event):
                self._progress.console.print(event_line(event), markup=False)
        groups: dict[tuple[str, str], tuple[int, int]] = {}
        for job in status.jobs:
            done, total = groups.get((job.role, job.provider), (0, 0))
            groups[job.role, job.provider] = (done + job.requests - job.waiting, total + job.requests)
        for (role, provider), (done, total) in groups.items():
            task = self._tasks.get((role, provider))
            if task is None:
                label = f"{role} · {one_line(provider)}"
                task = self._tasks[role, provider] = self._progress.add_task(label, total=None)
            self._progress.update(task, completed=done, total=total or None)
        self._progress.update(self._begin, visible=not groups)


def _bars() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console(stderr=True), transient=True)
