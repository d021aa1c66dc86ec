"""Parameters that several commands share.

A type within ``Annotated`` is that of the command line, where Python takes more. A function there makes several
arguments of the words that are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, Union

import typer

from layton_batch.commands.notes import warn
from layton_batch.errors import DataError, ManifestError
from layton_batch.files import limits
from layton_batch.files.sources import user_path
from layton_batch.reports.run_result import RunResult
from layton_batch.runs.environment_notes import file_notes, hub_notes
from layton_batch.runs.folders import DEFAULT_RUNS, find_each_run, named_runs, runs_at
from layton_batch.settings import Settings

if TYPE_CHECKING:
    from decimal import Decimal

    from layton_batch.files.run_folder import RunFolder
    from layton_batch.frames import Frame


def _check_dollars(text: str | None) -> str | None:
    """Return the value of ``--max-usd``. Raises ManifestError for an option in its place: a shell replaces $5 by
    nothing, and then the next word is taken for the amount."""
    if text is not None and text.startswith("--"):
        raise ManifestError(f"--max-usd {text}: give dollars as a number without $, such as 5.00: a shell replaces $5")
    return text


RunSource: TypeAlias = "str | Path | RunResult"
"""A run: its name, its folder, its manifest's file, or the result of ``run``."""
Source: TypeAlias = Union["RunSource", "Frame"]
"""A run, a file that ``leaderboard`` takes, or a table of either."""
Files: TypeAlias = str | Path | Sequence[str | Path] | None
"""One file or several."""
RUN_HELP = "A run's name, its folder or its manifest; default: the only run."
OneRun = Annotated["RunSource | None", str | None, typer.Argument(metavar="RUN", help=RUN_HELP)]
SeveralRuns = Annotated[
    "RunSource | Sequence[RunSource] | None",
    list[str] | None,
    typer.Argument(metavar="RUN", help="Runs by name, folder or manifest; default: the only run."),
]
AnyRuns = Annotated[
    "RunSource | Sequence[RunSource] | None",
    list[str] | None,
    typer.Argument(metavar="RUN", help="Runs by name, folder or manifest; default: all runs."),
]
Sources = Annotated[
    "Source | Sequence[Source] | None",
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        help="Runs, files in layton-eval-ppi's form, files or folders of votes, or scores of other programs "
        "([NAME=]FILE); default: the only run.",
    ),
]
JurySources = Annotated[
    "Source | Sequence[Source] | None",
    list[str] | None,
    typer.Argument(metavar="SOURCE", help="Runs, or files in layton-eval-ppi's form; default: the only run."),
]
RUNS_OPTION = typer.Option(
    "--runs", metavar="PLACE", envvar="LAYTON_BATCH_RUNS", help="The folder that holds the run folders; default: runs."
)  # fmt: skip
Runs = Annotated[str | Path | None, str | None, RUNS_OPTION]
Metric = Annotated[str | None, typer.Option("--metric", help="both_correct | answer_correct | justification_correct")]
Columns = Annotated[
    str | Sequence[str] | None,
    list[str] | None,
    typer.Option("--column", metavar="ROLE=NAME", help="A table's column of item, model, score, judge or human."),
]
ThisSet = Annotated[bool, typer.Option("--this-set", help="For exactly these items, not for new items of their kind.")]
Family = Annotated[
    str | None, typer.Option("--family", help="Maker of the model. Judges of the same family do not judge its answers.")
]
MaxUsd = Annotated[
    "str | float | Decimal | None",
    str | None,
    typer.Option("--max-usd", callback=_check_dollars, help="Budget in USD, instead of the manifest's."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Send without a question.")]
UseSandbox = Annotated[
    bool, typer.Option("--sandbox", help="Play the providers on this machine: made-up answers, no key, no cost.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Do not ask the providers about their models.")]


def environment() -> Settings:
    """Read the environment, and the limits of files in it."""
    settings = Settings.from_process()
    limits.LIMITS.take(settings)
    return settings


def calling_environment() -> Settings:
    """Read the environment, and log what a ``.env`` gives and where the hub's token goes before anything is fetched."""
    settings = environment()
    warn((*file_notes(settings), *hub_notes(settings)))
    return settings


def runs_folder(runs: str | Path | None, settings: Settings) -> Path:
    """Return the folder of runs: the one that is named, else LAYTON_BATCH_RUNS, else ``runs``."""
    return named_runs(runs, settings) or runs_at(DEFAULT_RUNS)


def run_name(run: object) -> str | None:
    """Return the text that names a run; None for the only run. Raises DataError for what is no run."""
    if run is None:
        return None
    if not isinstance(run, str | Path | RunResult):
        raise DataError(
            f"run: a {type(run).__name__} is no run: give its name, folder or manifest, or the result of run"
        )
    return str(run.folder) if isinstance(run, RunResult) else str(run)


def manifest_path(manifest: object) -> Path | None:
    """Return the path of a manifest or of its run; None for the only run. Raises DataError for what is neither."""
    name = run_name(manifest)
    return None if name is None else user_path(name)


def run_folders(
    run: RunSource | Sequence[RunSource] | None, runs: str | Path | None, settings: Settings
) -> list[RunFolder]:
    """Return the folders of runs; None: the only run. Raises StoreError."""
    given = list(run) if isinstance(run, list | tuple) else [run]
    if not given:
        raise DataError("run: is empty; give a run, or None for the only one")
    names = [name for name in map(run_name, given) if name is not None]
    return find_each_run(names, runs_folder(runs, settings))


def dollars_text(amount: str | float | Decimal | None) -> str | None:
    """Return a budget as a manifest has it."""
    return None if amount is None else str(amount)


def names_of(given: object, argument: str) -> tuple[str, ...]:
    """Return names of files or models: one as a tuple of one. Raises ManifestError for anything else."""
    if isinstance(given, str | Path):
        return (str(given),)
    if not isinstance(given, list | tuple | None) or not all(isinstance(name, str | Path) for name in given or ()):
        raise ManifestError(f"{argument}: a {type(given).__name__} was given; give text, a path, or a list of them")
    return tuple(map(str, given or ()))
