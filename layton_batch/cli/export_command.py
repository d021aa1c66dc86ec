"""export: a run in the forms that others read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.cli.run_commands import RUNS, RunName, Runs

if TYPE_CHECKING:
    from layton_batch.run.context import Run

FORMS = ("ppi", "annotations", "results")


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("export")(export)


def export(
    run_name: RunName,
    form: Annotated[str, typer.Option("--to", metavar="FORM", help=" | ".join(FORMS))],
    out: Annotated[Path, typer.Option("--out", help="The file to write.")],
    runs: Runs = RUNS,
) -> None:
    """Write a run in a form that others read.

    ppi, annotations, results: layton-eval's three files, JSONL: every answer with the verdicts and the label on it;
    the labels that people gave; the leaderboard. No network, no key.
    """
    from layton_batch.cli.terminal import say
    from layton_batch.errors import ManifestError
    from layton_batch.run.open import find_run, read_run
    from layton_batch.settings import Settings

    writers = _writers()
    if form not in writers:
        raise ManifestError(f"--to {form!r}: one of {', '.join(writers)}")
    with read_run(find_run(run_name, runs), Settings.from_process()) as run:
        count = writers[form](run, out)
    say(f"{count} rows: {out}")


def _writers() -> dict[str, Callable[[Run, Path], int]]:
    """By form, what writes a run into a file and says how many rows that are."""
    from layton_batch.reports.layton_files import write_annotations, write_ppi, write_results

    return dict(zip(FORMS, (write_ppi, write_annotations, write_results), strict=True))
