"""export: a run in the forms that others read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from layton_batch.commands.notes import TextDocument
from layton_batch.commands.parameters import OneRun, Runs, environment, run_folders
from layton_batch.errors import DataError
from layton_batch.files.sources import user_path
from layton_batch.interchange.writing import UNNAMED_ORGANIZATION, check_form, check_out, write_form
from layton_batch.runs.open import read_run


@dataclass(frozen=True, slots=True)
class FilesDocument(TextDocument):
    """Files that a command wrote. ``path``: the first page, the file, or the folder; ``lines``: what was written."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)


def _checked_form(to: str | None) -> str | None:
    """Check the form before Typer misses another option."""
    return None if to is None else check_form(to)


def export(
    run: OneRun,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORM",
            callback=_checked_form,
            help="ppi | annotations | results | items | votes | csv | parquet | eee | hf",
        ),
    ],
    out: Annotated[
        str | Path,
        Path,
        typer.Option("--out", help="The file to write (ppi, annotations, results, items, votes), or the folder."),
    ],
    *,
    organization: Annotated[str, typer.Option("--organization", help="eee: who evaluated.")] = UNNAMED_ORGANIZATION,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", help="hf: the benchmark, OWNER/NAME, or OWNER/NAME:ID with its id in eval.yaml."),
    ] = None,
    runs: Runs = None,
) -> FilesDocument:
    """Write a run down in the forms that others read. No network, no key.

    ppi, annotations, results: layton-eval's three files, JSONL: every answer with the verdicts and the label on it;
    the labels that people gave; the leaderboard. items: JSONL, the items with the explanations that people confirmed
    (`role = "justify"`). votes: Parquet, a row a prediction and metric, for a folder that `leaderboard` ranks with all
    that was put there. csv, parquet: the leaderboard, and every prediction with its question, reference, verdicts or
    marks, and people's label. eee: Every Eval Ever 0.3.0, a document a model and a line an item and metric, in its data
    store's folders; `leaderboard` reads the lines. hf: a file a model for `.eval_results/` of its repository on the
    hub. Models that are not done yet are left out of the last five.

    The file of votes ends in .parquet, any other single file in .jsonl. csv, parquet, eee and hf write several files.
    """
    settings, path = environment(), user_path(out)
    check_out(check_form(to), path)
    if isinstance(run, list | tuple):
        raise DataError("run: a list was given; give one run")
    (folder,) = run_folders(run, runs, settings)
    with read_run(folder, settings) as opened:
        line = write_form(opened, to, path, organization, dataset)
    return FilesDocument((line,), path)
