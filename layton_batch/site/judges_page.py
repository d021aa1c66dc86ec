"""The page of the judges: what `judges` says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from layton_batch.columns import Table
from layton_batch.scoring.judge_quality import read_record
from layton_batch.scoring.judges_told import (
    Section,
    annotators_told,
    diagnosis_told,
    mistakes_told,
    verdicts_told,
)
from layton_batch.site.board import RunSite
from layton_batch.site.items import ListedItem
from layton_batch.site.pages import plain_table, sentence, short_line

MOST_ROWS = 500
"""Most rows of a table that a page shows."""
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


def write_judges_page(site: RunSite, items: Sequence[ListedItem]) -> None:
    """Write the last board's findings about its judges. Raises DamagedTableError for a table that cannot be read."""
    record = read_record(site.folder.tables)
    sections: list[Mapping[str, object]] = []
    if record is not None:
        links = {item.item_id: f"items/{item.name}" for item in items}
        judges = [finding.judge for finding in record.diagnosis.judges]
        people = record.annotators and record.annotators.without_names()  # the page may be public
        findings = [*verdicts_told(record.verdicts), *diagnosis_told(record.diagnosis), mistakes_told(record.diagnosis),
                    *annotators_told(people)]  # fmt: skip
        sections = [_section(section, links, judges) for section in findings]
    site.write("judges.html", sections=sections)


def _section(section: Section, links: Mapping[str, str], judges: Sequence[str]) -> Mapping[str, object]:
    """Return a section for its page: ``why``: what its numbers are for; ``tables``: each with the numbers of its rows
    and of the rows left out; ``about``: judges or models, and what is known of each."""
    tables = [part for part in section.parts if isinstance(part, Table) and part.rows]
    remarks = [part for part in section.parts if not isinstance(part, Table)]
    return {
        "key": section.key,
        "title": short_line(section.title),
        "why": _WHY.get(section.key, ""),
        # without the command that only the maker of the board can use
        "sentences": [sentence(remark.text.partition(": `")[0]) for remark in remarks
                      if not remark.is_help and not remark.about],
        "tables": [
            (plain_table(replace(part, rows=part.rows[:MOST_ROWS]), section.title, links, judges), len(part.rows),
             max(len(part.rows) - MOST_ROWS, 0))
            for part in tables
        ],
        "about": [(short_line(remark.about), short_line(remark.text, 500)) for remark in remarks if remark.about],
        "help": [sentence(remark.text) for remark in remarks if remark.is_help],
    }  # fmt: skip
