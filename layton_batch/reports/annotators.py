"""The people who labelled, beside each other."""

from __future__ import annotations

from layton_batch.reports.statistics import print_sections
from layton_batch.scoring.annotators import AnnotatorAgreement
from layton_batch.scoring.judges_told import annotators_told


def print_annotators(found: AnnotatorAgreement | None) -> None:
    """Who labelled how much, and how far they agree; nothing where no annotation is beside an answer."""
    print_sections(annotators_told(found))
