"""What people's labels would still do for a run's intervals."""

from __future__ import annotations

from layton_batch.runs.context import Run
from layton_batch.scoring.label_plan import outlook, what_labels_do
from layton_batch.stages.rank import MOST_PLANNED, evidence
from layton_batch.text import plural


def labels_wanted(run: Run, name: str) -> str | None:
    """How many labels make every interval for new items about as short as labels can, and where they are made; None
    where there is nothing to label. ``name``: what the run is called on the command line."""
    if not run.task.uses_jury:
        return None
    ballots, labels = evidence(run, run.rules.metric)
    if not ballots or len(ballots) > MOST_PLANNED:
        return None
    found = outlook(ballots, labels, run.rules, length=0)
    if not found.enough.labels:
        return None
    if labels:
        return what_labels_do(found.enough.labels, found.gains[0].mean, found.enough.mean, name)
    wanted = plural(found.enough.labels, "label")
    return (
        f"No answer has a person's label yet; {wanted} would give intervals for new items of about "
        f"±{found.enough.mean:.0f}: layton-batch annotate {name}"
    )
