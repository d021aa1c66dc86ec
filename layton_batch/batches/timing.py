"""The moment of a decision and what the provider allows: whether a deadline, a patience or a retention is up.

Our clock alone has a batch stopped, or makes it ``lost``. It never gives up what was paid for, and never has anything
sent again: for that the provider must have refused or failed a number of downloads, or have said how each request
ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from layton_batch.clock import Pacing


@dataclass(frozen=True, slots=True)
class Terms:
    """What the provider and the manifest allow a batch, in seconds. ``lists``: whether the provider's list shows for
    certain that a batch does not exist. ``born``: when the run began, which was before anything else of it."""

    poll: float
    deadline: float
    window: float
    retention: float
    lists: bool = True
    born: float = 0.0


@dataclass(frozen=True, slots=True)
class At:
    """The moment of a decision, and what is measured by it."""

    now: float
    terms: Terms
    pacing: Pacing

    def is_after(self, moment: float | None) -> bool:
        """Whether the moment has passed by our clock."""
        return moment is not None and self.now > moment
