"""judges: how far each judge can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import polars as pl
import typer

from layton_batch.columns import Table
from layton_batch.commands.parameters import JurySources, Runs, names_of
from layton_batch.commands.sources import read_judged_sources
from layton_batch.grading.board_sources import BoardOptions
from layton_batch.interchange.score_table import TableColumns
from layton_batch.reports.table import Document, frame_of, heading, say_line, show
from layton_batch.scoring.judge_quality import AnnotatorAgreement, Diagnosis, JudgeReport, annotator_agreement, diagnose
from layton_batch.scoring.judges_told import (
    Section,
    annotators_told,
    diagnosis_told,
    mistakes_told,
    verdicts_told,
)
from layton_batch.scoring.verdict_counts import VerdictCounts
from layton_batch.text import plural


@dataclass(frozen=True, slots=True)
class JudgesDocument(Document):
    """Judges beside people. ``annotators``: agreement of the people; ``verdicts``: how each judge's verdicts ended."""

    diagnosis: Diagnosis
    annotators: AnnotatorAgreement | None
    verdicts: Sequence[VerdictCounts]
    lists_errors: bool

    @property
    def frame(self) -> pl.DataFrame:
        """Return a row a judge, in fractions, null where no label tells.

        ``accuracy`` with its interval, ``kappa`` (agreement beyond chance), ``leniency`` (verdict minus human label).
        """
        rows = [asdict(finding.report) | {"judge": finding.judge} for finding in self.diagnosis.judges]
        return frame_of(JudgeReport, rows, judge=pl.String())

    def show(self) -> None:
        """Print verdicts, judges, jury, votes and models, what the jury gets wrong, and the people."""
        sections = [*verdicts_told(self.verdicts), *diagnosis_told(self.diagnosis)]
        for section in [*sections, mistakes_told(self.diagnosis)] if self.lists_errors else sections:
            _print_section(section)
        if self.diagnosis.mistakes and not self.lists_errors:
            answers = plural(len(self.diagnosis.mistakes), "answer")
            say_line(f"{answers} where the majority contradicts the human label: --errors lists them", "dim")
        for section in annotators_told(self.annotators):
            _print_section(section)

    def as_json(self) -> object:
        verdicts = [judge.document() for judge in self.verdicts]
        annotators = None if self.annotators is None else asdict(self.annotators)
        return {**asdict(self.diagnosis), "annotators": annotators, "verdicts": verdicts}


def _print_section(section: Section) -> None:
    heading(section.title)
    for part in section.parts:
        if isinstance(part, Table):
            if part.rows:
                show(part)
        else:
            say_line(f"{part.about}: {part.text}" if part.about else part.text, "dim" if part.is_help else "")


def judges(
    source: JurySources = None,
    *,
    errors: Annotated[bool, typer.Option("--errors", help="List what the jury gets wrong, item by item.")] = False,
    metric: str | None = None,
    column: str | Sequence[str] | None = None,
    runs: Runs = None,
) -> JudgesDocument:
    """Measure the judges against people.

    Accuracy, agreement beyond chance, leniency by whose answers they judged, and how often people agree with each
    vote. If several people labelled a run's answers, their agreement with each other as well.
    """
    options = BoardOptions(metric=metric, columns=TableColumns.of(names_of(column, "column")))
    evidence = read_judged_sources(source, options, runs, verdicts=True)
    rules = evidence.rules
    diagnosis = diagnose(evidence.judged, evidence.rounds[0], evidence.drift)
    people = annotator_agreement(evidence.annotated, rules.metric, rules.level)
    return JudgesDocument(diagnosis, people, evidence.verdicts, errors)
