"""Labels of people in files, into a run: rows of any tool, or what `label-plan --out` wrote, filled in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.files.sources import read_rows
from layton_batch.reports.label_sheet import (
    LabelTableResult,
    check_has_label_ids,
    is_sheet,
    labels_of_sheet,
    sheet_answers,
)
from layton_batch.runs.context import Run
from layton_batch.runs.label_import import LabelImport, check_for_people, enter_labels
from layton_batch.scoring.annotations import parse_annotations
from layton_batch.settings import Settings


def import_labels(run: Run, files: Sequence[Path], settings: Settings) -> tuple[LabelImport, int]:
    """Add the labels of these files to the run's. Return the result, and how many rows of sheets have no label yet.

    A file with the column ``label_id`` is a filled-in sheet. Raises DataError naming file and line before anything
    changes.
    """
    check_for_people(run)
    read = [_labels(run, path, settings) for path in files]
    given = [label for labels in read for label in labels.labels]
    return enter_labels(run, given, str(files[0])), sum(labels.blank for labels in read)


def _labels(run: Run, path: Path, settings: Settings) -> LabelTableResult:
    rows = read_rows(str(path), settings.cwd, settings)
    if not is_sheet(rows):
        check_has_label_ids(rows, str(path))
        return LabelTableResult(parse_annotations(rows), 0)
    read = labels_of_sheet(rows, sheet_answers(run), run.id)
    if rows and not read.labels:
        columns = ", ".join(rows[0])
        raise DataError(
            f"{path}: none of its {len(rows)} rows has a label: fill in answer_correct (true, false); "
            f"its columns are {columns}"
        )
    return read
