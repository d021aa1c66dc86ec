"""Agreement of the people who label with each other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from layton_batch.scoring.annotations import JoinedLabels, majority
from layton_batch.stats.raters import Kappa, kappa


@dataclass(frozen=True, slots=True)
class AnnotatorAgreement:
    """``labels``: by annotator; ``several``: answers with two labels or more; ``ties``: those of them without a
    majority, which nobody settled; ``kappa``: None where no answer has two labels."""

    labels: dict[str, int]
    several: int
    ties: int
    level: float
    kappa: Kappa | None

    def without_names(self) -> AnnotatorAgreement:
        """Return the agreement with numbers instead of the annotators' names, most labels first."""
        counts = sorted(self.labels.values(), reverse=True)
        return replace(self, labels={f"person {number}:": count for number, count in enumerate(counts, 1)})


def annotator_agreement(joined: JoinedLabels, metric: str, level: float) -> AnnotatorAgreement | None:
    """Measure how far the annotators of a run's answers agree; None without annotations on this metric.

    Annotators without a name count as one annotator. Adjudicated labels are left out.
    """
    marks = [
        {
            annotation.annotator: mark
            for annotation in people.values()
            if not annotation.adjudicated and (mark := annotation.mark(metric)) is not None
        }
        for people in joined.by_prediction.values()
    ]
    counts = Counter(name for row in marks for name in row)
    if not counts:
        return None
    names = sorted(counts)
    ratings = np.array([[int(row.get(name, -1)) for name in names] for row in marks], dtype=np.int64)
    several = [
        (row, any(annotation.adjudicated for annotation in people.values()))
        for row, people in zip(marks, joined.by_prediction.values(), strict=True)
        if len(row) > 1
    ]
    return AnnotatorAgreement(
        labels={name: counts[name] for name in names},
        several=len(several),
        ties=sum(majority(list(row.values())) is None and not settled for row, settled in several),
        level=level,
        kappa=kappa(ratings, level=level),
    )
