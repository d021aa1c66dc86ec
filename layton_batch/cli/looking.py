"""The work of ``status``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from layton_batch.cli.progress import event_json, event_line, followed, live_screen, progress_line, screen
from layton_batch.cli.terminal import print_json, say
from layton_batch.clock import Clock, SystemClock, utc
from layton_batch.errors import LaytonBatchError
from layton_batch.files.run_folder import RunFolder
from layton_batch.reports.status_tables import Words, next_steps, print_status, status_json
from layton_batch.reports.table import say_line
from layton_batch.runs.failure_words import failure_words
from layton_batch.runs.folders import (
    find_run,
    find_runs,
    misplaced_runs,
    reserves_expected,
    run_source,
)
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.runs.stores import open_store, open_stores
from layton_batch.scoring.verdict_counts import VerdictCounts, known_counts
from layton_batch.settings import Settings
from layton_batch.store.run_store import RunStore

WATCH_HINT = "Ctrl-C ends this view; the run goes on."
WATCH_SECONDS = 3.0
"""Between two looks of `status --watch`."""
INTERRUPTED = 130
"""The exit code of `status --watch` at Ctrl-C."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A run's status, with what its folder adds to it."""

    status: Status
    words: Words
    without_results: Sequence[str]
    source: str
    reserves_expected: bool
    judges: Sequence[VerdictCounts]

    @classmethod
    def read(cls, folder: RunFolder, store: RunStore) -> _Shown:
        """Read a run's status as it is now."""
        status = read_status(store)
        gone = [batch for batch in store.answered_batches() if not folder.batch(batch).raw_results]
        return cls(
            status,
            failure_words(folder, status),
            gone,
            run_source(folder),
            reserves_expected(folder),
            known_counts(folder.tables),
        )

    @property
    def is_open(self) -> bool:
        """Return whether the run can still change by itself or by a person."""
        return self.status.state not in (RunState.DONE, RunState.CANCELLED)

    def document(self) -> dict[str, object]:
        """Return the form of ``status --json``."""
        return status_json(
            self.status,
            self.words,
            self.without_results,
            self.source,
            self.judges,
            reserves_expected=self.reserves_expected,
        )

    def print(self, now: float) -> None:
        """Print the status and the next steps. ``now``: epoch seconds."""
        print_status(self.status, now, self.words, self.without_results, self.judges)
        for step in next_steps(self.status, self.source, reserves_expected=self.reserves_expected):
            say_line(step)


def show_status(run_name: str | None, runs: Path, *, as_json: bool) -> int:
    """Print the status of a run, or of all runs. Return the exit code: that of the last run left out, else 0."""
    settings, now = Settings.from_process(), SystemClock().now()
    folders = [find_run(run_name, runs)] if run_name else find_runs(runs)
    shown_runs, code = list[_Shown](), 0
    for line in () if run_name else misplaced_runs(runs):
        say(f"left out: {line}")
    with open_stores(settings) as store_of:
        for folder in folders:
            try:
                shown_runs.append(_Shown.read(folder, store_of(folder)))
            except LaytonBatchError as error:
                if run_name:
                    raise
                say(f"left out: {error}")
                code = error.exit_code
    if as_json:
        documents = [shown.document() for shown in shown_runs]
        print_json(documents[0] if run_name else documents)
        return code
    for shown in shown_runs:
        shown.print(now)
    if not shown_runs:
        say(f"no runs under {runs}")
    return code


def watch_status(run_name: str | None, runs: Path, clock: Clock, *, as_json: bool) -> int:
    """Show a run's status until the run is over. Return the exit code: 0, or 130 where a person stops it.

    A terminal is drawn again at every look. Elsewhere a line, or a JSON document, is printed for every change.
    """
    folder = find_run(run_name, runs)
    try:
        with open_store(folder, Settings.from_process()) as store, _watcher(as_json=as_json) as show:
            while True:
                shown = _Shown.read(folder, store)
                show(shown, clock.now())
                if not shown.is_open:
                    break
                clock.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return INTERRUPTED
    if not as_json:
        shown.print(clock.now())
    return 0


@contextmanager
def _watcher(*, as_json: bool) -> Iterator[Callable[[_Shown, float], None]]:
    """Yield what shows a status: on a terminal one screen, elsewhere a line where something changed."""
    if sys.stdout.isatty() and not as_json:
        with live_screen(stderr=False) as live:
            yield lambda shown, now: live.update(screen(shown.status, now, live.console.width, WATCH_HINT))
        return
    last: list[object] = []

    def show(shown: _Shown, now: float) -> None:
        content = shown.document() if as_json else (shown.status.state, shown.status.spent_usd, shown.status.jobs)
        if last != [content]:
            last[:] = [content]
            if as_json:
                print_json(content, line=True)
            elif shown.is_open:
                sys.stdout.write(f"{utc(now):%H:%M:%S} {progress_line(shown.status)}\n")
                sys.stdout.flush()

    yield show


def follow_events(run_name: str | None, runs: Path, *, as_json: bool) -> int:
    """Print events as they come until the run is over. Return the exit code: 0, or 130 where a person stops it."""
    try:
        show_events(run_name, runs, follow=True, as_json=as_json)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def show_events(run_name: str | None, runs: Path, *, follow: bool, as_json: bool) -> None:
    with open_store(find_run(run_name, runs), Settings.from_process()) as store:
        if as_json and not follow:
            print_json([event_json(event) for event in store.events()])
            return
        for event in followed(store, SystemClock()) if follow else store.events():
            if as_json:
                print_json(event_json(event), line=True)
            else:
                sys.stdout.write(event_line(event) + "\n")
                if follow:
                    sys.stdout.flush()
