"""The moment of a decision, what the provider allows, and whether time is up.

What time decides cannot be undone: a paid batch is stopped, results are given up, a person is asked. A clock may be
days ahead for some seconds, and the program may be started anew for each look. So our clock is believed when it says
twice that time is up, and did not take it back in between; the first reading is kept in the store. A process that made
the first reading itself also has to have waited so long, whatever its clock says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from layton_batch.clock import Pacing
from layton_batch.records import Batch


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
    """The moment of a decision, and what is measured by it. ``waited``: seconds since this process itself noted the
    batch's ``late_since``; None: another process did."""

    now: float
    terms: Terms
    pacing: Pacing
    waited: float | None = None

    def is_up(self, batch: Batch, moment: float | None) -> tuple[Batch, bool]:
        """The batch with what our clock said kept in it, and whether ``moment`` has passed, by two readings."""
        since = batch.late_since
        if moment is None:
            return batch, False
        is_taken_back = since is not None and since > self.now
        if self.now <= moment:
            return (replace(batch, late_since=None) if is_taken_back else batch), False
        if since is None or is_taken_back or since <= moment:
            return replace(batch, late_since=self.now), False
        believed = self.pacing.clock_believed
        return batch, self.now - since >= believed and (self.waited is None or self.waited >= believed)
