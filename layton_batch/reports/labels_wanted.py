"""What people's labels would still do for a run's intervals."""

from __future__ import annotations

from layton_batch.runs.context import Run
from layton_batch.scoring.label_plan import outlook
from layton_batch.stages.rank import MOST_PLANNED, evidence
from layton_batch.text import plural


def labels_wanted(run: Run, name: str) -> str | None:
    """How many labels would halve every interval, and where they are made; None where there is nothing to label.
    ``name``: what the run is called on the command line."""
    if not run.task.uses_jury:
        return None
    ballots, labels = evidence(run, run.rules.metric)
    if not ballots or len(ballots) > MOST_PLANNED:
        return None
    found = outlook(ballots, labels, run.rules, length=0)
    if not found.halving:
        return None
    wanted, how = plural(found.halving, "label"), f"layton-batch annotate {name}"
    if labels:
        return f"{wanted} would halve the intervals for this set: {how}"
    then = outlook(ballots, labels, run.rules, steps=(found.halving,), length=0).gains[-1]
    return f"No answer has a person's label yet; {wanted} would give intervals of about ±{then.mean:.0f}: {how}"
