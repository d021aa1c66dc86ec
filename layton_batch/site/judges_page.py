"""The page of the judges: what `judges` says of them, beside a drawing of how often each agrees with people."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring.diagnosis_record import DiagnosisRecord, read_record
from layton_batch.scoring.judge_quality import JudgeFinding
from layton_batch.scoring.judges_told import (
    Section,
    annotators_told,
    diagnosis_told,
    mistakes_told,
    verdicts_told,
)
from layton_batch.site.pages import sentence, short_line
from layton_batch.text import NONE, Table

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
    "own": "No judge sits on the jury of its own family’s answers; where it judged none of them, nobody can tell "
    "whether it favours them.",
    "jury": "The votes of all judges of an answer together. The rate is the share of answers with so many votes that "
    "people call correct: the board’s scores rest on it.",
    "worth": "A jury does not replace labels; it makes each count for more.",
    "mistakes": "Answers where most of the jury said the opposite of a person.",
    "annotators": "The people whose labels these numbers rest on.",
}


@dataclass(frozen=True, slots=True)
class SectionCell:
    """``address``: where it leads, empty for most."""

    text: str
    is_text: bool
    address: str = ""


@dataclass(frozen=True, slots=True)
class ShownTable:
    """``plots``: for each row the start, the middle and the width of an interval in percent of an axis from half right
    to all right; none where the table has no such column. ``more``: rows that are left out."""

    heads: tuple[SectionCell, ...]
    rows: tuple[tuple[SectionCell, ...], ...]
    plots: tuple[tuple[str, str, str] | None, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class ShownSection:
    """``why``: what its numbers are for; ``about``: judges or models, and what is known of each."""

    key: str
    title: str
    why: str
    sentences: tuple[str, ...]
    tables: tuple[ShownTable, ...]
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
    judges = {finding.judge for finding in record.diagnosis.judges}
    return ShownSection(
        key=section.key,
        title=short_line(section.title),
        why=_WHY.get(section.key, ""),
        sentences=tuple(sentence(remark.text) for remark in remarks if not remark.is_help and not remark.about),
        tables=tuple(_table(part, _plots(section, record), items, judges) for part in tables),
        about=tuple((short_line(remark.about), short_line(remark.text, 500)) for remark in remarks if remark.about),
        help=tuple(sentence(remark.text) for remark in remarks if remark.is_help),
    )


def _table(
    table: Table,
    plots: tuple[tuple[str, str, str] | None, ...],
    items: Mapping[str, str],
    judges: Collection[str],
) -> ShownTable:
    """Prepare a table without the columns that say nothing in any row. ``judges``: heads that stay as they are."""
    columns = [
        (place, column.name, column.is_text or column.name == "human label")
        for place, column in enumerate(table.columns)
        if any(row[place] not in ("", NONE) for row in table.rows)
    ]
    return ShownTable(
        heads=tuple(
            SectionCell(short_line(name) if name in judges else sentence(name), is_text) for _, name, is_text in columns
        ),
        rows=tuple(
            tuple(
                SectionCell(
                    short_line(row[place]), is_text, items.get(short_line(row[place]), "") if name == "item" else ""
                )
                for place, name, is_text in columns
            )
            for row in table.rows[:MOST_ROWS]
        ),
        plots=plots,
        more=max(len(table.rows) - MOST_ROWS, 0),
    )


def _plots(section: Section, record: DiagnosisRecord) -> tuple[tuple[str, str, str] | None, ...]:
    return tuple(_plot(judge) for judge in record.diagnosis.judges) if section.key == "judges" else ()


def _plot(judge: JudgeFinding) -> tuple[str, str, str] | None:
    report = judge.report
    if report.accuracy is None or report.lower is None or report.upper is None:
        return None
    low, middle, high = (200 * max(value - 0.5, 0.0) for value in (report.lower, report.accuracy, report.upper))
    return f"{low:.2f}%", f"{middle:.2f}%", f"{high - low:.2f}%"
