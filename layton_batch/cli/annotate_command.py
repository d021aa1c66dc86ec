"""annotate: the labelling app."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from layton_batch.cli.run_commands import RUNS, RunName, Runs


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("annotate")(annotate)


def annotate(
    run_name: RunName = None,
    annotator: Annotated[str, typer.Option("--annotator", metavar="NAME", help="Who labels; else the page asks.")] = "",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 0,
    design: Annotated[
        str, typer.Option("--design", help="planned (most useful next) | balanced (for a first gold set)")
    ] = "planned",
    overlap: Annotated[
        float, typer.Option("--overlap", min=0, max=1, help="Share of answers that a second person labels: 0.2.")
    ] = 0.0,
    readonly: Annotated[bool, typer.Option("--readonly", help="Show progress; change nothing.")] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    runs: Runs = RUNS,
) -> None:
    """Label answers in the browser.

    One answer at a time, without the model's name and without the jury's verdict, on 127.0.0.1 until stopped. Every
    label is kept at once, in the run's folder, and counts in the next `leaderboard`. `?` on the page lists its keys.
    """
    import secrets
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import closing, suppress

    from layton_batch.annotate.guard import AppKeys
    from layton_batch.annotate.labelling_app import LONGEST_NAME, App
    from layton_batch.annotate.labelling_server import listening, serving
    from layton_batch.annotate.session import DESIGNS, LabellingSession
    from layton_batch.cli.terminal import say
    from layton_batch.errors import ManifestError
    from layton_batch.runs.folders import find_run, run_source
    from layton_batch.runs.open import read_run
    from layton_batch.settings import Settings

    name = " ".join(annotator.split())
    if annotator and not (name and name.isprintable() and len(name) <= LONGEST_NAME):
        raise ManifestError(f"--annotator: a name has 1 to {LONGEST_NAME} characters that can be printed")
    if design not in DESIGNS:
        raise ManifestError(f"--design {design!r}: must be one of {', '.join(DESIGNS)}")
    folder = find_run(run_name, runs)
    with read_run(folder, Settings.from_process()) as run, ThreadPoolExecutor(1, "annotate-forecast") as executor:
        session = LabellingSession(run, secrets.token_bytes(32), executor, design, overlap)
        at = listening(port)
        entry = AppKeys(at.getsockname()[1])
        # Ctrl-C and SIGTERM are the way to end here, and no failure
        with suppress(KeyboardInterrupt), closing(session), serving(App(session, entry, name, readonly).asgi(), at):
            say(f"{run.id}: {entry.address}")
            say(f"Ctrl-C stops, or `kill {os.getpid()}` in the background; what was labelled is kept.")
            if not no_browser and sys.stderr.isatty():
                _open(entry.address)
            _wait()
    where = run_source(folder)
    label_count = sum(1 for _ in session.actions().labels())
    say(f"{label_count} labels of the app in {folder.labels}; `layton-batch leaderboard {where}` uses them")


def _open(address: str) -> None:
    """Open an address in a graphical browser; a browser in the terminal would take the terminal over."""
    import webbrowser
    from contextlib import suppress

    with suppress(webbrowser.Error):
        browser = webbrowser.get()
        if type(browser) is not webbrowser.GenericBrowser:
            browser.open(address)


def _wait() -> None:
    """Wait for Ctrl-C or SIGTERM."""
    import threading

    from layton_batch.processes import enable_sigint

    enable_sigint()
    threading.Event().wait()
