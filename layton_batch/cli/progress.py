"""Telling people how a run is going: bars on a terminal, plain lines elsewhere, nothing with ``--json``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from layton_batch.cli.terminal import console, plain, say
from layton_batch.clock import utc
from layton_batch.records import Event
from layton_batch.run import Run
from layton_batch.status import Status

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

QUIET_KINDS = frozenset(
    {"submitting", "status", "looking", "download_again", "jobs_planned", "job_planned", "ended", "job_graded"}
)
"""Events that only ``events`` shows."""


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
        yield _Lines(run)


class _Silent:
    def update(self, status: Status) -> None:
        pass


class _Lines:
    """One line per event worth a line."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._after = max((event.seq for event in run.store.events()), default=0)

    def update(self, status: Status) -> None:
        for event in self.fresh():
            say(event_line(event))

    def fresh(self) -> list[Event]:
        """Events since the last call that are worth showing."""
        events = self._run.store.events(self._after)
        self._after = max((event.seq for event in events), default=self._after)
        return [event for event in events if event.kind not in QUIET_KINDS]


def event_line(event: Event) -> str:
    """``12:03:04 collected predict-… 186 succeeded``, in UTC."""
    about = f"{event.batch_id}: " if event.batch_id else ""
    return plain(f"{utc(event.at):%H:%M:%S} {event.kind.replace('_', ' ')}  {about}{event.detail}".rstrip())


class _Bars(_Lines):
    """A bar per stage and provider; events that people must see scroll above them."""

    LOUD = frozenset(
        {"lost", "refused", "run_stopped", "deadline", "given_up", "unclear", "upload_failed", "not_created"}
        | {"create_unclear", "unreadable_line", "unknown_custom_id", "duplicate_result"}
    )

    def __init__(self, run: Run, progress: Progress) -> None:
        super().__init__(run)
        self._progress = progress
        self._tasks: dict[tuple[str, str], TaskID] = {}

    def update(self, status: Status) -> None:
        for event in self.fresh():
            if event.kind in self.LOUD:
                self._progress.console.print(event_line(event), markup=False)
        groups: dict[tuple[str, str], tuple[int, int]] = {}
        for job in status.jobs:
            done, total = groups.get((job.role, job.provider), (0, 0))
            groups[job.role, job.provider] = (done + job.requests - job.waiting, total + job.requests)
        for (role, provider), (done, total) in groups.items():
            task = self._tasks.get((role, provider))
            if task is None:
                task = self._tasks[role, provider] = self._progress.add_task(f"{role} · {plain(provider)}", total=None)
            self._progress.update(task, completed=done, total=total or None)


def _bars() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=32), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console(stderr=True), transient=True)
