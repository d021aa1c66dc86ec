"""The people who labelled, beside each other."""

from __future__ import annotations

from layton_batch.reports.statistics import print_sections
from layton_batch.scoring.annotator_agreement import AnnotatorAgreement
from layton_batch.scoring.judges_told import annotators_told


def print_annotators(agreement: AnnotatorAgreement | None) -> None:
    """Print the annotators' numbers of labels and their agreement; nothing without annotated answers."""
    print_sections(annotators_told(agreement))
