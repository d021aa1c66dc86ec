"""label import: labels that people gave elsewhere, into a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import polars as pl
import typer

from layton_batch.commands.notes import TextDocument
from layton_batch.commands.parameters import OneRun, Runs, environment, run_folders
from layton_batch.commands.sources import named_sources
from layton_batch.frames import as_files
from layton_batch.interchange.label_sheets import import_labels
from layton_batch.runs.open import read_run

if TYPE_CHECKING:
    from layton_batch.frames import Frame
    from layton_batch.runs.label_import import LabelImport


Labels: TypeAlias = "str | Path | Frame | Sequence[str | Path]"
"""Files of labels, or a table of them."""


@dataclass(frozen=True, slots=True)
class LabelImportDocument(TextDocument):
    """Counts of the labels that were taken in."""

    result: LabelImport

    @property
    def frame(self) -> pl.DataFrame:
        """Return one row that counts them."""
        return pl.DataFrame([asdict(self.result)])


def _split(names: list[str]) -> Mapping[str, object]:
    has_run = (len(names) > 1 and not os.path.isfile(names[0])) or names[0].endswith(".toml")
    return {"run": names[0] if has_run else None, "labels": names[1:] if has_run else names}


def label_import(
    run: Annotated[
        OneRun,
        list[str],
        _split,
        typer.Argument(metavar="[RUN] FILE...", help="The run (default: the only one), then the files."),
    ],
    labels: Labels,
    *,
    runs: Runs = None,
) -> LabelImportDocument:
    """Take in labels that people gave elsewhere.

    A row has `item_id` (or `riddle_id`), `model`, `answer_correct` and `justification_correct` (or
    `is_answer_correct` and `is_justification_correct`, as in layton-eval's annotation files), and may have
    `provider`, `n_hints`, `annotator`, `time`, `adjudicated` (true: it overrides the labels of several people) and the
    `answer` and `justification` that were judged. JSONL, Parquet or CSV.

    Or FILE is that of `label plan --out`, filled in, as CSV, XLSX, JSONL or Parquet. A row is known by its label_id;
    one without a label is left out; a wrong one is named, and then nothing changes.

    A file is checked as a whole before anything changes. The same file twice changes nothing. A later label of one
    annotator on one prediction takes the place of the earlier. The next `leaderboard` or `run` uses them.
    """
    settings = environment()
    with as_files(named_sources(labels, "labels")) as files:
        (folder,) = run_folders(run, runs, settings)
        with read_run(folder, settings) as opened:
            result, notes = import_labels(opened, [Path(file) for file in files], settings)
            return LabelImportDocument((*result.lines(), *notes), result)
