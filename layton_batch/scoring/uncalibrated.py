"""A board without any label: its condition in words, and the number of labels that it needs."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.text import plural

UNCALIBRATED = "uncalibrated"
CONDITION = (
    "Uncalibrated: no human label counts here. Scores and intervals assume judges that are right in about nine of ten "
    "cases; without labels nobody can tell worse judges."
)
AIM_POINTS = 3
"""The half width, in points, for which an uncalibrated board says how many labels it takes."""


def need(labels: Sequence[int | None]) -> str:
    """Explain an uncalibrated board in words. ``labels``: the number of labels that each row needs."""
    needed = [count for count in labels if count is not None]
    if not sum(needed):
        return CONDITION
    return (
        f"{CONDITION} About {plural(sum(needed), 'label')} would give ± {AIM_POINTS} points for every model on these "
        f"items: `layton-batch label plan RUN --this-set --half-width {AIM_POINTS}` says on which answers."
    )
