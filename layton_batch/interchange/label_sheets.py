"""Labels of people in files, into a run: rows of any tool, or what `label plan --out` wrote, filled in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.files.sources import Rows, read_rows
from layton_batch.reports.label_sheet import (
    SHEET_COLUMNS,
    LabelTableAnswer,
    check_has_label_ids,
    is_sheet,
    labels_of_sheet,
    sheet_answers,
)
from layton_batch.runs.context import Run
from layton_batch.runs.label_import import LabelImport, check_for_people, enter_labels
from layton_batch.scoring.annotations import COLUMNS, METRICS, Annotation, label_row, parse_annotations
from layton_batch.settings import Settings
from layton_batch.text import plural


def import_labels(run: Run, files: Sequence[Path], settings: Settings) -> tuple[LabelImport, list[str]]:
    """Add the labels of these files to the run's. Return the result, and notes on rows of sheets without a label and on
    columns that are not read.

    A file with the column ``label_id`` is a filled-in sheet. Raises DataError naming file and line before anything
    changes.
    """
    check_for_people(run)
    read = [_labels(run, path, settings) for path in files]
    given = _with_texts(run, [label for labels, _, _ in read for label in labels])
    unread = dict.fromkeys(column for _, _, columns in read for column in columns)
    return enter_labels(run, given, str(files[0])), [*_notes(given, sum(blank for _, blank, _ in read), unread)]


def _notes(given: Sequence[Annotation], blank: int, unread: Iterable[str]) -> Iterator[str]:
    """Yield how many rows have no label, and which columns are not read. Who marks only what is right leaves what is
    wrong empty."""
    if blank:
        marks = {label.mark(metric) for label in given for metric in METRICS} - {None}
        advice = "; all others say the same: if an empty cell means the opposite, fill it in" if len(marks) == 1 else ""
        yield f"{plural(blank, 'row')} without a label left out{advice}"
    if names := ", ".join(unread):
        yield f"columns that are not read: {names}"


def _with_texts(run: Run, labels: Sequence[Annotation]) -> list[Annotation]:
    """Add to each label without a text what its model answered, so that it never counts for another answer, such as of
    another model that takes the name. A label that is imported again keeps its text."""
    ids = run.model_ids()
    answers: dict[str, list[LabelTableAnswer]] = defaultdict(list)
    for answer in sheet_answers(run):
        answers[answer.item_id].append(answer)
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
            if label.provider in (None, answer.provider) and label.n_hints in (None, answer.n_hints)
        ]
        by_name = [answer for answer in fits if answer.model in (label.model, label.also)]
        meant = by_name or [answer for answer in fits if ids.get(answer.model) == label.model]
        return (meant[0].answer, meant[0].justification) if len(meant) == 1 else None

    return [
        label if label.prediction_text is not None else replace(label, prediction_text=text_of(label))
        for label in labels
    ]


def _labels(run: Run, path: Path, settings: Settings) -> tuple[Sequence[Annotation], int, list[str]]:
    """Return the labels of a file, how many rows of a sheet have none (yet), and the columns that are not read."""
    read = read_rows(str(path), settings.cwd, settings)
    rows = Rows([label_row(row, location) for location, row in read.placed()], read.locations)
    columns = dict.fromkeys(column for row in rows for column in row)
    if not is_sheet(rows):
        check_has_label_ids(rows, str(path))
        return parse_annotations(rows), 0, [column for column in columns if column not in COLUMNS]
    labels = labels_of_sheet(rows, sheet_answers(run), run.id)
    if rows and not labels:
        raise DataError(
            f"{path}: none of its {len(rows)} rows has a label: fill in answer_correct (true, false); "
            f"its columns are {', '.join(columns)}"
        )
    return labels, len(rows) - len(labels), [column for column in columns if column not in SHEET_COLUMNS]
