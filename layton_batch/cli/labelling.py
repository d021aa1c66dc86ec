"""label: the app on loopback; ``label plan`` and ``label import`` are functions of ``commands``."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from layton_batch.annotate.labelling_app import LONGEST_NAME, App, is_name
from layton_batch.annotate.server import AppKeys, listening, serving
from layton_batch.annotate.session import DESIGNS, LabellingSession
from layton_batch.cli.options import RunName, Runs
from layton_batch.cli.surface import command
from layton_batch.cli.terminal import say
from layton_batch.commands.label_import import label_import
from layton_batch.commands.label_plan import label_plan
from layton_batch.commands.parameters import environment, runs_folder
from layton_batch.errors import ManifestError
from layton_batch.processes import enable_sigint
from layton_batch.runs.folders import find_run, run_source
from layton_batch.runs.open import read_run
from layton_batch.text import plural

_APP = "app"
NAMES = (_APP, "plan", "import")


class _LabelGroup(TyperGroup):
    """`label RUN` is the app; `label plan` and `label import` are commands of their own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in NAMES else [_APP, *args])


def label_app(
    run_name: RunName = None,
    annotator: Annotated[str, typer.Option("--annotator", metavar="NAME", help="Who labels; else the page asks.")] = "",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 0,
    design: Annotated[
        str, typer.Option("--design", help="planned (most useful next) | balanced (for a first gold set)")
    ] = "planned",
    overlap: Annotated[
        float, typer.Option("--overlap", min=0, max=1, help="Share of answers that a second person labels: 0.2.")
    ] = 0.0,
    runs: Runs = None,
) -> None:
    """Label answers in the browser.

    One answer at a time, without the model's name and without the jury's verdict, on 127.0.0.1 until stopped. Every
    label is kept at once, in the run's folder, and counts in the next `leaderboard`. `?` on the page lists its keys.

    `label plan` chooses the answers to label next; `label import FILE` takes in labels made elsewhere.
    """
    name = " ".join(annotator.split())
    if annotator and not is_name(name):
        raise ManifestError(f"--annotator: a name has 1 to {LONGEST_NAME} characters that can be printed")
    if design not in DESIGNS:
        raise ManifestError(f"--design {design!r}: must be one of {', '.join(DESIGNS)}")
    settings = environment()
    folder = find_run(run_name, runs_folder(runs, settings))
    with read_run(folder, settings) as run, ThreadPoolExecutor(1, "annotate-forecast") as executor:
        session = LabellingSession(run, secrets.token_bytes(32), executor, design, overlap)
        at = listening(port)
        entry = AppKeys(at.getsockname()[1])
        # Ctrl-C and SIGTERM are the way to end here, and no failure
        with suppress(KeyboardInterrupt), closing(session), serving(App(session, entry, name).asgi(), at):
            say(f"{run.id}: {entry.address}")
            say(f"Ctrl-C stops, or `kill {os.getpid()}` in the background; what was labelled is kept.")
            if sys.stderr.isatty():
                _open(entry.address)
            _wait()
    where = run_source(folder)
    label_count = sum(1 for _ in session.actions().labels())
    labels = plural(label_count, "label")
    say(f"{labels} of the app in {folder.labels}, which `layton-batch leaderboard {where}` uses")


def _open(address: str) -> None:
    """Open an address in a graphical browser; a browser in the terminal would take the terminal over."""
    with suppress(webbrowser.Error):
        browser = webbrowser.get()
        if type(browser) is not webbrowser.GenericBrowser:
            browser.open(address)


def _wait() -> None:
    """Wait for Ctrl-C or SIGTERM."""
    enable_sigint()
    threading.Event().wait()


label = typer.Typer(
    name="label", cls=_LabelGroup, help="Label answers in the browser; choose and import labels.", rich_markup_mode=None
)
label.command(_APP, hidden=True)(label_app)
label.command("plan")(command(label_plan))
label.command("import")(command(label_import))
