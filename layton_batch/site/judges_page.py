"""The page of the judges: what `judges` says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from markupsafe import Markup

from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring.diagnosis_record import DiagnosisRecord, read_record
from layton_batch.scoring.judges_told import (
    Section,
    annotators_told,
    diagnosis_told,
    mistakes_told,
    verdicts_told,
)
from layton_batch.site.html_table import plain_table
from layton_batch.site.pages import sentence, short_line
from layton_batch.text import Table

MOST_ROWS = 500
"""Of a table that a page shows."""
_WHY = {
    "judges": "Accuracy is the share of labelled answers on which the judge says what a person says. Kappa is the same "
    "beyond chance: 0 is no better than chance, 1 is full agreement.",
    "verdicts": "A verdict that nobody can read, or that was cut, refused or never came, counts for nothing: the jury "
    "of that answer is one judge shorter.",
    "drift": "A label says how often people agree with the votes of one jury. Where a judge has changed since, labels "
    "say less of its votes now.",
    "families": "A judge may be kinder to the answers of one maker than to another’s.",
    "jury": "The votes of all judges of an answer together. The rate is the share of answers with so many votes that "
    "people call correct: the board’s scores rest on it.",
    "mistakes": "Answers where most of the jury said the opposite of a person.",
    "annotators": "The people whose labels these numbers rest on.",
}


@dataclass(frozen=True, slots=True)
class ShownSection:
    """``why``: what its numbers are for; ``about``: judges or models, and what is known of each; ``tables``: each with
    the numbers of its rows and of the rows left out."""

    key: str
    title: str
    why: str
    sentences: tuple[str, ...]
    tables: tuple[tuple[Markup, int, int], ...]
    about: tuple[tuple[str, str], ...]
    help: tuple[str, ...]


def show_judges(folder: RunFolder, items: Mapping[str, str]) -> tuple[ShownSection, ...]:
    """Prepare the last board's findings about its judges; empty without judges. ``items``: page by item id.

    Raises DamagedTableError for a table that cannot be read.
    """
    record = read_record(folder.tables)
    if record is None:
        return ()
    sections = [
        *verdicts_told(record.verdicts),
        *diagnosis_told(record.diagnosis),
        mistakes_told(record.diagnosis),
        *annotators_told(record.annotators),
    ]
    return tuple(_section(section, record, items) for section in sections)


def _section(section: Section, record: DiagnosisRecord, items: Mapping[str, str]) -> ShownSection:
    tables = [part for part in section.parts if isinstance(part, Table) and part.rows]
    remarks = [part for part in section.parts if not isinstance(part, Table)]
    judges = [finding.judge for finding in record.diagnosis.judges]
    title = short_line(section.title)
    return ShownSection(
        key=section.key,
        title=title,
        why=_WHY.get(section.key, ""),
        sentences=tuple(_public(remark.text) for remark in remarks if not remark.is_help and not remark.about),
        tables=tuple(
            (plain_table(replace(table, rows=table.rows[:MOST_ROWS]), title, items, judges), len(table.rows),
             max(len(table.rows) - MOST_ROWS, 0))
            for table in tables
        ),
        about=tuple((short_line(remark.about), short_line(remark.text, 500)) for remark in remarks if remark.about),
        help=tuple(sentence(remark.text) for remark in remarks if remark.is_help),
    )  # fmt: skip


def _public(text: str) -> str:
    """Return a sentence without the command that only the maker of the board can use."""
    return sentence(text.partition(": `")[0])
