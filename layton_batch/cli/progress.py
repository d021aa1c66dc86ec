"""Reports on a run's progress: a screen on a terminal, plain lines elsewhere, nothing with ``--json``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from layton_batch.cli.terminal import say
from layton_batch.clock import Clock, iso, utc
from layton_batch.records import Event
from layton_batch.reports.run_result import expectation, money_line, trouble_line
from layton_batch.reports.table import console
from layton_batch.runs.status import JobStatus, RunState, Status, read_status
from layton_batch.text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from layton_batch.runs.context import Run
    from layton_batch.store.run_store import RunStore

QUIET_KINDS = frozenset({
    "submitting", "status", "looking", "unsure", "download_again", "download_short", "unclear", "upload_failed",
    "jobs_planned", "job_planned", "ended", "job_graded", "run_stopped",
})  # fmt: skip
"""Events that only ``status --log`` shows; the status at the end of `run` tells why it was stopped."""
ROUTINE_KINDS = frozenset({"submitted", "collected", "withdrawn"})
"""Events that come with every batch: the progress tells of them, unless something went wrong."""
LINES_SECONDS, QUIET_SECONDS = 2.0, 60.0
"""Between two lines of progress: while something moves, and at most."""
FOLLOW_SECONDS = 1.0
_GOES_ON = frozenset({RunState.RUNNING, RunState.NEEDS_PERSON, RunState.OVER_BUDGET})
GOES_ON_HINT = "Ctrl-C stops this program; batches go on at the providers, and nothing is lost."
MOST_BAR = 80
TROUBLE_SECONDS = 600.0
"""After so long a trouble that lasts is told again."""
PLACE_WORDS = {
    "planned": "to send",
    "uploaded": "uploaded",
    "at_provider": "at the provider",
    "ended": "to collect",
    "lost": "lost",
}


@contextmanager
def reporter(run: Run, *, quiet: bool) -> Iterator[Callable[[Status], None] | None]:
    """Yield the function that gets the run's status after every tick, for the kind of output: a terminal or a file."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with live_screen() as live:
            yield _Reporter(run, live).update
    else:
        lines = _Reporter(run)
        try:
            yield lines.update
        finally:
            lines.tell()


def event_line(event: Event) -> str:
    """Return an event as one line, in UTC: ``12:03:04 collected  predict-…: 186 succeeded``."""
    about = f"{event.batch_id}: " if event.batch_id else ""
    return one_line(f"{utc(event.at):%H:%M:%S} {event.kind.replace('_', ' ')}  {about}{event.detail}".rstrip())


def event_json(event: Event) -> dict[str, object]:
    """Return an event in the form of ``status --log --json``."""
    names = ("seq", "batch_id", "kind", "detail")
    return {**{name: getattr(event, name) for name in names}, "at": iso(event.at)}


def followed(store: RunStore, clock: Clock) -> Iterator[Event]:
    """Yield the run's events as they come, until the run is over."""
    last = 0
    while True:
        over = read_status(store).state not in _GOES_ON
        for event in store.events(last):
            last = event.seq
            yield event
        if over:
            return
        clock.sleep(FOLLOW_SECONDS)


class _Reporter:
    """Report on a run after every tick.

    On a terminal: one screen, above which events that people must see scroll. Elsewhere a line for each of these
    events, and one of progress: every two seconds while something moves, so that a large run fits a log, and every
    minute.
    """

    def __init__(self, run: Run, live: Live | None = None) -> None:
        self._run, self._live, self._troubles = run, live, TroubleLines()
        self._after = max((event.seq for event in run.store.events()), default=0)
        self._progress, self._told, self._told_at = "", "", run.clock.now()

    def update(self, status: Status) -> None:
        now, events = self._run.clock.now(), self._run.store.events(self._after)
        self._after = max((event.seq for event in events), default=self._after)
        lines = [event_line(event) for event in events if not (event.kind in QUIET_KINDS or is_routine(event))]
        if self._live is not None:
            for line in lines:
                self._live.console.print(line, markup=False)
            self._live.update(screen(status, now, self._live.console.width))
            return
        for line in (*lines, *(f"{utc(now):%H:%M:%S} {line}" for line in self._troubles.lines(status, now))):
            say(line)
        self._progress, passed = progress_line(status), abs(now - self._told_at)  # the clock may be put back
        if passed >= LINES_SECONDS:
            self.tell(is_due=passed >= QUIET_SECONDS)

    def tell(self, *, is_due: bool = False) -> None:
        """Tell the progress that is not told yet, or ``is_due`` to be told again."""
        if is_due or self._progress != self._told:
            now = self._run.clock.now()
            say(f"{utc(now):%H:%M:%S} {self._progress}")
            self._told, self._told_at = self._progress, now


def progress_line(status: Status) -> str:
    """Return ``45 of 96 requests answered; spent $0.12; openai: 12 at the provider; groq: 6 to send``."""
    places = (f"{provider}: {words}" for provider, words in provider_places(status).items() if words)
    return one_line("; ".join((answered_line(status), *places)))


def answered_line(status: Status) -> str:
    """Return how many of all requests are answered, and what that cost."""
    return f"{_answered(status.jobs):,} of {_requests(status):,} requests answered; {money_line(status)}"


def _answered(jobs: Iterable[JobStatus]) -> int:
    return sum(job.requests - job.waiting for job in jobs)


def _requests(status: Status) -> int:
    return status.to_come + sum(job.requests for job in status.jobs)


def provider_places(status: Status) -> dict[str, str]:
    """Return by provider where its requests are that wait for an answer; empty words if none does."""
    where: dict[str, Counter[str]] = {job.provider: Counter() for job in status.jobs}
    for job in status.jobs:
        where[job.provider].update(job.where)
    return {
        provider: ", ".join(f"{count:,} {PLACE_WORDS[place]}" for place, count in counts.items())
        for provider, counts in where.items()
    }


def is_routine(event: Event) -> bool:
    """Return whether the event comes with every batch and reports success."""
    if event.kind == "collected":
        return event.detail.endswith(" succeeded") and "," not in event.detail
    return event.kind in ROUTINE_KINDS


class TroubleLines:
    """Lines about providers' trouble: when it begins, every ten minutes while it lasts, and at its end."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def lines(self, status: Status, now: float) -> Iterator[str]:
        """Yield the lines to print at ``now`` (epoch seconds)."""
        troubles = {trouble.provider: trouble for trouble in status.troubles}
        for provider in self._told.keys() - troubles.keys():
            del self._told[provider]
            yield f"{provider} answers again"
        for provider, trouble in troubles.items():
            if not 0 <= now - self._told.get(provider, now - TROUBLE_SECONDS) < TROUBLE_SECONDS:
                self._told[provider] = now
                yield trouble_line(trouble)


def screen(status: Status, now: float, width: int, hint: str = GOES_ON_HINT) -> RenderableType:
    """Return a status as one screen. ``hint``: what Ctrl-C does."""
    from rich.console import Group
    from rich.text import Text

    size = min(width, MOST_BAR)
    filled = size * _answered(status.jobs) // max(_requests(status), 1)
    parts: list[RenderableType] = [
        Text(f"{one_line(status.run)}  {answered_line(status)}", style="bold"),
        Text("━" * filled + "─" * (size - filled)),
    ]
    troubles = {trouble.provider: trouble_line(trouble) for trouble in status.troubles}
    for provider, places in provider_places(status).items():
        jobs = [job for job in status.jobs if job.provider == provider]
        line = f"{provider}: {_answered(jobs):,} of {sum(job.requests for job in jobs):,}"
        parts.append(Text(one_line(f"{line}; {places}" if places else line)))
        parts += [Text(f"  {troubles[provider]}")] if provider in troubles else []
    if expected := expectation(status, now):
        parts.append(Text(expected))
    parts.append(Text(hint, style="dim"))
    return Group(*parts)


def live_screen(*, stderr: bool = True) -> Live:
    """Return a part of the terminal that is drawn again at every update, and is gone at the end."""
    from rich.live import Live

    return Live(console=console(stderr=stderr), transient=True, refresh_per_second=2, vertical_overflow="crop")
