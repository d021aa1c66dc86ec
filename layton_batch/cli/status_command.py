"""status: where runs stand, also as they move."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from layton_batch.cli.options import Json, Runs
from layton_batch.cli.progress import event_json, event_line, followed, live_screen, progress_line, screen
from layton_batch.cli.surface import print_document
from layton_batch.cli.terminal import print_json
from layton_batch.clock import Clock, SystemClock, utc
from layton_batch.commands.parameters import environment, runs_folder
from layton_batch.commands.status import WorkspaceStatus, statuses
from layton_batch.commands.status import status as one_status
from layton_batch.reports.run_result import RunResult
from layton_batch.runs.folders import find_run
from layton_batch.runs.status import RunState
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings

WATCH_HINT = "Ctrl-C ends this view; the run goes on."
WATCH_SECONDS = 3.0
"""Between two looks of `status --watch`."""
WATCH_INTERRUPTED = 130
"""The exit code of `status --watch` at Ctrl-C."""


def status(
    run_name: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A run's name, its folder or its manifest; default: all of them."),
    ] = None,
    runs: Runs = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every few seconds until the run is over, or Ctrl-C.")
    ] = False,
    log: Annotated[bool, typer.Option("--log", help="Show what happened to the run, in order.")] = False,
    as_json: Json = False,
) -> None:
    """Show where runs stand, and what to do next.

    By stage and provider: requests planned, uploaded, at the provider, answered, without an answer. By open batch: its
    age, its id at the provider, how long ago the provider last told of it, in what time it is asked next, its deadline,
    the money set aside for it. `--json` has every batch.

    Without RUN, folders that are copies of runs, or renamed, are named and left out; so is a run that cannot be read.

    With --log: what happened to a run, in order; with --watch as well, until the run is over, and with --json one
    document a line.

    With --watch one run is shown: a terminal is drawn again every few seconds, a file gets a line, or with --json a
    document, for each change. It ends with 0 when the run is done or cancelled, and with 130 at Ctrl-C.
    """
    place, clock = runs_folder(runs, environment()), SystemClock()
    if log:
        raise typer.Exit(show_events(run_name, place, follow=watch, as_json=as_json))
    if watch:
        raise typer.Exit(watch_status(run_name, place, clock, as_json=as_json))
    document = one_status(run_name, runs=runs) if run_name else statuses(runs=runs)
    print_document(document, "json" if as_json else "table")
    raise typer.Exit(document.end() if isinstance(document, WorkspaceStatus) else 0)


def _is_open(shown: RunResult) -> bool:
    """Return whether the run can still change by itself or by a person."""
    return shown.status.state not in (RunState.DONE, RunState.CANCELLED)


def watch_status(run_name: str | None, runs: Path, clock: Clock, *, as_json: bool) -> int:
    """Show a run's status until the run is over. Return the exit code: 0, or 130 where a person stops it.

    A terminal is drawn again at every look. Elsewhere a line, or a JSON document, is printed for every change.
    """
    folder = find_run(run_name, runs)
    try:
        with open_store(folder, Settings.from_process()) as store, _watcher(as_json=as_json) as show:
            while True:
                shown = RunResult.read(folder, store)
                show(shown, clock.now())
                if not _is_open(shown):
                    break
                clock.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return WATCH_INTERRUPTED
    if not as_json:
        shown.show()
    return 0


@contextmanager
def _watcher(*, as_json: bool) -> Iterator[Callable[[RunResult, float], None]]:
    """Yield what shows a status: on a terminal one screen, elsewhere a line where something changed."""
    if sys.stdout.isatty() and not as_json:
        with live_screen(stderr=False) as live:
            yield lambda shown, now: live.update(screen(shown.status, now, live.console.width, WATCH_HINT))
        return
    last: list[object] = []

    def show(shown: RunResult, now: float) -> None:
        content = shown.as_json() if as_json else (shown.status.state, shown.status.spent_usd, shown.status.jobs)
        if last != [content]:
            last[:] = [content]
            if as_json:
                print_json(content, line=True)
            elif _is_open(shown):
                sys.stdout.write(f"{utc(now):%H:%M:%S} {progress_line(shown.status)}\n")
                sys.stdout.flush()

    yield show


def show_events(run_name: str | None, runs: Path, *, follow: bool, as_json: bool) -> int:
    """Print what happened to a run; with ``follow`` until it is over. Return the exit code: 0, or 130 where a person
    stops it."""
    try:
        with open_store(find_run(run_name, runs), Settings.from_process()) as store:
            if as_json and not follow:
                print_json([event_json(event) for event in store.events()])
                return 0
            for event in followed(store, SystemClock()) if follow else store.events():
                if as_json:
                    print_json(event_json(event), line=True)
                else:
                    sys.stdout.write(event_line(event) + "\n")
                    if follow:
                        sys.stdout.flush()
    except KeyboardInterrupt:
        if not follow:
            raise
        return WATCH_INTERRUPTED
    return 0
