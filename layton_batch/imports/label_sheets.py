"""Labels from spreadsheets: rows that `label-plan --output` wrote, filled in by people, back into their run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from layton_batch.files.sources import read_rows
from layton_batch.reports.label_sheet import (
    LabelTableAnswer,
    LabelTableResult,
    is_sheet,
    labels_of_sheet,
    sheet_answers,
)
from layton_batch.runs.context import Run
from layton_batch.runs.label_import import LabelImport, check_for_people, enter_labels
from layton_batch.scoring.annotations import parse_annotations
from layton_batch.settings import Settings


def import_sheets(run: Run, files: Sequence[Path], settings: Settings) -> tuple[LabelImport, int]:
    """Add the labels of these files to the run's. Return the result, and how many rows have no label yet.

    A file without the column ``label_id`` is one of annotations. Raises DataError naming file and line before anything
    changes.
    """
    check_for_people(run)
    answers = sheet_answers(run)
    read = [_labels(run, path, answers, settings) for path in files]
    given = [label for sheet in read for label in sheet.labels]
    return enter_labels(run, given, str(files[0])), sum(sheet.blank for sheet in read)


def _labels(run: Run, path: Path, answers: Sequence[LabelTableAnswer], settings: Settings) -> LabelTableResult:
    rows = read_rows(str(path), settings.cwd, settings)
    return labels_of_sheet(rows, answers, run.id) if is_sheet(rows) else LabelTableResult(parse_annotations(rows), 0)
