"""Labels of people in files, into a run: rows of any tool, or what `label plan --out` wrote, filled in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.files.sources import Rows, read_rows
from layton_batch.reports.label_sheet import (
    LabelTableAnswer,
    check_has_label_ids,
    is_sheet,
    labels_of_sheet,
    sheet_answers,
)
from layton_batch.runs.context import Run
from layton_batch.runs.label_import import LabelImport, check_has_jury, enter_labels
from layton_batch.scoring.annotations import COLUMNS, METRICS, Annotation, label_row, parse_annotations
from layton_batch.settings import Settings
from layton_batch.text import plural


def import_labels(run: Run, files: Sequence[Path], settings: Settings) -> tuple[LabelImport, list[str]]:
    """Add the labels of these files to the run's. Return the result, and notes on rows of sheets without a label and on
    columns that are not read.

    A file with the column ``label_id`` is a filled-in sheet. Raises DataError naming file and line before anything
    changes.
    """
    check_has_jury(run)
    labels, blank, unread = list[Annotation](), 0, dict[str, None]()
    for path in files:
        read = read_rows(str(path), settings.cwd, settings)
        rows = Rows([label_row(row, location) for location, row in read.placed()], read.locations)
        labels += (labels_of_file := _labels(run, rows, path))
        blank += len(rows) - len(labels_of_file)
        unread |= dict.fromkeys(column for row in rows for column in row if column not in COLUMNS)
    given = _with_texts(run, labels)
    notes = [_blank_note(given, blank)] if blank else []
    notes += [f"columns that are not read: {', '.join(unread)}"] if unread else []
    return enter_labels(run, given, str(files[0])), notes


def _blank_note(given: Sequence[Annotation], blank: int) -> str:
    """Say how many rows have no label. Who marks only what is right leaves what is wrong empty."""
    marks = {label.mark(metric) for label in given for metric in METRICS} - {None}
    advice = "; all others say the same: if an empty cell means the opposite, fill it in" if len(marks) == 1 else ""
    return f"{plural(blank, 'row')} without a label left out{advice}"


def _with_texts(run: Run, labels: Sequence[Annotation]) -> list[Annotation]:
    """Add to each label without a text what its model answered, so that it never counts for another answer, such as of
    another model that takes the name. A label that is imported again keeps its text."""
    ids = run.model_ids()
    answers: dict[str, list[LabelTableAnswer]] = defaultdict(list)
    for answer in sheet_answers(run):
        answers[answer.key.item_id].append(answer)
    texts_by_label = {
        replace(label, prediction_text=None, item_digest=None, model_id=None): label.prediction_text
        for label in run.load_labels().annotations
    }

    def text_of(label: Annotation) -> tuple[str, str | None] | None:
        if (same_label := replace(label, item_digest=None, model_id=None)) in texts_by_label:
            return texts_by_label[same_label]
        fits = [
            answer
            for answer in answers[label.item_id]
            if label.provider in (None, answer.key.provider) and label.n_hints in (None, answer.key.n_hints)
        ]
        by_name = [answer for answer in fits if answer.key.model in (label.model, label.also)]
        meant = by_name or [answer for answer in fits if ids.get(answer.key.model) == label.model]
        return (meant[0].answer, meant[0].justification) if len(meant) == 1 else None

    return [
        label if label.prediction_text is not None else replace(label, prediction_text=text_of(label))
        for label in labels
    ]


def _labels(run: Run, rows: Rows, path: Path) -> Sequence[Annotation]:
    if not is_sheet(rows):
        check_has_label_ids(rows, str(path))
        return parse_annotations(rows)
    labels = labels_of_sheet(rows, sheet_answers(run), run.id)
    if not labels:
        raise DataError(
            f"{path}: none of its {len(rows)} rows has a label: fill in answer_correct (true, false); "
            f"its columns are {', '.join(rows[0])}"
        )
    return labels
